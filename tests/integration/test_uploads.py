"""Uploads through the app: the life of one, and what is refused."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from shared.bootstrap.build import build
from shared.bootstrap.clients import Clients
from shared.bootstrap.uploads import make_uploads
from shared.domain.errors import (
    ChatError,
    ClientDisconnected,
    Misconfigured,
    TooManyRequests,
    Unavailable,
)
from shared.http.call import DISCONNECT_POLL_SECONDS
from shared.protocols.exchange import App
from shared.protocols.upload_form import UploadsConfig, run_to_end
from shared.settings import SettingsError, read_settings
from shared.uploads.base import Upload
from shared.uploads.folder.store import FolderDraft, FolderUploads
from tests.support.calls import ANNA, JSON, ask, call, local_service
from tests.support.fakes import make_rag
from tests.support.upload_calls import (
    SECONDS,
    SETTINGS,
    delete,
    delete_by_id,
    describe,
    list_names,
    upload,
    wait_until_read,
)
from tests.support.uploads import BOUNDARY, FORM, LIMITS, UploadsFolder, encode_form

BADGE = b"# Badges\n\nThe animal on the secret badge is the quokka."
ASKING = {"messages": [{"role": "user", "content": "Which animal is on the secret badge?"}]}


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
    answer = upload(laptop, ("badge.md", BADGE), headers=JSON)
    end = time.monotonic() + SECONDS
    while "quokka" not in (text := ask(call("/chat", ASKING), laptop).data.decode()):
        assert time.monotonic() < end, (answer, text)
        time.sleep(0.2)
    file = re.search(r"upload-[a-z2-7]+/badge\.md", text)
    assert file

    assert answer.json["message"].startswith("File uploaded")
    assert delete(laptop, "badge.md", JSON).json == {
        "message": "File badge.md deleted successfully"
    }
    assert "quokka" not in ask(call("/chat", ASKING), laptop).data.decode()
    assert ask(call("/content/{path}", path=file[0], method="GET"), laptop).status == 404
    assert list_names(laptop, JSON) == []


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
    answer = upload(laptop, ("badge.md", BADGE), ("fake.pdf", b"x"), headers=prefer)
    wait_until_read(laptop)
    uploads = {it["filename"]: it for it in describe(laptop, JSON)["uploads"]}

    assert answer.status == 202
    assert uploads["badge.md"]["state"] == "ready"
    assert uploads["fake.pdf"]["state"] == "failed"
    assert uploads["fake.pdf"]["reason"] == "Its content is not what its name says."
    assert delete_by_id(laptop, uploads["fake.pdf"]["id"], JSON).status == 204
    assert list_names(laptop, JSON) == ["badge.md"]
    assert delete_by_id(laptop, uploads["fake.pdf"]["id"], JSON).status == 404


def test_form_is_stored_whole_or_not_at_all(laptop: App) -> None:
    files = [(f"{number}.md", b"text") for number in range(4)]
    answer = upload(laptop, *files, headers=JSON)

    assert answer.status == 429
    assert answer.json["error"].startswith("You have 3 uploads")
    assert list_names(laptop, JSON) == []


def test_storing_is_not_cut_when_its_request_is_cancelled() -> None:
    steps: list[str] = []

    async def store() -> None:
        steps.append("begun")
        await asyncio.sleep(0.01)
        steps.append("stored")

    async def go() -> None:
        request = asyncio.ensure_future(run_to_end(store()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(go())
    assert steps == ["begun", "stored"]


def test_documents_of_a_day_are_limited(tmp_path: Path) -> None:
    values = {**SETTINGS, "WEBSITE_AUTH_ENABLED": "false", "MAX_UPLOADS_PER_DAY": "1"}
    app = build(read_settings({**values, "UPLOADS_FOLDER": str(tmp_path / "uploads")}))
    assert upload(app, ("a.md", b"text"), ("b.md", b"text"), headers=JSON).status == 429
    assert list_names(app, JSON) == []
    assert upload(app, ("a.md", b"text"), headers=JSON).status == 200
    assert delete(app, "a.md", JSON).status == 200
    answer = upload(app, ("a.md", b"text"), headers=JSON)

    assert answer.status == 429
    assert answer.json["error"].startswith("These are more than the 1 documents")


@pytest.mark.part("openai")
def test_one_file_too_many_is_an_error_of_openai(laptop: App) -> None:
    purpose = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
    form = purpose.encode() + encode_form(("a.md", b"text"))
    answers = [ask(call("/v1/files", form, JSON | FORM), laptop) for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].json["error"]["message"].startswith("You have 3 uploads")
    assert answers[-1].json["error"]["code"] == "rate_limit_exceeded"


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
    answer = ask(call("/upload", body, headers), laptop)

    assert answer.status == status
    assert message in answer.json["error"]
    assert list_names(laptop, JSON) == []


@pytest.mark.parametrize("size", [1, 7, 64])
def test_form_in_pieces_is_read(tmp_path: Path, size: int) -> None:
    app, text = quiet_app(tmp_path), b"\r\n--a-bound\r\nx" * 9
    form = encode_form(("a.md", text), ("b.md", b""))
    pieces = [form[start : start + size] for start in range(0, len(form), size)]

    assert ask(call("/upload", pieces, FORM), app).status == 202
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

    assert ask(request, quiet_app(tmp_path)).status == 202
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
    assert list_names(app, JSON) == []


class InterruptedUploads(FolderUploads):
    """A store in which a file `b.md` cannot be stored; the others are read before that fails."""

    def __init__(self, folder: UploadsFolder) -> None:
        super().__init__(folder.root, LIMITS, lambda: None)
        self.folder = folder

    async def begin(self, owner: str, name: str) -> FolderDraft:
        draft = await super().begin(owner, name)
        return FailingDraft(draft, self.folder) if name == "b.md" else draft


class FailingDraft(FolderDraft):
    """A draft that cannot be stored, after a run of the reading process."""

    def __init__(self, draft: FolderDraft, folder: UploadsFolder) -> None:
        self.draft, self.folder = draft, folder

    async def write(self, data: bytes) -> None:
        await self.draft.write(data)

    async def commit(self, replace: bool = False) -> Upload:
        await asyncio.to_thread(self.folder.run)
        raise Unavailable

    async def discard(self) -> None:
        await self.draft.discard()


def test_form_that_fails_replaces_nothing(tmp_path: Path) -> None:
    folder = UploadsFolder(tmp_path)
    before = folder.add("local", "a.md", "The plan of June.")
    folder.run()
    app = replace(quiet_app(tmp_path), configs=(UploadsConfig(InterruptedUploads(folder), 0),))
    answer = upload(app, ("a.md", b"The plan of July."), ("b.md", b"text"), headers=JSON)
    folder.run()

    assert answer.status == 503
    assert [each.id for each in folder.uploads_of("local")] == [before.id]
    assert folder.search("local", "plan") == ["The plan of June."]


@pytest.mark.parametrize("error", [Unavailable(), Misconfigured()])
def test_form_that_cannot_be_queued_is_not_stored(tmp_path: Path, error: ChatError) -> None:
    class Unqueued(FolderUploads):
        async def enqueue(self, uploads: Sequence[Upload]) -> None:
            stored.extend(uploads)
            raise error

    stored = list[Upload]()
    folder, store = UploadsFolder(tmp_path), Unqueued(tmp_path, LIMITS, lambda: None)
    app = replace(quiet_app(tmp_path), configs=(UploadsConfig(store, 0),))
    answer = upload(app, ("a.md", b"text"), ("b.md", b"text"), headers=JSON)
    folder.run()

    assert answer.status == 503
    assert [each.name for each in stored] == ["a.md", "b.md"]
    assert list_names(app, JSON) == []
    assert folder.folders() == set()


def test_first_error_is_reported_where_the_store_fails_for_good(tmp_path: Path) -> None:
    class Broken(FolderUploads):
        async def enqueue(self, uploads: Sequence[Upload]) -> None:
            raise TooManyRequests("The queue is full.")

        async def delete(self, owner: str, id: str) -> None:
            attempts.append(id)
            raise Unavailable

    attempts = list[str]()
    store = Broken(tmp_path, LIMITS, lambda: None)
    app = replace(quiet_app(tmp_path), configs=(UploadsConfig(store, 0),))
    answer = upload(app, ("a.md", b"text"), ("b.md", b"text"), headers=JSON)

    assert (answer.status, answer.json["error"]) == (429, "The queue is full.")
    assert len(attempts) == 2


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

    answer = ask(replace(call("/upload", headers=ANNA | FORM), body=stall()), app)

    assert answer.status == 408
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_client_that_leaves_stores_nothing(tmp_path: Path) -> None:
    app = build(read_settings({**SETTINGS, "UPLOADS_FOLDER": str(tmp_path)}))

    async def leave() -> AsyncIterator[bytes]:
        yield encode_form(("a.md", b"x" * 100))[:150]
        raise ClientDisconnected

    answer = ask(replace(call("/upload", headers=ANNA | FORM), body=leave()), app)

    assert answer.status == 499
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_uploads_are_off_by_default(tmp_path: Path) -> None:
    app = build(read_settings({key: text for key, text in SETTINGS.items() if key != "UPLOADS"}))

    assert upload(app, ("a.md", b"text")).status == 404
    assert ask(call("/list_uploaded", headers=ANNA, method="GET"), app).status == 404
    assert ask(call("/uploads", headers=ANNA, method="GET"), app).status == 404
    assert delete(app, "a.md").status == delete_by_id(app, "upload-1").status == 404
    assert ask(call("/config", headers=ANNA, method="GET"), app).json["uploads"] is False


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


def test_openapi_document_describes_the_bodies(tmp_path: Path) -> None:
    document = ask(call("/api/openapi.json", method="GET"), quiet_app(tmp_path)).json
    form = document["paths"]["/upload"]["post"]["requestBody"]["content"]
    names = document["paths"]["/list_uploaded"]["get"]["responses"]["200"]["content"]

    assert list(form) == ["multipart/form-data"]
    assert names["application/json"]["schema"]["type"] == "array"
