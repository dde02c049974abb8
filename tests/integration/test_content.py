"""The content route: permissions, response headers, ranges, path traversal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import function_app
from ingest.document import Page
from ingest.splitting.passages import split_document
from shared.app import handle_call
from shared.bootstrap.build import build, start
from shared.domain.errors import ChatError, DeadlineExceeded, Misconfigured, NotFound, Unavailable
from shared.domain.events import Source, decode_path, encode_path
from shared.files.base import File, Files
from shared.files.folder import CHUNK_BYTES, FolderFiles
from shared.files.headers import disposition_headers
from shared.http.auth import AccessPolicy
from shared.http.call import Limits
from shared.protocols.content import ContentConfig, candidates
from shared.protocols.exchange import App
from shared.protocols.health import Health
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.settings import SHARED_FOLDER, read_settings
from tests.support.asgi import SCOPE, block, drop, receive_disconnect
from tests.support.calls import BufferedReply, ask, call
from tests.support.fakes import FAKE_MODEL, FakeRetriever, make_rag
from tests.support.search_app import signed
from tests.support.servers import SAMPLES
from tests.support.symbolic_links import link

TEXT = bytes(range(48, 58)) * 10  # a hundred digits
NOT_FOUND = {"error": "There is no such document."}


def source(name: str, oids: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> Source:
    known = encode_path(name)
    return Source(known, "words", known, known, oids=oids, groups=groups)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of documents, with private files beside it."""
    (tmp_path / "secret.txt").write_bytes(b"secret")
    documents = tmp_path / "documents"
    (documents / "sub").mkdir(parents=True)
    (documents / "a.txt").write_bytes(TEXT)
    (documents / "sub" / "b.pdf").write_bytes(b"%PDF-")
    (documents / "empty.txt").touch()
    return documents


def serving(files: Files) -> tuple[object, ...]:
    """The configuration of an app that serves these files."""
    return (ContentConfig(files),)


def make_service(folder: Path, *names: str) -> App:
    """A service with the files of a folder; the index has these names."""
    return App(
        make_rag(retriever=FakeRetriever([*map(source, names)])),
        configs=serving(FolderFiles(folder)),
    )


