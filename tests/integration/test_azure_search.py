"""The app with the Azure SDK against a fake Azure AI Search: requests, security, errors."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import azure.core.exceptions
import httpx
import pytest
from azure.core.credentials import AccessToken

from shared.domain import errors
from shared.retrieval.azure_search.client import RankerUnavailable, make_index, map_errors
from tests.support.azure_cli import ERROR_TEXTS, write_cli
from tests.support.azurite import AzuriteCredential
from tests.support.fake_search import FIELDS, FakeSearch, document
from tests.support.search_app import (
    DOCS,
    PUBLIC,
    SELECT,
    USERS,
    app,
    ask,
    home,
    notes,
    visible_names,
)
from tests.support.servers import SIGN_IN, free_port
from tests.support.upstream import (
    Exchange,
    Step,
    Upstream,
    error_response,
    http_chunk,
    json_response,
    response_head,
)

__all__ = ["home"]  # fixtures


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[tuple[FakeSearch, Upstream, httpx.Client]]:
    """Text only, with a ranker and sign-in that forces nothing."""
    more = {
        "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "ranking",
        **SIGN_IN,
        "FORCE_SECURITY_FILTERS": "false",
        "SEARCH_SECONDS": "1.5",
    }
    with app(home, **more) as parts:
        yield parts


@pytest.fixture
def text(running: tuple[FakeSearch, Upstream, httpx.Client]) -> tuple[FakeSearch, httpx.Client]:
    search, _, client = running
    search.requests.clear()
    search.plan.clear()
    search.ranker, search.partial = True, False
    return search, client


@pytest.fixture(scope="module")
def embedding(home: Path) -> Iterator[tuple[FakeSearch, Upstream, httpx.Client]]:
    """With an embedding model."""
    with app(home, OPENAI_EMBEDDING_MODEL="e", SEARCH_SECONDS="1.5") as parts:
        yield parts


def hit_ids(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [hit["id"] for hit in response.json()["context"]["thoughts"][2]["description"]]


QUERY = "say x; deductible"
BARE = {"search": QUERY, "filter": PUBLIC, "select": SELECT, "top": 10}
RANKED = {
    "queryType": "semantic",
    "semanticConfiguration": "ranking",
    "semanticQuery": QUERY,
    "semanticErrorHandling": "partial",
}
REQUESTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, BARE),
    ({"top": 7, "retrieval_mode": "text"}, {**BARE, "top": 7}),
    ({"include_category": "a'b"}, {**BARE, "filter": f"{PUBLIC} and category eq 'a''b'"}),
    (
        {"exclude_category": "a'b"},
        {**BARE, "filter": f"{PUBLIC} and (category ne 'a''b' or category eq null)"},
    ),
    ({"semantic_ranker": True}, {**BARE, **RANKED}),
    (
        {"semantic_ranker": True, "semantic_captions": True},
        {**BARE, **RANKED, "captions": "extractive|highlight-false"},
    ),
]


@pytest.mark.parametrize(("overrides", "body"), REQUESTS)
def test_a_search_is_this_request(
    text: tuple[FakeSearch, httpx.Client], overrides: dict[str, Any], body: dict[str, Any]
) -> None:
    search, client = text
    response = ask(client, **overrides)

    assert response.status_code == 200
    assert [request.body for request in search.requests] == [body]
    assert search.requests[0].headers["authorization"] == "Bearer token-of-az"
    assert notes(response) == []


def test_a_search_selects_only_the_fields_that_are_used() -> None:
    assert set(SELECT.split(",")) == FIELDS


def test_the_filter_has_the_enabled_security_filters(
    text: tuple[FakeSearch, httpx.Client],
) -> None:
    search, client = text
    ask(client, "bert", use_oid_security_filter=True, use_groups_security_filter=True)
    public = "(not oids/any() and not groups/any())"
    oid = "oids/any(o: o eq 'oid-b')"
    groups = "groups/any(g: search.in(g, 'g2,g3', ','))"

    assert search.requests[0].body["filter"] == f"({public} or {oid} or {groups})"


@pytest.mark.parametrize("oid", [False, True])
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("user", [None, *USERS])
def test_a_user_sees_public_passages_and_those_that_an_enabled_filter_matches(
    text: tuple[FakeSearch, httpx.Client], user: str | None, groups: bool, oid: bool
) -> None:
    _, client = text
    filters = {"use_oid_security_filter": oid, "use_groups_security_filter": groups}
    response = ask(client, user, top=50, **filters)
    if user is None and (oid or groups):
        assert response.status_code == 401
        return

    assert hit_ids(response) == [*visible_names(user, oid, groups), "plan", "other"]


def test_quotes_in_categories_are_escaped(text: tuple[FakeSearch, httpx.Client]) -> None:
    _, client = text

    assert hit_ids(ask(client, top=50, include_category="a'b")) == ["plan"]
    assert "plan" not in hit_ids(ask(client, top=50, exclude_category="a'b"))
    assert "public" in hit_ids(ask(client, top=50, exclude_category="a'b"))


def test_scores_and_captions_are_in_the_response(text: tuple[FakeSearch, httpx.Client]) -> None:
    _, client = text
    response = ask(client, semantic_ranker=True, semantic_captions=True, top=1)
    context = response.json()["context"]
    hit = context["thoughts"][2]["description"][0]

    assert (hit["score"], hit["reranker_score"]) == (1.5, 2.5)
    assert context["data_points"]["text"] == ["public.md: caption of public"]
    assert context["thoughts"][1]["props"]["use_semantic_captions"] is True


def test_the_same_text_is_returned_once(text: tuple[FakeSearch, httpx.Client]) -> None:
    search, client = text
    search.docs = [document("a"), document("b", content="The deductible  in a.\n"), document("c")]
    ids = hit_ids(ask(client, top=50))
    search.docs = DOCS

    assert ids == ["a", "c"]


def test_passages_below_the_minimum_scores_are_excluded(
    text: tuple[FakeSearch, httpx.Client],
) -> None:
    search, client = text
    search.scores["plan"] = 9.0
    ranked: dict[str, Any] = {"semantic_ranker": True, "top": 50}

    assert hit_ids(ask(client, top=50, minimum_search_score=5)) == ["plan"]
    assert hit_ids(ask(client, **ranked, minimum_reranker_score=3)) == []
    assert len(hit_ids(ask(client, **ranked, minimum_reranker_score=2))) == 3
    search.scores.clear()


def test_a_missing_ranker_is_noticed_once(home: Path) -> None:
    with app(home, AZURE_SEARCH_SEMANTIC_CONFIGURATION="ranking") as (search, _, client):
        search.ranker = False
        first, second = ask(client, semantic_ranker=True), ask(client, semantic_ranker=True)

    assert [request.body.get("queryType") for request in search.requests] == [
        "semantic",
        None,
        None,
    ]
    assert hit_ids(first) == hit_ids(second) == ["public", "plan", "other"]
    for response in (first, second):
        assert [note.split()[0] for note in notes(response)] == ["semantic_ranker"]


def test_a_partial_ranking_has_a_note(text: tuple[FakeSearch, httpx.Client]) -> None:
    search, client = text
    search.partial = True
    response = ask(client, semantic_ranker=True)

    assert hit_ids(response) == ["public", "plan", "other"]
    assert notes(response)[0].startswith("semantic_ranker ranked a part only")


def vector_query(**query: Any) -> list[dict[str, Any]]:
    return [{"k": 50, "fields": "embedding", **query}]


def test_a_search_with_an_embedding_model_is_hybrid_by_default(home: Path) -> None:
    with app(home, OPENAI_EMBEDDING_MODEL="e") as (search, model, client):
        hybrid, vectors = ask(client), ask(client, retrieval_mode="vectors")
        plain = ask(client, retrieval_mode="text")
        named = ask(client, vector_fields=["embedding", "foo"])
    queries = vector_query(kind="vector", vector=[0.25, 0.5])
    embedded = [request.body for request in model.requests]

    assert [request.body.get("vectorQueries") for request in search.requests] == [
        queries,
        queries,
        None,
        queries,
    ]
    assert [request.body.get("search") for request in search.requests] == [
        QUERY,
        None,
        QUERY,
        QUERY,
    ]
    assert embedded[0] == {"model": "e", "input": [QUERY], "encoding_format": "base64"}
    assert len(embedded) == 3
    assert hybrid.json()["context"]["thoughts"][1]["props"]["has_vector"] is True
    assert [notes(each) for each in (hybrid, vectors, plain)] == [[], [], []]
    assert notes(named) == ["vector_fields was left out: this index has no field foo."]


def test_an_embedding_server_may_answer_with_numbers(home: Path) -> None:
    with app(home, OPENAI_EMBEDDING_MODEL="e") as (search, model, client):
        model.plan.append(embedding_response([1, 0.5]))
        assert ask(client).status_code == 200

    assert search.requests[0].body["vectorQueries"][0]["vector"] == [1, 0.5]


def test_hits_may_come_in_several_responses(text: tuple[FakeSearch, httpx.Client]) -> None:
    search, client = text
    first, second = (search.hit(document(name), ranked=False, captions=False) for name in "pq")
    rest = {"search": QUERY, "select": SELECT, "top": 1, "skip": 1}
    search.plan += [
        json_response({"value": [first], "@search.nextPageParameters": rest}),
        json_response({"value": [second]}),
    ]
    response = ask(client)

    assert hit_ids(response) == ["p", "q"]
    assert search.requests[1].body == rest


def test_a_vectorizer_replaces_the_embedding_model(home: Path) -> None:
    with app(home, AZURE_SEARCH_VECTORIZER="true") as (search, model, client):
        response = ask(client)

    assert search.requests[0].body["vectorQueries"] == vector_query(kind="text", text=QUERY)
    assert model.requests == []
    assert notes(response) == []


def test_a_vector_search_without_vectors_is_a_text_search(
    text: tuple[FakeSearch, httpx.Client],
) -> None:
    _, client = text
    response = ask(client, retrieval_mode="vectors", vector_fields=["embedding"])

    assert [note.split()[0] for note in notes(response)] == ["retrieval_mode", "vector_fields"]


def test_the_names_of_fields_are_configurable(home: Path) -> None:
    fields = json.dumps({"content": "chunk", "oids": "users"})
    with app(home, AZURE_SEARCH_FIELDS=fields) as (search, _, client):
        search.plan.append([])
        response = ask(client)

    assert response.status_code == 503  # the strict index has no such fields
    assert "chunk" in search.requests[0].body["select"].split(",")
    assert "not users/any()" in search.requests[0].body["filter"]


GARBAGE = [
    response_head(200, {"Content-Type": "application/json"}),
    http_chunk(b"<html>"),
    b"0\r\n\r\n",
]
CUT = [
    response_head(200, {"Content-Type": "application/json"}),
    http_chunk(b'{"value": ['),
    Exchange.reset,
]
NO_DATE = "Mon, 01 Jan 99999999999 00:00:00 GMT"
FAILURES: list[Any] = [
    pytest.param([error_response(429)], 429, "1", 1, id="429"),
    pytest.param([error_response(429, {"Retry-After": "30"})], 429, "30", 1, id="429, long wait"),
    pytest.param([error_response(429, {"Retry-After": "0"})] * 2, 429, "1", 2, id="429 twice"),
    pytest.param([error_response(429, {"Retry-After": "0"})], 200, None, 2, id="429 once"),
    pytest.param([error_response(429, {"Retry-After": NO_DATE})], 429, "1", 1, id="429, no date"),
    pytest.param([error_response(503, {"Retry-After": "0"})], 200, None, 2, id="503 once"),
    pytest.param([error_response(503, {"Retry-After": "20"})], 503, "20", 1, id="503, long wait"),
    pytest.param([error_response(500)], 503, "1", 1, id="500"),
    pytest.param([error_response(502)], 200, None, 2, id="502 once"),
    pytest.param([error_response(502)] * 2, 503, "1", 2, id="502 twice"),
    pytest.param([error_response(502, {"Retry-After": "20"})], 503, "20", 1, id="502, long wait"),
    pytest.param([error_response(503)], 200, None, 2, id="503 without Retry-After, once"),
    pytest.param([error_response(503)] * 2, 503, "1", 2, id="503 without Retry-After, twice"),
    pytest.param([error_response(503), [Exchange.reset]], 503, "1", 2, id="503, then reset"),
    pytest.param([[Exchange.reset], error_response(503)], 503, "1", 2, id="reset, then 503"),
    pytest.param([[Exchange.reset], error_response(429)], 429, "1", 2, id="reset, then 429"),
    pytest.param([error_response(401)], 503, None, 1, id="401"),
    pytest.param([error_response(403)], 503, None, 1, id="403"),
    pytest.param([error_response(404, code="IndexNotFound")], 503, None, 1, id="404"),
    pytest.param([error_response(400, code="InvalidRequest")], 503, None, 1, id="400"),
    pytest.param([[Exchange.reset]], 200, None, 2, id="closed once"),
    pytest.param([[Exchange.rst]], 200, None, 2, id="reset once"),
    pytest.param([[Exchange.reset]] * 2, 503, "1", 2, id="closed twice"),
    pytest.param([[Exchange.rst]] * 2, 503, "1", 2, id="reset twice"),
    pytest.param([[b"garbage\r\n\r\n"]], 503, "1", 1, id="garbage"),
    pytest.param([GARBAGE], 503, "1", 1, id="a 200 that is no JSON"),
    pytest.param([json_response(7)], 503, "1", 1, id="a 200 of another shape"),
    pytest.param([CUT], 503, "1", 1, id="cut body"),
    pytest.param([[*CUT[:2], Exchange.rst]], 503, "1", 1, id="reset body"),
    pytest.param([[Exchange.stall]], 504, None, 1, id="stall"),
    pytest.param(
        [[response_head(200), Exchange.stall]], 504, None, 1, id="stall after the headers"
    ),
]


@pytest.mark.parametrize(("plan", "status", "retry_after", "times"), FAILURES)
def test_a_failed_search_has_its_status_and_the_next_one_works(
    text: tuple[FakeSearch, httpx.Client],
    plan: list[list[Step]],
    status: int,
    retry_after: str | None,
    times: int,
) -> None:
    search, client = text
    search.plan += plan
    response = ask(client)

    assert (response.status_code, len(search.requests)) == (status, times)
    assert response.headers.get("Retry-After") == retry_after
    assert "upstream" not in response.text
    assert ask(client).status_code == 200


def embedding_response(vector: Any) -> list[Step]:
    return json_response({"data": [{"index": 0, "embedding": vector}]})


# Failures of the embedding model that may be over soon, with the status of a search by vectors
# alone, and what the log says of the cause.
FOR_THE_MOMENT: list[Any] = [
    pytest.param(
        [error_response(429, {"Retry-After": "30"})],
        429,
        "TooManyRequests: e: status 429",
        id="429",
    ),
    pytest.param([error_response(429)] * 2, 429, "TooManyRequests: e: status 429", id="429 twice"),
    pytest.param([error_response(500)] * 2, 503, "Unavailable: e: status 500", id="500"),
    pytest.param([error_response(503)] * 2, 503, "Unavailable: e: status 503", id="503"),
    pytest.param([[Exchange.reset]] * 2, 503, "Unavailable: e: connection closed", id="reset"),
    pytest.param([CUT], 503, "Unavailable: e: ", id="cut body"),
    pytest.param([[Exchange.stall]], 504, "DeadlineExceeded: e: TimeoutError", id="stall"),
]
# Others have the operator act.
LASTING: list[Any] = [
    pytest.param([error_response(401)], 503, id="401"),
    pytest.param([error_response(404)], 503, id="404"),
    pytest.param([error_response(400)], 400, id="400"),
    pytest.param([error_response(405)], 503, id="405"),
    pytest.param([error_response(501)] * 2, 503, id="501"),
    pytest.param([GARBAGE], 503, id="a 200 that is no JSON"),
    pytest.param([json_response(7)], 503, id="a 200 of another shape"),
    pytest.param([json_response({"data": None})], 503, id="no vectors"),
    pytest.param([json_response({"data": []})], 503, id="too few vectors"),
    pytest.param([json_response({"data": [{"index": 0}]})], 503, id="a vector without numbers"),
    pytest.param([embedding_response("?")], 503, id="a vector that is no base64"),
    pytest.param([embedding_response("AAA=")], 503, id="a vector with half a number"),
    pytest.param([embedding_response(["a"])], 503, id="a vector of words"),
]
WORDS_ALONE = (
    "retrieval_mode hybrid was left out: the embedding model is busy or not available at the "
    "moment; text was used."
)


def read_log(home: Path) -> str:
    """The log of the server that was started last."""
    return max(home.glob("dev-*.log"), key=lambda path: path.stat().st_mtime).read_text("utf-8")


@pytest.mark.parametrize(("plan", "status", "cause"), FOR_THE_MOMENT)
def test_failure_for_the_moment_fails_a_search_by_vectors_alone(
    embedding: tuple[FakeSearch, Upstream, httpx.Client],
    plan: list[list[Step]],
    status: int,
    cause: str,
) -> None:
    search, model, client = embedding
    search.requests.clear()
    model.plan += plan
    response = ask(client, retrieval_mode="vectors")

    assert response.status_code == status
    assert search.requests == []
    assert ask(client, retrieval_mode="vectors").status_code == 200


@pytest.mark.parametrize("overrides", [{}, {"retrieval_mode": "hybrid"}])
@pytest.mark.parametrize(("plan", "status", "cause"), FOR_THE_MOMENT)
def test_hybrid_search_goes_on_by_words(
    embedding: tuple[FakeSearch, Upstream, httpx.Client],
    home: Path,
    plan: list[list[Step]],
    status: int,
    cause: str,
    overrides: dict[str, Any],
) -> None:
    search, model, client = embedding
    by_text = ask(client, retrieval_mode="text")
    search.requests.clear()
    model.plan += plan
    before = read_log(home)
    response = ask(client, **overrides, vector_fields=["embedding"])
    (line,) = (each for each in read_log(home)[len(before) :].splitlines() if "WARNING" in each)

    assert hit_ids(response) == hit_ids(by_text)
    assert notes(response) == [WORDS_ALONE]
    assert [request.body for request in search.requests] == [BARE]
    searched = response.json()["context"]["thoughts"][1]
    assert searched == by_text.json()["context"]["thoughts"][1]
    assert "search: by words alone, the embedding model failed: " + cause in line
    assert "deductible" not in line
    assert notes(ask(client, **overrides)) == []
    assert "vectorQueries" in search.requests[-1].body


@pytest.mark.parametrize("mode", ["hybrid", "vectors"])
@pytest.mark.parametrize(("plan", "status"), LASTING)
def test_failure_that_lasts_has_its_status_in_every_mode(
    embedding: tuple[FakeSearch, Upstream, httpx.Client],
    plan: list[list[Step]],
    status: int,
    mode: str,
) -> None:
    search, model, client = embedding
    search.requests.clear()
    model.plan += plan
    response = ask(client, retrieval_mode=mode)

    assert response.status_code == status
    assert response.headers.get("Retry-After") is None
    assert search.requests == []
    assert notes(ask(client, retrieval_mode=mode)) == []


def test_question_waits_no_longer_than_retries_may(home: Path) -> None:
    """A wait of minutes is not waited for: the search by words begins at once."""
    with app(home, OPENAI_EMBEDDING_MODEL="e", SEARCH_SECONDS="600") as (search, model, client):
        model.plan.append(error_response(429, {"Retry-After": "120"}))
        response = ask(client)

    assert notes(response) == [WORDS_ALONE]
    assert len(model.requests) == len(search.requests) == 1


def test_health_reports_a_failing_index(home: Path) -> None:
    with app(home) as (search, _, client):
        search.plan.append(error_response(403))
        failing, later = client.get("/health").json(), client.get("/health").json()

    assert failing["index"] == "Azure AI Search"
    assert failing["failing"]["index"].startswith(errors.Misconfigured.default)
    assert "the role Search Index Data Reader?" in failing["failing"]["index"]  # on a laptop
    assert later == failing  # the result is cached for half a minute
    assert [request.body["top"] for request in search.requests] == [0]


def test_health_counts_the_passages_of_an_index(home: Path) -> None:
    with app(home) as (search, _, client):
        full = client.get("/health").json()
    with app(home) as (search, _, client):
        search.docs = []
        empty = client.get("/health").json()

    assert full["details"]["index"] == {"name": "docs", "passages": len(DOCS), "search": "words"}
    assert empty["status"] == "degraded"
    assert empty["failing"]["index"].startswith("The index has no passages: fill it")


@pytest.mark.part("page")
@pytest.mark.parametrize(
    "answer",
    [
        error_response(400),
        error_response(503),
        json_response({"value": []}),
        json_response({"value": [], "@search.facets": {"category": [{"count": 1}]}}),
        [Exchange.stall],
    ],
)
def test_page_starts_without_the_categories_if_they_cannot_be_read(
    home: Path, answer: list[Step]
) -> None:
    with app(home, SEARCH_SECONDS="600") as (search, _, client):
        whole = client.get("/config").json()["overrides"]
        search.plan += [answer] * 3  # a 503 is repeated
        without = client.get("/config", timeout=20).json()["overrides"]

    (values,) = (each["values"] for each in whole if each["name"] == "include_category")
    assert values == sorted({doc["category"] for doc in DOCS if doc["category"]})
    assert [each.get("values") for each in without if each["name"] == "include_category"] == [None]


def test_searches_share_one_connection(home: Path) -> None:
    with app(home) as (search, _, client):
        for _ in range(5):
            ask(client)

    assert search.connections == 1


@pytest.mark.parametrize("end", [Exchange.reset, Exchange.rst])
def test_a_search_reconnects_after_the_service_closes_the_connection(home: Path, end: Step) -> None:
    with app(home, OPENAI_EMBEDDING_MODEL="e") as (search, model, client):
        before = ask(client)
        search.plan.append([end])
        model.plan.append([end])
        after = ask(client)

    assert hit_ids(after) == hit_ids(before)
    assert (search.connections, model.connections) == (2, 2)
    assert (len(search.requests), len(model.requests)) == (3, 3)


class ExpiredCredential(AzuriteCredential):
    """A credential with expired tokens: each attempt of a request gets another."""

    def __init__(self) -> None:
        self.attempts = 0

    async def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        self.attempts += 1
        return AccessToken("token", 0)


def search_refused_port(port: int) -> tuple[errors.ChatError, int]:
    """The error of a search at a local port that is closed, and the number of attempts."""

    async def run() -> tuple[errors.ChatError, int]:
        credential = ExpiredCredential()
        index = make_index(f"https://127.0.0.1:{port}", "docs", credential)
        with pytest.raises(errors.Unavailable) as failure:
            try:
                await index.search({"search": "a question"}, 5)
            finally:
                await index.client.close()
        return failure.value, credential.attempts

    return asyncio.run(run())


def test_a_refused_connection_is_not_retried_and_its_address_is_logged() -> None:
    port = free_port()
    failure, attempts = search_refused_port(port)

    assert attempts == 1
    assert failure.cause == f"search: connection refused: https://127.0.0.1:{port}"


def test_an_answer_makes_one_search_one_embedding_one_chat_call_and_one_log_line(
    home: Path,
) -> None:
    more = {"CHAT_MODEL": "openai", "OPENAI_EMBEDDING_MODEL": "e"}
    with app(home, **more) as (search, model, client):
        assert ask(client).status_code == 200
        log = max(home.glob("dev-*.log"), key=lambda path: path.stat().st_mtime).read_text("utf-8")
    paths = [request.path for request in model.requests]

    assert paths == ["/v1/embeddings", "/v1/chat/completions"]
    assert model.connections == 1
    assert len(search.requests) == 1
    assert log.count(" POST /chat ") == 1
    assert "HTTP" not in log
    assert "deductible" not in log


def test_an_error_without_an_identity_says_az_login(home: Path, tmp_path: Path) -> None:
    for name in ERROR_TEXTS:
        write_cli(tmp_path, name, None)
    with app(home, PATH=f"{tmp_path}{os.pathsep}/bin") as (search, _, client):
        response = ask(client)

    assert response.status_code == 503
    assert "az login" in response.json()["error"]
    assert search.requests == []


def test_every_exception_of_the_sdk_is_mapped() -> None:
    kinds = [k for k in list(vars(azure.core.exceptions).values()) if isinstance(k, type)]
    sdk: set[Any] = {k for k in kinds if issubclass(k, azure.core.exceptions.AzureError)}
    assert len(sdk) > 15
    kind: Any
    for kind in sdk | {TimeoutError}:
        raised = kind.__new__(kind)
        if issubclass(kind, azure.core.exceptions.HttpResponseError):
            raised.error = raised.response = raised.status_code = None

        with pytest.raises((errors.ChatError, RankerUnavailable)), map_errors():
            raise raised
