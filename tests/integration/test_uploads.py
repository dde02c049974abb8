"""Uploads through the app: who finds, opens, lists and deletes them, by every route."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.app import ROUTES, handle_call
from shared.bootstrap.build import build
from shared.bootstrap.clients import Clients
from shared.bootstrap.uploads import make_uploads
from shared.domain.errors import ClientDisconnected
from shared.http.call import DISCONNECT_POLL_SECONDS, Call
from shared.protocols.exchange import App
from shared.protocols.uploads.config import UploadsConfig
from shared.settings import SettingsError, read_settings
from shared.uploads.folder.store import FolderDraft, FolderUploads
from tests.support.calls import ANNA, BEN, JSON, BufferedReply, call, local_service, read
from tests.support.fakes import make_rag
from tests.support.servers import LAPTOP, SIGN_IN
from tests.support.uploads import FORM, LIMITS, encode_form

SECONDS = 120.0  # only a hang takes so long
KEY = "the-key-of-the-clients"
SETTINGS = {**LAPTOP, **SIGN_IN, "INDEX_FILE": "samples", "CHAT_MODEL": "demo", "UPLOADS": "on"}
SECRETS = {"anna": "quokka", "ben": "numbat"}
QUESTION = "Which animal is on the secret badge?"
ASKING = {"messages": [{"role": "user", "content": QUESTION}]}


def text_of(owner: str) -> bytes:
    return f"# Badges\n\nThe animal on the secret badge is the {SECRETS[owner]}.".encode()


def send(app: App, request: Call) -> BufferedReply:
    async def go() -> BufferedReply:
        return await read(await handle_call(app, request))

    return asyncio.run(go())


def upload(
    app: App, *files: tuple[str, bytes], headers: dict[str, str] = ANNA, name: str = "file"
) -> BufferedReply:
    return send(app, call("/upload", encode_form(*files, name=name), headers | FORM))


def names(app: App, headers: dict[str, str] = ANNA) -> Any:
    return send(app, call("/list_uploaded", headers=headers, method="GET")).json


def delete(app: App, name: str, headers: dict[str, str] = ANNA) -> BufferedReply:
    return send(app, call("/delete_uploaded", {"filename": name}, headers))


def describe(app: App, headers: dict[str, str] = ANNA) -> Any:
    return send(app, call("/uploads", headers=headers, method="GET")).json


def delete_by_id(app: App, id: str, headers: dict[str, str] = ANNA) -> BufferedReply:
    return send(app, call("/uploads/{id}", headers=headers, method="DELETE", path=id))


def wait_until_read(app: App) -> None:
    """Wait until each upload is ready or has failed."""
    store = app.config(UploadsConfig).uploads
    assert store is not None
    end = time.monotonic() + SECONDS
    while any(
        each.state in ("queued", "reading")
        for owner in SECRETS
        for each in asyncio.run(store.list(owner))
    ):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[App]:
    """An app where Anna and Ben have uploaded files of one name."""
    memory = {"MEMORY_FILE": str(folder.parent / "memory.db"), "CHAT_API_KEY": KEY}
    settings = read_settings({**SETTINGS, **memory, "UPLOADS_FOLDER": str(folder)})
    app = build(settings)
    for owner, headers in (("anna", ANNA), ("ben", BEN)):
        answer = upload(app, ("badge.md", text_of(owner)), headers=headers)
        assert answer.status in (200, 202)
    wait_until_read(app)
    yield app


def sourcefile(app: App, owner: str) -> str:
    store = app.config(UploadsConfig).uploads
    assert store is not None
    (upload,) = asyncio.run(store.list(owner))
    return upload.sourcefile


MCP = {"accept": "application/json, text/event-stream"}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def method(name: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}


SEARCH = {"ext": {"generative_qa_parameters": {"llm_question": QUESTION}}}
PARTS = {"messages": [{"role": "user", "parts": [{"type": "text", "text": QUESTION}]}]}
# Each way to a passage: the route, and the body, where `{file}` is the name of the document.
WAYS: list[Any] = [
    ("/chat", ASKING),
    ("/chat/stream", ASKING),
    ("/ask", ASKING),
    pytest.param(("/api/chat", PARTS), marks=pytest.mark.part("ui-message-stream")),
    pytest.param(("/aog/v0.2/services/{service}", ASKING), marks=pytest.mark.part("aog")),
    pytest.param(("/v1/chat/completions", ASKING), marks=pytest.mark.part("openai")),
    pytest.param(("/openai/v1/chat/completions", ASKING), marks=pytest.mark.part("openai")),
    pytest.param(("/v1/responses", {"input": QUESTION}), marks=pytest.mark.part("responses")),
    pytest.param(("/_search", SEARCH), marks=pytest.mark.part("opensearch")),
    pytest.param(("/{index}/_search", SEARCH), marks=pytest.mark.part("opensearch")),
    pytest.param(("/mcp", tool("search", query=QUESTION)), marks=pytest.mark.part("mcp")),
    pytest.param(("/mcp", tool("ask", question=QUESTION)), marks=pytest.mark.part("mcp")),
    pytest.param(("/mcp", tool("fetch", id="{file}")), marks=pytest.mark.part("mcp")),
    pytest.param(
        ("/mcp", method("resources/read", uri="document:///{file}")), marks=pytest.mark.part("mcp")
    ),
    pytest.param(("/content/{path}", None), marks=pytest.mark.part("content")),
]
PRINCIPAL = {
    "claims": [
        {"typ": "groups", "val": "anna"},
        {"typ": "tid", "val": "another-tenant"},
        {"typ": "roles", "val": "Chat.Admin"},
    ]
}
IN_GROUP = base64.b64encode(json.dumps(PRINCIPAL).encode()).decode()
STRANGERS = {
    "another user": BEN,
    "another tenant": JSON | {"x-ms-client-principal-id": "eve", "x-ms-client-principal": IN_GROUP},
    "a function key": JSON | {"x-functions-key": "k"},
    "the key of the app": JSON | {"api-key": KEY},
    "nobody": JSON,
}


def request(way: tuple[str, Any], headers: dict[str, str], file: str) -> Call:
    route, body = way
    places = {"{service}": "chat", "{index}": "documents", "/content/{path}": file}
    path = next((value for name, value in places.items() if name in route), "")
    if body is None:
        return call(route, headers=headers, method="GET", path=path)
    filled = json.loads(json.dumps(body).replace("{file}", file))
    return call(route, filled, headers | MCP, path=path)


@pytest.mark.parametrize("owner", ["anna", "ben"])
@pytest.mark.parametrize("way", WAYS)
def test_owner_finds_the_own_document_alone(app: App, way: tuple[str, Any], owner: str) -> None:
    headers = ANNA if owner == "anna" else BEN
    other = "ben" if owner == "anna" else "anna"
    text = send(app, request(way, headers, sourcefile(app, owner))).data.decode()

    assert SECRETS[owner] in text
    assert SECRETS[other] not in text
    assert sourcefile(app, other) not in text


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("way", WAYS)
def test_nobody_else_finds_a_document(app: App, way: tuple[str, Any], stranger: str) -> None:
    file = sourcefile(app, "anna")
    text = send(app, request(way, STRANGERS[stranger], file)).data.decode()

    assert SECRETS["anna"] not in text
    assert text.count(file) <= ("fetch" in str(way) or "resources" in str(way))  # in an error


@pytest.mark.parametrize(
    "overrides",
    [
        {"use_oid_security_filter": False, "use_groups_security_filter": False},
        {"include_category": "uploads"},
        {"top": 50},
        {"filter": "oids/any(g: g eq 'anna')"},
    ],
)
def test_no_override_shows_the_document_of_another(app: App, overrides: dict[str, Any]) -> None:
    body = {**ASKING, "context": {"overrides": overrides}}
    answer = send(app, call("/chat", body, BEN))

    assert answer.status == 200
    assert SECRETS["anna"] not in answer.data.decode()


def test_users_list_their_own_uploads(app: App) -> None:
    assert names(app, ANNA) == names(app, BEN) == ["badge.md"]
    assert names(app, STRANGERS["another tenant"]) == []


@pytest.mark.parametrize("stranger", ["a function key", "the key of the app", "nobody"])
def test_caller_without_an_id_has_no_uploads(app: App, stranger: str) -> None:
    headers = STRANGERS[stranger]
    answers = [
        upload(app, ("a.md", b"text"), headers=headers),
        send(app, call("/list_uploaded", headers=headers, method="GET")),
        send(app, call("/uploads", headers=headers, method="GET")),
        delete(app, "badge.md", headers),
        delete_by_id(app, describe(app)["uploads"][0]["id"], headers),
    ]

    assert [answer.status for answer in answers] == [403] * 5
    assert send(app, call("/config", headers=headers, method="GET")).json["showUserUpload"] is False
    assert "Sign in" in answers[0].json["error"]


def test_upload_of_another_cannot_be_deleted(app: App) -> None:
    (own,) = describe(app)["uploads"]
    for headers in (BEN, STRANGERS["another tenant"]):
        assert delete_by_id(app, own["id"], headers).status == 404
    assert delete(app, "badge.md", STRANGERS["another tenant"]).status == 404
    assert describe(app)["uploads"] == [own]


def test_users_see_the_state_of_their_own_uploads(app: App) -> None:
    answers = {name: describe(app, headers) for name, headers in (("anna", ANNA), ("ben", BEN))}
    ids = {name: answer["uploads"][0].pop("id") for name, answer in answers.items()}
    created = [answer["uploads"][0].pop("created_at") for answer in answers.values()]

    assert len(set(ids.values())) == 2
    assert all(abs(time.time() - each) < 3600 for each in created)
    assert answers == {
        name: {
            "uploads": [{"filename": "badge.md", "bytes": len(text_of(name)), "state": "ready"}],
            "max_bytes": 32 * 2**20,
            "max_uploads": 100,
        }
        for name in ids
    }
    assert describe(app, STRANGERS["another tenant"])["uploads"] == []


def test_page_offers_uploads_to_who_can_own_them(app: App) -> None:
    assert send(app, call("/config", headers=ANNA, method="GET")).json["showUserUpload"] is True


def test_page_of_another_site_cannot_upload(app: App) -> None:
    cookie = {"cookie": "AppServiceAuthSession=x", "sec-fetch-site": "cross-site"}
    assert upload(app, ("a.md", b"text"), headers=ANNA | cookie).status == 403


def test_every_way_to_a_passage_is_in_the_table(app: App) -> None:
    ways = {way.values[0][0] if hasattr(way, "values") else way[0] for way in WAYS}
    # Those that answer as one of the table does, under another address.
    same = ("/openai/", "/v1/models", "/v1/{*path}", "/v1/responses/")
    rest = {route for route in ROUTES if not route.startswith(same)} - ways
    without_passages = {
        *("/feedback", "/feedback/copies/{id}", "/health", "/config", "/auth_setup", "/"),
        *("/upload", "/list_uploaded", "/delete_uploaded", "/uploads", "/uploads/{id}"),
        *("/page/{path}", "/api/openapi.json"),
        *("/aog/v0.2/service", "/aog/v0.2/service_provider", "/aog/{*path}"),
    }
    others = {route for route in rest if not route.startswith(("/_", "/api/chat/"))}
    assert others - without_passages == set()


# The life of an upload, on an app of its own.


def quiet_app(folder: Path) -> App:
    """An app without sign-in that stores uploads, and reads none."""
    store = FolderUploads(folder, LIMITS, lambda: None)
    return local_service(make_rag(), configs=(UploadsConfig(store, wait_seconds=0),))


def contents(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in folder.rglob("content*"))


@pytest.fixture
def laptop(tmp_path: Path) -> App:
    """An app without sign-in."""
    values = {**SETTINGS, "WEBSITE_AUTH_ENABLED": "false", "MAX_UPLOADS": "3"}
    return build(read_settings({**values, "UPLOADS_FOLDER": str(tmp_path / "uploads")}))


def test_laptop_has_one_owner(laptop: App) -> None:
    answer = upload(laptop, ("badge.md", text_of("anna")), headers=JSON)
    end = time.monotonic() + SECONDS
    while SECRETS["anna"] not in (text := send(laptop, call("/chat", ASKING)).data.decode()):
        assert time.monotonic() < end, (answer, text)
        time.sleep(0.2)
    file = re.search(r"upload-[a-z2-7]+/badge\.md", text)
    assert file

    assert answer.json["message"].startswith("File uploaded")
    assert delete(laptop, "badge.md", JSON).json == {
        "message": "File badge.md deleted successfully"
    }
    assert SECRETS["anna"] not in send(laptop, call("/chat", ASKING)).data.decode()
    assert send(laptop, call("/content/{path}", path=file[0], method="GET")).status == 404
    assert names(laptop, JSON) == []


def test_unreadable_file_is_refused_with_the_reason(laptop: App) -> None:
    files = [("program.exe", b"\x00\x01"), ("fake.pdf", b"text")]
    answer = upload(laptop, *files, headers=JSON)

    assert answer.status == 422
    assert answer.json["message"] == (
        "program.exe: There is no reader for this type of file. "
        "fake.pdf: Its content is not what its name says."
    )


def test_client_that_prefers_it_waits_for_no_reading(laptop: App) -> None:
    prefer = JSON | {"prefer": "Respond-Async, wait=9"}
    answer = upload(laptop, ("badge.md", text_of("anna")), ("fake.pdf", b"x"), headers=prefer)
    end = time.monotonic() + SECONDS
    while {it["state"] for it in describe(laptop, JSON)["uploads"]} & {"queued", "reading"}:
        assert time.monotonic() < end
        time.sleep(0.1)
    uploads = {it["filename"]: it for it in describe(laptop, JSON)["uploads"]}

    assert answer.status == 202
    assert uploads["badge.md"]["state"] == "ready"
    assert uploads["fake.pdf"]["state"] == "failed"
    assert uploads["fake.pdf"]["reason"] == "Its content is not what its name says."
    assert delete_by_id(laptop, uploads["fake.pdf"]["id"], JSON).status == 204
    assert names(laptop, JSON) == ["badge.md"]
    assert delete_by_id(laptop, uploads["fake.pdf"]["id"], JSON).status == 404


def test_form_is_stored_whole_or_not_at_all(laptop: App) -> None:
    files = [(f"{number}.md", b"text") for number in range(4)]
    answer = upload(laptop, *files, headers=JSON)

    assert answer.status == 429
    assert answer.json["error"].startswith("You have 3 uploads")
    assert names(laptop, JSON) == []


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (encode_form(("a.md", b"x"), name="document"), FORM, 400, "file: is required"),
        (encode_form(), FORM, 400, "file: is required"),
        (encode_form(("..", b"x")), FORM, 400, "file: must have a file name"),
        (encode_form(("a.md", b"x"))[:-20], FORM, 400, "ends before it is complete"),
        (b"nonsense", FORM, 400, "ends before it is complete"),
        (b"{}", JSON, 415, "multipart/form-data"),
        (encode_form(("a.md", b"x")), FORM | {"content-encoding": "gzip"}, 415, "multipart"),
        (encode_form(("a.md", b"x")), {"content-type": "multipart/form-data"}, 400, "read"),
        (b"x", {"content-type": "multipart/form-data; boundary*=utf-7''%2B2AA-"}, 400, "read"),
    ],
)
def test_wrong_form_is_refused(
    laptop: App, body: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    answer = send(laptop, call("/upload", body, headers))

    assert answer.status == status
    assert message in answer.json["error"]
    assert names(laptop, JSON) == []


@pytest.mark.parametrize("size", [1, 7, 64])
def test_form_in_pieces_is_read(tmp_path: Path, size: int) -> None:
    app, text = quiet_app(tmp_path), b"\r\n--a-bound\r\nx" * 9
    form = encode_form(("a.md", text), ("b.md", b""))
    pieces = [form[start : start + size] for start in range(0, len(form), size)]

    assert send(app, call("/upload", pieces, FORM)).status == 202
    assert contents(tmp_path) == [b"", text]


def test_connection_is_not_checked_while_the_body_arrives(tmp_path: Path) -> None:
    """Starlette's check takes the next piece of the body."""
    checks = list[str]()

    async def check() -> bool:
        checks.append("check")
        return False

    async def arrive_slowly() -> AsyncIterator[bytes]:
        yield form[:100]
        await asyncio.sleep(2 * DISCONNECT_POLL_SECONDS)
        yield form[100:]
        arrived.append(len(checks))

    form, arrived = encode_form(("a.md", b"x" * 200)), list[int]()
    request = replace(call("/upload", headers=FORM, gone=check), body=arrive_slowly())

    assert send(quiet_app(tmp_path), request).status == 202
    assert arrived == [0]