def get(
    service: App, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> BufferedReply:
    request = replace(call("/content/{path}", b"", headers or {}), method=method, path=path)
    return ask(request, service)


def is_not_found(response: BufferedReply) -> bool:
    return (response.status, response.media_type) == (
        404,
        "application/json",
    ) and response.json == NOT_FOUND


def test_file_response_has_the_headers_of_browsers(folder: Path) -> None:
    response = get(make_service(folder, "a.txt"), "a.txt")

    assert (response.status, response.data, response.media_type) == (
        200,
        TEXT,
        "text/plain; charset=utf-8",
    )
    assert response.headers["Content-Length"] == "100"
    assert response.headers["Accept-Ranges"] == "bytes"
    assert response.headers["Cache-Control"].startswith("private")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Last-Modified"].endswith(" GMT")
    assert response.headers["ETag"][0] == response.headers["ETag"][-1] == '"'


KINDS = [
    ("x.pdf", "application/pdf", True),
    ("x.PDF", "application/pdf", True),
    ("x.txt", "text/plain; charset=utf-8", True),
    ("x.md", "text/markdown; charset=utf-8", True),
    ("x.ndjson", "application/jsonl", True),
    ("x.png", "image/png", True),
    ("x.jpeg", "image/jpeg", True),
    ("x.html", "text/html; charset=utf-8", False),
    ("x.htm", "text/html; charset=utf-8", False),
    ("x.xhtml", "application/xhtml+xml", False),
    ("x.svg", "image/svg+xml", False),
    ("x.xml", "application/xml", False),
    ("x.js", "application/octet-stream", False),
    ("x.exe", "application/octet-stream", False),
    ("html", "application/octet-stream", False),
    (
        "x.docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        False,
    ),
]


@pytest.mark.parametrize(("name", "kind", "inline"), KINDS)
def test_active_content_is_downloaded_and_sandboxed(
    folder: Path, name: str, kind: str, inline: bool
) -> None:
    (folder / name).write_bytes(b"<script>alert(1)</script>")
    response = get(make_service(folder, name), name)

    assert response.media_type == kind
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers.get("Content-Security-Policy") == (None if inline else "sandbox")
    how = "inline" if inline else "attachment"
    assert response.headers["Content-Disposition"].startswith(f'{how}; filename="{name}"; ')


ENCODINGS = {
    "utf-8": "; charset=utf-8",
    "utf-8-sig": "; charset=utf-8",
    "cp1252": "",
    "utf-16": "",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_charset_is_utf_8_only_for_utf_8(folder: Path, encoding: str, method: str) -> None:
    (folder / "a.txt").write_bytes(("x" + "ä" * 100_000).encode(encoding))
    service = make_service(folder, "a.txt")
    whole, part = get(service, "a.txt", method=method), get(service, "a.txt", {"range": "bytes=8-"})

    assert {whole.media_type, part.media_type} == {f"text/plain{ENCODINGS[encoding]}"}


def test_non_ascii_name_is_sent_in_both_forms() -> None:
    header = disposition_headers('sub/Ur"lau\u0308b \u6f22 100%;x.txt')["Content-Disposition"]

    assert header == (
        'inline; filename="Ur_lau_b _ 100_;x.txt"; '
        "filename*=UTF-8''Ur%22lau%CC%88b%20%E6%BC%A2%20100%25%3Bx.txt"
    )


PARTS = [
    ("bytes=0-0", 206, "0-0"),
    ("bytes=10-19", 206, "10-19"),
    ("Bytes=95-", 206, "95-99"),
    ("bytes=-5", 206, "95-99"),
    ("bytes=-500", 206, "0-99"),
    ("bytes=90-500", 206, "90-99"),
    ("bytes=100-", 416, None),
    ("bytes=100-200", 416, None),
    ("bytes=-0", 416, None),
    ("bytes=5-2", 200, None),
    ("bytes=0-1,5-6", 200, None),
    ("bytes=-", 200, None),
    ("bytes=a-b", 200, None),
    ("bytes=\u0661-\u0662", 200, None),
    ("bytes=" + "9" * 5000 + "-", 200, None),
    ("pages=1-2", 200, None),
    ("", 200, None),
]


@pytest.mark.parametrize(("range_header", "status", "place"), PARTS)
def test_one_range_is_partial_and_several_are_the_whole_file(
    folder: Path, range_header: str, status: int, place: str | None
) -> None:
    response = get(make_service(folder, "a.txt"), "a.txt", {"range": range_header})

    assert response.status == status
    if status == 416:
        assert response.headers["Content-Range"] == "bytes */100"
        assert response.json == {
            "error": "The document has 100 bytes: the range begins behind its end."
        }
    elif place is None:
        assert (response.data, "Content-Range" in response.headers) == (TEXT, False)
    else:
        first, last = map(int, place.split("-"))
        assert response.data == TEXT[first : last + 1]
        assert response.headers["Content-Range"] == f"bytes {place}/100"
        assert response.headers["Content-Length"] == str(len(response.data))


def test_range_of_an_empty_file_is_a_416(folder: Path) -> None:
    service = make_service(folder, "empty.txt")
    whole, part = get(service, "empty.txt"), get(service, "empty.txt", {"range": "bytes=0-"})

    assert (whole.status, whole.data, whole.headers["Content-Length"]) == (200, b"", "0")
    assert (part.status, part.headers["Content-Range"]) == (416, "bytes */0")


def test_range_is_honored_only_with_a_matching_if_range(folder: Path) -> None:
    service = make_service(folder, "a.txt")
    known = get(service, "a.txt").headers
    holding = {known["ETag"]: 206, known["Last-Modified"]: 206}
    others = {'"other"': 200, f"W/{known['ETag']}": 200, "Mon, 01 Jan 2001 00:00:00 GMT": 200}
    statuses = {
        condition: get(service, "a.txt", {"range": "bytes=0-9", "if-range": condition}).status
        for condition in holding | others
    }

    assert statuses == holding | others


def test_matching_validators_are_a_304(folder: Path) -> None:
    service = make_service(folder, "a.txt")
    known = get(service, "a.txt").headers
    tag, date, before = known["ETag"], known["Last-Modified"], "Mon, 01 Jan 2001 00:00:00 GMT"
    cases: list[tuple[dict[str, str], int]] = [
        ({"if-none-match": tag}, 304),
        ({"if-none-match": f'"x", W/{tag}'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"x"'}, 200),
        ({"if-modified-since": date}, 304),
        ({"if-modified-since": before}, 200),
        ({"if-modified-since": "yesterday"}, 200),
        ({"if-none-match": '"x"', "if-modified-since": date}, 200),
        ({"if-none-match": tag, "if-modified-since": before, "range": "bytes=0-1"}, 304),
    ]
    for headers, status in cases:
        for method in ("GET", "HEAD"):
            response = get(service, "a.txt", headers, method)

            assert response.status == (206 if status == 200 and "range" in headers else status), (
                headers
            )
            assert status != 304 or (response.data, response.headers["ETag"]) == (b"", tag)


def test_changed_file_has_another_etag(folder: Path) -> None:
    service = make_service(folder, "a.txt")
    before = get(service, "a.txt").headers["ETag"]
    (folder / "a.txt").write_bytes(TEXT + b"more")

    assert get(service, "a.txt", {"if-none-match": before}).status == 200


def test_head_has_the_headers_of_get(folder: Path) -> None:
    service = make_service(folder, "a.txt")
    whole, head = get(service, "a.txt"), get(service, "a.txt", {"range": "bytes=0-1"}, "HEAD")

    assert (head.status, head.data) == (200, b"")
    assert head.headers == whole.headers


HEADERS = st.sampled_from(["range", "if-range", "if-none-match", "if-modified-since"])
WORDS = st.text(alphabet='bytes=0-9,W/"*: MonJa 20GT+-\u0661', max_size=40)


@given(headers=st.dictionaries(HEADERS, WORDS))
def test_unusual_conditions_are_handled(
    tmp_path_factory: pytest.TempPathFactory, headers: dict[str, str]
) -> None:
    documents = tmp_path_factory.getbasetemp() / "odd"
    documents.mkdir(exist_ok=True)
    (documents / "a.txt").write_bytes(TEXT)

    assert get(make_service(documents, "a.txt"), "a.txt", headers).status in (200, 206, 304, 416)


NAMES = [
    *("a.txt", "a b.txt", "100%.txt", "c#.txt", "[1].txt", "%23.txt", "a%2Fb.txt", "漢/ü.txt"),
    *("why?.txt", "Q: how.txt", "%3F.txt"),
]
# Not allowed in file names of Windows.
if os.name == "posix":
    NAMES += [
        "back\\slash.txt",
        "a\nSources: b.txt",
        "bell\a\x7f.txt",
        "a\x85b\u2028c.txt",
        "c:d.txt",
    ]
else:
    NAMES = [name for name in NAMES if not set(name) & set("?:")]


@pytest.mark.parametrize("name", NAMES)
def test_citation_link_opens_its_file_encoded_once_or_twice(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(name, "utf-8")
    service = make_service(folder, name)

    assert get(service, name).data.decode() == name  # a client that decodes the citation
    assert get(service, encode_path(name)).data.decode() == name  # encoded again


@given(st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("%?:2835CAE"))))
def test_name_survives_encoding_and_decoding(name: str) -> None:
    known = encode_path(name)

    assert decode_path(known) == name
    assert known.splitlines() in ([known], [])
    assert not set(known) & set("[]#?:\\")


@given(st.text(min_size=1).filter(lambda name: "\n" not in name))
def test_encoding_matches_the_index(name: str) -> None:
    (passage,) = split_document(name, [Page("words")])

    assert encode_path(name) == passage.sourcefile


OUTSIDE_PATHS = [
    "../secret.txt",
    "sub/../../secret.txt",
    "sub/../a.txt",
    "./a.txt",
    "a.txt/.",
    "a.txt/",
    "sub//b.pdf",
    "/a.txt",
    "//a.txt",
    "..",
    ".",
    "",
    "/",
    "..%2Fsecret.txt",
    "..%2fsecret.txt",
    "%2e%2e/secret.txt",
    "%2e%2e%2fsecret.txt",
    "..%252Fsecret.txt",
    "..%5Csecret.txt",
    "..\\secret.txt",
    "sub\\b.pdf",
    "C:/secret.txt",
    "c:secret.txt",
    "a.txt\0",
    "a.txt\0.pdf",
    "a.txt\n",
    "a.txt%00",
    "x" * 2000,
    "x" * 1000,
    "sub/" * 500 + "b.pdf",
    "sub",
    "no.txt",
    "a.txt/b",
]


class EveryNameRetriever(FakeRetriever):
    """An index that has every name."""

    async def readable(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize("path", OUTSIDE_PATHS)
def test_path_traversal_is_a_404(folder: Path, path: str) -> None:
    service = App(make_rag(retriever=EveryNameRetriever()), configs=serving(FolderFiles(folder)))

    assert is_not_found(get(service, path))
    assert is_not_found(get(service, path, method="GET", headers={"range": "bytes=0-1"}))


OTHERS = [
    "Gr\u00fcn.txt",
    "gru\u0308n.txt",
    "gr\u00fcn.TXT",
    "gr\u00fcn.tx\uff54",
    "gr\u00fcn.txt.",
]


@pytest.mark.parametrize("other", OTHERS)
def test_another_spelling_is_a_404(folder: Path, other: str) -> None:
    (folder / "gr\u00fcn.txt").touch()
    service = make_service(folder, "gr\u00fcn.txt")

    assert is_not_found(get(service, other))
    assert get(service, "gr\u00fcn.txt").status == 200


def test_candidates_are_inside_the_folder() -> None:
    tried = [name for path in OUTSIDE_PATHS for name in candidates(path)]

    assert [name for name in tried if ".." in name.split("/") or name.startswith("/")] == []


def test_links_in_the_folder_are_not_followed(
    folder: Path,
) -> None:
    link(folder / "out.txt", folder.parent / "secret.txt")
    link(folder / "up", "..")
    link(folder / "loop.txt", "loop.txt")
    link(folder / "broken.txt", "nothing")
    link(folder / "in.txt", "a.txt")
    link(folder / "side", "sub")
    names = ["out.txt", "up/secret.txt", "loop.txt", "broken.txt", "in.txt", "side/b.pdf"]
    service = make_service(folder, *names, "sub/b.pdf")

    assert [name for name in names if not is_not_found(get(service, name))] == []
    assert get(service, "sub/b.pdf").status == 200


def test_root_folder_may_be_a_link(folder: Path) -> None:
    link(folder.parent / "linked", folder)

    assert get(make_service(folder.parent / "linked", "a.txt"), "a.txt").data == TEXT


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_special_file_is_a_404(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")

    assert is_not_found(get(make_service(folder, "pipe.txt"), "pipe.txt"))


USERS = {"nobody": {}, "anna": signed("oid-a", []), "bert": signed("oid-b", ["g2"])}


class RecordingFiles:
    """A file store that records opened names."""

    name = "watched"

    def __init__(self, top: Path) -> None:
        self.folder = FolderFiles(top)
        self.opened: list[str] = []

    async def ready(self) -> None:
        pass

    async def open(self, name: str) -> File:
        self.opened.append(name)
        return await self.folder.open(name)


READERS = {
    "public.txt": (source("public.txt"), {"nobody", "anna", "bert"}),
    "anna.txt": (source("anna.txt", oids=("oid-a",)), {"anna"}),
    "group.txt": (source("group.txt", groups=("g2", "g3")), {"bert"}),
    "both.txt": (source("both.txt", oids=("oid-a",), groups=("g2",)), {"anna", "bert"}),
    "other.txt": (source("other.txt", groups=("g9",)), set()),
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", READERS)
def test_document_is_served_only_to_users_who_can_search_it(
    folder: Path, user: str, name: str
) -> None:
    (folder / name).write_bytes(TEXT)
    index = SqliteRetriever(known for known, _ in READERS.values())
    files = RecordingFiles(folder)
    service = App(
        replace(make_rag(), retriever=index),
        AccessPolicy(sign_in=True),
        configs=serving(files),
    )
    conditions = [{}, {"if-none-match": "*"}, {"range": "bytes=0-1"}, {"range": "bytes=900-"}]
    response = [get(service, name, USERS[user] | more) for more in conditions]
    index.close()

    if user in READERS[name][1]:
        assert [each.status for each in response] == [200, 304, 206, 416]
    else:
        assert all(map(is_not_found, response))
        assert files.opened == []  # not opened, so response times reveal nothing


def test_sign_in_headers_are_ignored_with_sign_in_off(folder: Path) -> None:
    index = SqliteRetriever([source("a.txt", oids=("oid-a",))])
    service = App(replace(make_rag(), retriever=index), configs=serving(FolderFiles(folder)))
    response = get(service, "a.txt", signed("oid-a", []))
    index.close()

    assert is_not_found(response)


def test_failing_index_opens_no_file(folder: Path) -> None:
    files = RecordingFiles(folder)
    failing = FakeRetriever(error=Unavailable(retry_after=7))
    response = get(App(make_rag(retriever=failing), configs=serving(files)), "a.txt")

    assert (response.status, response.headers["Retry-After"], files.opened) == (503, "7", [])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_write_methods_are_a_405(folder: Path, method: str) -> None:
    response = get(make_service(folder, "a.txt"), "a.txt", method=method)

    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")
    assert (folder / "a.txt").read_bytes() == TEXT


def test_deployment_without_documents_is_a_501() -> None:
    response = get(App(make_rag()), "a.txt")

    assert (response.status, response.json) == (
        404,
        {"error": "This deployment serves no documents."},
    )


def open_file(folder: Path, name: str) -> File:
    return asyncio.run(FolderFiles(folder).open(name))


def test_large_file_is_closed_between_chunks(folder: Path) -> None:
    data = os.urandom(3 * CHUNK_BYTES + 5)
    (folder / "large.bin").write_bytes(data)
    file = open_file(folder, "large.bin")

    async def go() -> list[bytes]:
        async with aclosing(file.read(7, file.size)) as pieces:
            first = await anext(pieces)
            held = Path("/proc/self/fd")
            names = (
                [os.readlink(fd) for fd in held.iterdir() if fd.exists()] if held.exists() else []
            )
            assert not any("large.bin" in name for name in names)
            return [first, *[piece async for piece in pieces]]

    pieces = asyncio.run(go())

    assert b"".join(pieces) == data[7:]
    assert max(map(len, pieces)) == CHUNK_BYTES


@pytest.mark.parametrize("change", ["other bytes", "shorter", "gone"])
def test_changed_file_ends_the_stream(folder: Path, change: str) -> None:
    path = folder / "large.bin"
    path.write_bytes(b"a" * 3 * CHUNK_BYTES)
    file = open_file(folder, "large.bin")

    async def go() -> None:
        async with aclosing(file.read(0, file.size)) as pieces:
            await anext(pieces)
            path.unlink()
            if change != "gone":
                path.write_bytes(b"b" * (3 * CHUNK_BYTES if change == "other bytes" else 5))
                os.utime(path, (1, 1))
            await anext(pieces)

    with pytest.raises(NotFound if change == "gone" else Unavailable):
        asyncio.run(go())


class StallingFiles:
    """A store that stalls after some chunks of a file of ten bytes."""

    name = "stalling"

    def __init__(self, pieces: int) -> None:
        self.pieces, self.closed = pieces, False

    async def ready(self) -> None:
        pass

    async def open(self, _name: str) -> File:
        if self.pieces < 0:
            await asyncio.Event().wait()
        return File(10, '"1"', 0, self._read)

    async def _read(self, _start: int, _stop: int) -> AsyncGenerator[bytes, None]:
        try:
            for _ in range(self.pieces):
                yield b"x"
            await asyncio.Event().wait()
        finally:
            self.closed = True


def make_stalling_service(pieces: int, seconds: float) -> tuple[App, StallingFiles]:
    files = StallingFiles(pieces)
    index = make_rag(retriever=FakeRetriever([source("a.pdf")]))
    return App(index, limits=Limits(request_seconds=seconds), configs=serving(files)), files


@pytest.mark.parametrize("pieces", [-1, 0])
def test_stalled_store_is_a_504(pieces: int) -> None:
    service, files = make_stalling_service(pieces, 0.5)
    response = get(service, "a.pdf")

    assert response.status == 504
    assert files.closed == (pieces == 0)


def test_store_that_stalls_in_the_stream_truncates_it() -> None:
    service, files = make_stalling_service(3, 0.5)
    with pytest.raises(DeadlineExceeded):
        get(service, "a.pdf")

    assert files.closed


def is_closed_after(receive: Any, send: Any) -> bool:
    """Send a response; return whether its file is closed."""

    async def go() -> bool:
        service, files = make_stalling_service(3, 60)
        request = replace(call("/content/{path}", b""), method="GET", path="a.pdf")
        reply = await handle_call(service, request)
        assert (reply.status, reply.body, files.closed) == (200, b"x", False)
        await function_app.make_response(reply)(SCOPE, receive, send)
        return files.closed

    return asyncio.run(go())


def test_disconnect_closes_the_file() -> None:
    assert is_closed_after(receive_disconnect, drop)
    assert is_closed_after(receive_disconnect, block)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no such users")
def test_unreadable_file_is_misconfigured(folder: Path) -> None:
    (folder / "a.txt").chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root can read all files
    try:
        with pytest.raises(Misconfigured) as failure:
            asyncio.run(read_all(FolderFiles(folder), "a.txt"))
    finally:
        os.seteuid(user)

    assert str(folder) not in f"{failure.value} {failure.value.cause}"


async def read_all(files: FolderFiles, name: str) -> bytes:
    file = await files.open(name)
    return b"".join([piece async for piece in file.read(0, file.size)])


def test_errors_contain_no_local_path(folder: Path) -> None:
    for name in ("no.txt", "sub", "x" * 300, "a.txt/b"):
        with pytest.raises(ChatError) as failure:
            open_file(folder, name)

        assert str(folder) not in f"{failure.value} {failure.value.cause}"


@pytest.mark.part("demo", "embedded-index")
def test_samples_are_served_with_the_sample_index() -> None:
    service = build(read_settings(SAMPLES))
    response = get(service, "plans/northwind_health_plus.pdf")

    assert service.config(Health).names["files"] == "folder"
    assert (
        response.data
        == (SHARED_FOLDER / "data/documents/plans/northwind_health_plus.pdf").read_bytes()
    )


@pytest.mark.part("demo", "embedded-index")
def test_documents_path_sets_the_folder(folder: Path) -> None:
    own = start({"DOCUMENTS_PATH": str(folder)})

    files = own.config(ContentConfig).files
    assert isinstance(files, FolderFiles)
    assert files.root == folder
    assert start({"DOCUMENTS_PATH": "shared/data"}).problems == ()  # relative to the app's folder
    assert start({"DOCUMENTS_PATH": str(folder / "no")}).problems == (
        "DOCUMENTS_PATH must be a folder that exists",
    )


def test_index_without_folder_has_no_files() -> None:
    search = {"AZURE_SEARCH_ENDPOINT": "https://x", "AZURE_SEARCH_INDEX": "x"}
    index = search | FAKE_MODEL

    assert "files" not in start(index).config(Health).names
    folder, blobs = {"DOCUMENTS_PATH": "shared/data"}, {"AZURE_STORAGE_ENDPOINT": "https://x"}
    assert start(index | folder).config(Health).names["files"] == "folder"
    assert start(index | blobs).config(Health).names["files"] == "blobs"
