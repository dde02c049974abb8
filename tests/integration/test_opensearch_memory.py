"""The memory API over a real store: both ages, their errors, and who sees what."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shared.http.auth import AccessPolicy
from shared.http.call import Limits
from shared.protocols.opensearch.memory import MAX_CONTAINERS
from shared.protocols.opensearch.routes import HANDLERS
from tests.support.calls import ANNA, BEN, JSON, Client, local_service
from tests.support.fakes import make_rag
from tests.support.stores import build_client, sqlite_memory

OLD = "/_plugins/_ml/memory/conversation"
NEW = "/_plugins/_ml/memory"
TURN = {
    "input": "How do I make an interaction?",
    "prompt_template": "Hello OpenAI, can you answer this question? [INFO] \n [QUESTION]",
    "response": "Hello, this is OpenAI. Here is the answer to your question.",
    "origin": "MyFirstOpenAIWrapper",
    "additional_info": "Additional text related to the answer",
}


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Client]:
    with sqlite_memory(tmp_path) as memory:
        yield Client(local_service(make_rag(), memory=memory))


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Client]:
    access = AccessPolicy(sign_in=True, single_user=False)
    with sqlite_memory(tmp_path) as memory:
        yield Client(local_service(make_rag(), access, memory=memory), ANNA)


def error(kind: str, reason: str, status: int) -> dict[str, Any]:
    cause = {"type": kind, "reason": reason}
    return {"error": {"root_cause": [cause], **cause}, "status": status}


def test_the_documents_conversation(laptop: Client) -> None:
    created = laptop("POST", OLD, {"name": "Example conversation"})
    (conversation,) = created.json.values()
    added = laptop("POST", f"{OLD}/{{id}}", TURN, conversation)
    (interaction,) = added.json.values()
    listed = laptop("GET", OLD, max_results=3, next_token=0)
    inside = laptop("GET", f"{OLD}/{{id}}", path=conversation)
    gone = laptop("DELETE", f"{OLD}/{{id}}", path=conversation)

    assert {got.status for got in (created, added, listed, inside, gone)} == {200}
    assert created.json == {"conversation_id": conversation}
    assert added.json == {"interaction_id": interaction}
    (named,) = listed.json["conversations"]
    assert named == {
        "conversation_id": conversation,
        "name": "Example conversation",
        "create_time": named["create_time"],
    }
    assert "next_token" not in listed.json
    (interaction_json,) = inside.json["interactions"]
    assert interaction_json == {
        "interaction_id": interaction,
        "conversation_id": conversation,
        "create_time": interaction_json["create_time"],
        **TURN,
    }
    assert gone.json == {"success": True}
    assert laptop("GET", OLD).json == {"conversations": []}


def test_the_later_names_and_their_order(laptop: Client) -> None:
    created = laptop("POST", NEW, {"name": "first"})
    memory = created.json["memory_id"]
    info = {"suggestion": "api.openai.com", "deep": [1, {"x": None}]}
    ids = [
        laptop("POST", f"{NEW}/{{id}}/messages", body, memory).json["message_id"]
        for body in ({"input": "one", "additional_info": info}, {"response": "two"})
    ]
    listed = laptop("GET", f"{NEW}/{{id}}/messages", path=memory)
    renamed = laptop("PUT", f"{NEW}/{{id}}", {"name": "second"}, memory)
    changed = laptop("PUT", f"{NEW}/message/{{id}}", {"additional_info": {"liked": True}}, ids[0])
    one = laptop("GET", f"{NEW}/message/{{id}}", path=ids[0])

    assert created.json == {"memory_id": memory}
    assert [it["message_id"] for it in listed.json["messages"]] == ids
    first, second = listed.json["messages"]
    assert first["additional_info"] == info
    assert (first["response"], second["input"], second["additional_info"]) == ("", "", "")
    assert renamed.json == {
        "_index": ".plugins-ml-memory-meta",
        "_id": memory,
        "result": "updated",
    }
    assert (changed.json["_id"], changed.json["result"]) == (ids[0], "updated")
    assert one.json["additional_info"] == {"liked": True}
    assert (one.json["memory_id"], one.json["input"]) == (memory, "one")
    item = laptop("GET", f"{NEW}/{{id}}", path=memory).json
    assert item == {"memory_id": memory, "name": "second", "create_time": item["create_time"]}
    assert laptop("GET", NEW).json["memories"] == [item]
    assert laptop("DELETE", f"{NEW}/{{id}}", path=memory).json == {"success": True}


def test_both_ages_see_the_same_conversations(laptop: Client) -> None:
    conversation = laptop("POST", OLD).json["conversation_id"]
    laptop(
        "POST",
        f"{NEW}/{{id}}/messages",
        {"input": "one", "additional_info": {"a": 1}},
        conversation,
    )
    laptop("POST", f"{OLD}/{{id}}", {"input": "two", "additional_info": "text"}, conversation)

    old = laptop("GET", f"{OLD}/{{id}}", path=conversation).json["interactions"]
    new = laptop("GET", f"{NEW}/{{id}}/messages", path=conversation).json["messages"]

    assert [it["input"] for it in old] == ["two", "one"]
    assert [it["input"] for it in new] == ["one", "two"]
    assert [it["additional_info"] for it in old] == ["text", '{"a": 1}']
    assert [it["additional_info"] for it in new] == [{"a": 1}, "text"]


def test_additional_information_that_is_no_object_stays_as_it_was_said(laptop: Client) -> None:
    texts = ['["a", "b"]', "7", '{"x": 1e400}', '{"x": NaN}', "{", ""]
    conversation = laptop("POST", NEW).json["memory_id"]
    for text in texts:
        body = {"input": "x", "additional_info": text}
        assert laptop("POST", f"{NEW}/{{id}}/messages", body, conversation).status == 200

    listed = laptop("GET", f"{NEW}/{{id}}/messages", path=conversation)
    assert [it["additional_info"] for it in listed.json["messages"]] == texts


def test_no_answer_is_kept_by_a_browser(laptop: Client) -> None:
    assert laptop("GET", OLD).headers["Cache-Control"] == "no-store"


def test_a_turn_of_the_largest_length_is_stored(laptop: Client) -> None:
    conversation = laptop("POST", OLD, {"name": "mine"}).json["conversation_id"]
    turn = {"input": "a" * 40_000, "response": "b" * 40_000}

    assert laptop("POST", f"{OLD}/{{id}}", turn, conversation).status == 200
    (stored,) = laptop("GET", f"{OLD}/{{id}}", path=conversation).json["interactions"]
    assert (stored["input"], stored["response"]) == (turn["input"], turn["response"])


def test_a_full_page_says_where_the_next_one_begins(laptop: Client) -> None:
    for name in "GFEDCBA":
        laptop("POST", OLD, {"name": name})

    def names(**query: Any) -> tuple[str, int | None]:
        got = laptop("GET", OLD, **query).json
        return "".join(it["name"] for it in got["conversations"]), got.get("next_token")

    assert names() == ("ABCDEFG", None)
    assert names(max_results=7) == ("ABCDEFG", 7)
    assert names(max_results=3) == ("ABC", 3)
    assert names(max_results=3, next_token=3) == ("DEF", 6)
    assert names(max_results=3, next_token=6) == ("G", None)
    assert names(max_results=3, next_token=100) == ("", None)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"max_results": 0}, "max_results: must be 1 or more"),
        ({"max_results": -1}, "max_results: must be 1 or more"),
        ({"max_results": 101}, "max_results: must be 100 or less"),
        ({"max_results": "ten"}, "max_results: must be a whole number"),
        ({"next_token": -1}, "next_token: must be 0 or more"),
        ({"next_token": 10**12}, "next_token: must be less than 2147483648"),
        ({"next_token": 10**30}, "next_token: must be a whole number"),
        ({"max_results": "1_0"}, "max_results: must be a whole number"),
        ({"max_results": "1.0"}, "max_results: must be a whole number"),
    ],
)
@pytest.mark.parametrize("route", [OLD, NEW])
def test_a_wrong_page_is_named(
    laptop: Client, route: str, query: dict[str, Any], reason: str
) -> None:
    got = laptop("GET", route, **query)

    assert (got.status, got.json) == (400, error("illegal_argument_exception", reason, 400))


@pytest.mark.parametrize(
    ("method", "route", "body", "reason"),
    [
        ("POST", OLD, {"name": 7}, "name: must be a string"),
        ("POST", OLD, {"name": "x" * 1001}, "name: must have 1000 characters at most"),
        ("POST", OLD, [1], "The body must be a JSON object."),
        ("POST", OLD, b"{", "The body is not valid JSON (line 1 column 1)."),
        ("POST", f"{OLD}/{{id}}", {}, None),
        ("POST", f"{OLD}/{{id}}", {"input": "", "origin": None}, None),
        ("POST", f"{NEW}/{{id}}/messages", {"additional_info": {}}, None),
        (
            "POST",
            f"{NEW}/{{id}}/messages",
            b'{"additional_info": {"x": 1e400}}',
            "additional_info: contains a number out of range",
        ),
        (
            "POST",
            f"{OLD}/{{id}}",
            {"input": "x" * 40_000, "response": "y" * 40_001},
            "input, prompt_template, response, origin, additional_info: 80000 characters at most, "
            "together",
        ),
        ("POST", f"{OLD}/{{id}}", {"input": ["x"]}, "input: must be a string"),
        ("POST", f"{OLD}/{{id}}", {"additional_info": {}}, "additional_info: must be a string"),
        ("PUT", f"{NEW}/{{id}}", {}, "name: is required: nothing else can be changed"),
        (
            "PUT",
            f"{NEW}/message/{{id}}",
            {"input": "changed"},
            "additional_info: is required: nothing else can be changed",
        ),
    ],
)
def test_a_wrong_body_is_named_and_nothing_is_stored(
    laptop: Client, method: str, route: str, body: Any, reason: str | None
) -> None:
    conversation = laptop("POST", OLD, {"name": "mine"}).json["conversation_id"]
    nothing = "at least one of input, prompt_template, response, origin, additional_info must not "
    got = laptop(method, route, body, conversation)

    assert (got.status, got.media_type) == (400, "application/json")
    expected = error("illegal_argument_exception", reason or f"{nothing}be empty", 400)
    assert got.json == expected
    assert [it["name"] for it in laptop("GET", OLD).json["conversations"]] == ["mine"]
    assert laptop("GET", f"{OLD}/{{id}}", path=conversation).json == {"interactions": []}


VERBS = [
    (method, route)
    for route in HANDLERS
    for method in HANDLERS[route]
    if "{id}" in route and route.startswith(NEW) and not route.endswith(("traces", "_search"))
]


def store_turn(client: Client) -> dict[str, str]:
    """A conversation with something in it, and their ids by the routes that name them."""
    conversation = client("POST", OLD, {"name": "private"}).json["conversation_id"]
    interaction = client("POST", f"{OLD}/{{id}}", TURN, conversation).json["interaction_id"]
    return {route: interaction if "/message/" in route else conversation for _, route in VERBS}


@pytest.mark.parametrize(("method", "route"), VERBS)
def test_what_is_anothers_cannot_be_told_from_what_is_not_there(
    cloud: Client, method: str, route: str
) -> None:
    ids = store_turn(cloud)
    body = {"name": "stolen", "additional_info": "stolen"}
    before = cloud("GET", OLD).json, cloud("GET", f"{OLD}/{{id}}", path=ids[f"{OLD}/{{id}}"]).json
    ben = cloud.as_(BEN)
    foreign = ben(method, route, body, ids[route])
    missing = ben(method, route, body, "0" * 24)

    assert (foreign.status, missing.status) == (404, 404)
    assert foreign.data.replace(ids[route].encode(), b"0" * 24) == missing.data
    kind = "Interaction" if "/message/" in route else "Conversation"
    reason = f"{kind} [{ids[route]}] not found"
    assert foreign.json == error("resource_not_found_exception", reason, 404)
    after = cloud("GET", OLD).json, cloud("GET", f"{OLD}/{{id}}", path=ids[f"{OLD}/{{id}}"]).json
    assert after == before
    assert ben("GET", OLD).json == {"conversations": []}


MEMORY_ROUTES = [(m, r) for r in HANDLERS for m in HANDLERS[r] if r.startswith(NEW)]


@pytest.mark.parametrize(("method", "route"), MEMORY_ROUTES)
def test_nobody_in_particular_gets_nothing_where_people_sign_in(
    cloud: Client, method: str, route: str
) -> None:
    got = cloud.as_(JSON)(method, route, {"name": "x", "additional_info": "x"}, "id")

    if route.endswith(("traces", "_search")):
        assert got.status == 501
        return
    reason = "Sign in: a conversation belongs to the user who started it."
    assert (got.status, got.json) == (401, error("security_exception", reason, 401))


def test_in_azure_without_a_sign_in_nobody_owns_a_conversation(tmp_path: Path) -> None:
    with sqlite_memory(tmp_path) as memory:
        client = Client(
            local_service(make_rag(), AccessPolicy(single_user=False), memory=memory), ANNA
        )

    assert client("POST", OLD).status == 401
    assert "sign-in, which is off here" in client("GET", NEW).json["error"]["reason"]


def test_conversations_are_closed_wherever_nothing_says_that_it_is_a_laptop(tmp_path: Path) -> None:
    file = {"MEMORY_FILE": str(tmp_path / "memory.db"), "INDEX_FILE": "samples"}
    for name in ("WEBSITE_INSTANCE_ID", "CONTAINER_NAME", "WEBSITE_POD_NAME", "WEBSITE_SITE_NAME"):
        with build_client({**file, name: "x"}) as azure:
            assert azure("GET", NEW).status == 401
    for name in ("CONTAINER_APP_NAME", "KUBERNETES_SERVICE_HOST"):
        with build_client({**file, name: "x", "AZURE_FUNCTIONS_ENVIRONMENT": ""}) as container:
            assert container("GET", NEW).status == 401
    with build_client(file) as laptop:
        assert laptop("GET", NEW).status == 200


def test_settings_say_for_how_long_and_which_index(tmp_path: Path) -> None:
    file = {"MEMORY_FILE": str(tmp_path / "memory.db"), "INDEX_FILE": "samples"}
    search = {"query": {"match": {"text": "deductible"}}}
    with build_client({**file, "MEMORY_DAYS": "2"}) as client:
        client("POST", NEW)
        response = client("POST", "/{index}/_search", search, "documents")
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        ((created, until),) = connection.execute("SELECT created, expires FROM conversation")
    azure = {"AZURE_SEARCH_ENDPOINT": "https://127.0.0.1:1", "AZURE_SEARCH_INDEX": "mine"}
    with build_client(azure) as client:
        other = client("POST", "/{index}/_search", search, "documents")

    assert abs(until - datetime.fromisoformat(created).timestamp() - 2 * 86400) < 5
    assert response.status == 200
    assert "the index here is mine" in other.json["error"]["reason"]


def test_a_setting_says_how_many_conversations_one_may_have(tmp_path: Path) -> None:
    file = {"MEMORY_FILE": str(tmp_path / "memory.db"), "INDEX_FILE": "samples"}
    with build_client({**file, "MAX_CONVERSATIONS": "2"}) as client:
        old, later, refused = client("POST", OLD), client("POST", NEW), client("POST", NEW)
        client("DELETE", f"{NEW}/{{id}}", path=later.json["memory_id"])
        again = client("POST", OLD)

    assert {old.status, later.status, again.status} == {200}
    reason = "The limit of 2 stored conversations is reached: delete some to begin another."
    assert refused.json == error("illegal_argument_exception", reason, 400)


def test_a_setting_says_how_many_megabytes_one_may_store(tmp_path: Path) -> None:
    file = {"MEMORY_FILE": str(tmp_path / "memory.db"), "INDEX_FILE": "samples"}
    turn = {"input": "漢" * 70_000}
    with build_client({**file, "MAX_STORED_MEGABYTES": "1"}) as client:
        memory = client("POST", NEW).json["memory_id"]
        added = [client("POST", f"{NEW}/{{id}}/messages", turn, memory) for _ in range(10)]
        deleted = client("DELETE", f"{NEW}/{{id}}", path=memory)
        again = client("POST", NEW)

    assert [each.status for each in added] == [200] * 5 + [400] * 5
    reason = "The limit of 1 MB of stored conversations is reached: delete some to store more."
    assert added[-1].json == error("illegal_argument_exception", reason, 400)
    assert (deleted.status, again.status) == (200, 200)


@pytest.mark.parametrize(("method", "route"), MEMORY_ROUTES)
def test_without_memory_the_routes_say_which_settings_turn_it_on(method: str, route: str) -> None:
    got = Client(local_service(make_rag()))(
        method, route, {"name": "x", "additional_info": "x"}, "id"
    )

    assert (got.status, got.json["error"]["type"]) == (501, "unsupported_operation_exception")
    if not route.endswith(("traces", "_search")):
        assert "AZURE_COSMOS_ENDPOINT" in got.json["error"]["reason"]
        assert "MEMORY_FILE" in got.json["error"]["reason"]


@pytest.mark.parametrize(
    "route", [f"{NEW}/_search", f"{NEW}/{{id}}/_search", "/_plugins/_ml/{*path}"]
)
def test_what_is_not_here_says_so(laptop: Client, route: str) -> None:
    got = laptop("POST", route, {"query": {"match_all": {}}}, "id")

    assert (got.status, got.json["status"]) == (501, 501)
    assert got.json["error"]["type"] == "unsupported_operation_exception"


@pytest.mark.parametrize("route", sorted(HANDLERS.keys() - {"/"}))  # `/` is also the page's
def test_another_method_is_refused_in_opensearchs_shape(laptop: Client, route: str) -> None:
    got = laptop("PATCH", route)

    assert (got.status, got.json["error"]["type"]) == (405, "method_not_allowed_exception")
    assert got.headers["Allow"] == ", ".join(HANDLERS[route])


def test_a_body_may_be_compressed(laptop: Client) -> None:
    zipped = Client(laptop.service, JSON | {"content-encoding": "gzip"})
    body = gzip.compress(json.dumps({"name": "zipped"}).encode())
    pieces = [body[:7], body[7:9], body[9:]]

    assert zipped("POST", OLD, body).status == 200
    assert zipped("POST", OLD, pieces).status == 200
    assert [it["name"] for it in laptop("GET", OLD).json["conversations"]] == ["zipped", "zipped"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{}", 400, "The body is not valid gzip."),
        (gzip.compress(b'{"name": "x"}', mtime=0)[:-9], 400, "The gzip body is truncated."),
        (gzip.compress(b" " * 100_000, mtime=0), 413, "larger than the limit of 1000 bytes"),
        (gzip.compress(b"{}", mtime=0) + bytes(500), 400, "has data after its end"),
        (gzip.compress(b"{}", mtime=0) + bytes(2000), 413, "larger than the limit of 1000 bytes"),
        (
            gzip.compress(b"{}", mtime=0)[:10] + b"\0\0\0\xff\xff" * 1000,
            413,
            "larger than the limit of 1000 bytes",
        ),
        (
            gzip.compress(b'{"name": "' + b"x" * 1000 + b'"}', mtime=0),
            413,
            "larger than the limit of 1000 bytes",
        ),
    ],
)
def test_a_compressed_body_is_held_to_the_same_limit(body: bytes, status: int, reason: str) -> None:
    service = local_service(make_rag(), limits=Limits(json_bytes=1000))
    got = Client(service, JSON | {"content-encoding": "gzip"})("POST", OLD, body)

    assert got.status == status
    assert reason in got.json["error"]["reason"]


def test_a_body_needs_no_type_where_there_is_none(laptop: Client) -> None:
    bare = laptop.as_({})

    assert bare("POST", OLD).status == 200
    assert bare("GET", OLD).status == 200
    assert laptop.as_({"content-encoding": "gzip"})("GET", OLD).status == 200


def test_a_body_needs_its_type_as_no_other_site_can_send_it(laptop: Client) -> None:
    for headers in ({}, {"content-type": "text/plain"}):
        assert laptop.as_(headers)("POST", OLD, b"{}").status == 415


def test_a_bomb_is_not_unpacked_beyond_the_limit() -> None:
    service = local_service(make_rag(), limits=Limits(json_bytes=1_000_000))
    client = Client(service, JSON | {"content-encoding": "gzip"})
    bomb = gzip.compress(bytes(200_000_000))
    tracemalloc.start()
    try:
        got = client("POST", OLD, bomb)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert got.status == 413
    assert most < 20_000_000


def test_additional_information_of_many_lists_is_refused_as_an_object_and_stays_a_text(
    laptop: Client,
) -> None:
    conversation = laptop("POST", NEW).json["memory_id"]
    route, many = f"{NEW}/{{id}}/messages", list[Any]([[]] * MAX_CONTAINERS)
    refused = laptop("POST", route, {"additional_info": {"a": many}}, conversation)
    text = json.dumps({"a": many})
    laptop("POST", route, {"additional_info": text}, conversation)
    (stored,) = laptop("GET", route, path=conversation).json["messages"]

    assert refused.status == 400
    reason = "additional_info: must have 2000 lists and objects at most"
    assert refused.json["error"]["reason"] == reason
    assert stored["additional_info"] == text