def test_deadline_before_the_passages_is_a_202(tmp_path: Path) -> None:
    app = quiet_app(tmp_path)
    app = replace(app, limits=replace(app.limits, request_seconds=1.5))
    app = replace(app, configs=(UploadsConfig(app.config(UploadsConfig).uploads), *app.configs))

    assert upload(app, ("a.md", b"text"), headers=JSON).status == 202


def test_failure_while_files_are_stored_keeps_none(tmp_path: Path) -> None:
    class Failing(FolderUploads):
        async def begin(self, owner: str, name: str) -> FolderDraft:
            draft = await super().begin(owner, name)
            if name == "b.md":
                await draft.discard()  # so that it cannot be stored
            return draft

    store = Failing(tmp_path, LIMITS, lambda: None)
    app = replace(quiet_app(tmp_path), configs=(UploadsConfig(store, 0),))
    answer = upload(app, ("a.md", b"text"), ("b.md", b"text"), headers=JSON)

    assert answer.status >= 400
    assert names(app, JSON) == []


def test_large_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "uploads"
    values = {**SETTINGS, "MAX_UPLOAD_MEGABYTES": "1", "UPLOADS_FOLDER": str(folder)}
    answer = upload(build(read_settings(values)), ("large.md", b"x" * (2**20 + 1)))

    assert answer.status == 413
    assert answer.json["error"] == "large.md is larger than 1 MB, the limit of a file."
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_stalled_upload_ends(tmp_path: Path) -> None:
    values = {**SETTINGS, "BODY_TIMEOUT_SECONDS": "0.05", "UPLOADS_FOLDER": str(tmp_path)}
    app = build(read_settings(values))

    async def stall() -> AsyncIterator[bytes]:
        yield encode_form(("a.md", b"x" * 100))[:150]
        await asyncio.Event().wait()

    answer = send(app, replace(call("/upload", headers=ANNA | FORM), body=stall()))

    assert answer.status == 408
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_client_that_leaves_stores_nothing(tmp_path: Path) -> None:
    app = build(read_settings({**SETTINGS, "UPLOADS_FOLDER": str(tmp_path)}))

    async def leave() -> AsyncIterator[bytes]:
        yield encode_form(("a.md", b"x" * 100))[:150]
        raise ClientDisconnected

    answer = send(app, replace(call("/upload", headers=ANNA | FORM), body=leave()))

    assert answer.status == 499
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_uploads_are_off_by_default(tmp_path: Path) -> None:
    app = build(read_settings({key: text for key, text in SETTINGS.items() if key != "UPLOADS"}))

    assert upload(app, ("a.md", b"text")).status == 404
    assert send(app, call("/list_uploaded", headers=ANNA, method="GET")).status == 404
    assert send(app, call("/uploads", headers=ANNA, method="GET")).status == 404
    assert delete(app, "a.md").status == delete_by_id(app, "upload-1").status == 404
    assert send(app, call("/config", headers=ANNA, method="GET")).json["showUserUpload"] is False


@pytest.mark.parametrize(
    "values",
    [
        {"RETRIEVER": "tests.support.fakes:fake_retriever"},
        {"AZURE_FUNCTIONS_ENVIRONMENT": "Production"},
    ],
)
def test_uploads_elsewhere_are_refused_at_the_start(values: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="UPLOADS=on works on a laptop"):
        build(read_settings({**SETTINGS, **values}))


def test_folder_of_the_index_is_refused(tmp_path: Path) -> None:
    values = {"INDEX_FILE": str(tmp_path / "index.db"), "UPLOADS_FOLDER": str(tmp_path)}
    clients = Clients(read_settings({**SETTINGS, **values}))
    with pytest.raises(SettingsError, match="UPLOADS_FOLDER must not be"):
        make_uploads(clients, "local")
