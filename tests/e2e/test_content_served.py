"""The content route over real HTTP: raw paths, and disconnecting clients."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from shared.domain.events import encode_path
from shared.settings import SHARED_FOLDER
from tests.support.ingest_command import run_command
from tests.support.servers import TIMEOUT, Server, run_server
from tests.support.symbolic_links import link

MIB = 1024 * 1024
SAMPLE = "plans/northwind_health_plus.pdf"
LARGE = os.urandom(64 * 1024) * 16 * 64  # 64 MiB: more than all buffers on the way


@dataclass(frozen=True)
class RawResponse:
    """The response to a request with a raw path."""

    status: int
    headers: dict[str, str]
    data: bytes


@contextmanager
def connect(server: Server) -> Iterator[HTTPConnection]:
    url = httpx.URL(server.url)
    connection = HTTPConnection(url.host, url.port or 80, timeout=TIMEOUT)
    try:
        yield connection
    finally:
        connection.close()


def get(server: Server, path: str, method: str = "GET", **headers: str) -> RawResponse:
    with connect(server) as connection:
        response = send(connection, path, method, **headers)
        return RawResponse(response.status, dict(response.getheaders()), response.read())


def send(
    connection: HTTPConnection, path: str, method: str = "GET", **headers: str
) -> HTTPResponse:
    header_names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"/content/{path}", headers=header_names)
    return connection.getresponse()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with indexed files, some of which must not be served."""
    beside = tmp_path_factory.mktemp("content")
    (beside / "secret.txt").write_bytes(b"secret")
    folder = beside / "documents"
    (folder / "plans" / "benefits_table.md").mkdir(parents=True)
    (folder / "company").mkdir()
    (folder / "company" / "roles.txt").write_bytes(LARGE)
    (folder / "company" / "unknown.txt").write_bytes(b"not indexed")
    link(folder / "plans" / "northwind_standard.md", beside / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def app(kind: str, documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with the folder of `documents`."""
    settings = {"DOCUMENTS_PATH": str(documents)}
    with run_server(kind, tmp_path_factory.mktemp("log"), settings) as running:
        yield running


@pytest.mark.parametrize("path", [SAMPLE, quote(SAMPLE, safe=""), SAMPLE.replace("a", "%61")])
def test_sample_is_served_unchanged(server: Server, path: str) -> None:
    response = get(server, path)

    assert (response.status, response.headers["content-type"]) == (200, "application/pdf")
    assert response.data == (SHARED_FOLDER / "data" / "documents" / SAMPLE).read_bytes()
    assert response.headers["content-disposition"].startswith("inline;")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-request-id"]


def test_ranges_conditions_and_head_work_over_http(server: Server) -> None:
    whole = get(server, SAMPLE)
    size, tag = len(whole.data), whole.headers["etag"]
    head, part = get(server, SAMPLE, "HEAD"), get(server, SAMPLE, range="bytes=-5")
    behind, same = (
        get(server, SAMPLE, range=f"bytes={size}-"),
        get(server, SAMPLE, if_none_match=tag),
    )

    assert (head.status, head.data, head.headers["content-length"]) == (200, b"", str(size))
    assert (part.status, part.data) == (206, whole.data[-5:])
    assert part.headers["content-range"] == f"bytes {size - 5}-{size - 1}/{size}"
    assert (behind.status, behind.headers["content-range"]) == (416, f"bytes */{size}")
    assert (same.status, same.data, same.headers["etag"]) == (304, b"", tag)
    assert "cache-control" in same.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_another_method_is_a_405(server: Server, method: str) -> None:
    response = get(server, SAMPLE, method)

    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
    assert "Send GET /content/" in json.loads(response.data)["error"]


OUTSIDE = [
    "",
    "company",
    "company/",
    "company/unknown.txt",
    "company/ROLES.txt",
    "company/role%EF%BD%93.txt",
    "company/roles.txt%00",
    "company/roles.txt%00.pdf",
    "company/roles.txt/",
    "company%5Croles.txt",
    "plans/northwind_standard.md",
    "plans/benefits_table.md",
    "..%2Fsecret.txt",
    "..%2f..%2fetc/passwd",
    "company/..%2F..%2Fsecret.txt",
    "company%2F..%2Fcompany%2Froles.txt",
    "%2e%2e%2fsecret.txt",
    "%252e%252e%252fsecret.txt",
    "..%252Fsecret.txt",
    "..%255Csecret.txt",
    "..%5Csecret.txt",
    "%2Fetc%2Fpasswd",
    "/etc/passwd",
    "C:%5Csecret.txt",
    "C:/secret.txt",
    "file:///etc/passwd",
    "%C0%AE%C0%AE%2Fsecret.txt",
    "%FF",
    "%",
    "%zz",
    "x" * 3000,
    "%2e" * 2000,
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path[:40] or "nothing")
def test_inaccessible_file_is_the_same_404(app: Server, documents: Path, path: str) -> None:
    response = get(app, path)

    assert (response.status, response.headers["content-type"]) == (404, "application/json")
    assert json.loads(response.data) == {"error": "There is no such document."}


@pytest.mark.parametrize("path", ["../secret.txt", "company/../../secret.txt", "%2e%2e/secret.txt"])
def test_dot_segments_do_not_leave_the_folder(app: Server, path: str) -> None:
    response = get(app, path)

    assert response.status == 404
    assert b"secret" not in response.data


ODD = ["why?.md", "Q: how.md", "c#.md", "100%.md", "[1].md", "%3F.md", "ü/漢.md"]
ODD += ["back\\slash.md", "a\rb.md", "tab\tbell\a.md", "a\u2028b.md"]


@pytest.mark.skipif(os.name != "posix", reason="this system lets no file be called so")
def test_file_of_any_name_opens_by_its_citation(kind: str, tmp_path: Path) -> None:
    for name in ODD:
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(f"It is {name!r}.", "utf-8")
    settings = {"INDEX_FILE": str(tmp_path / "index.db")}
    done = run_command(str(tmp_path / "docs"), **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    with run_server(kind, tmp_path, settings) as running:
        for name in ODD:
            cited = encode_path(name)
            for path in (quote(cited, safe="/%"), quote(cited), quote(name, safe="")):
                response = get(running, path)

                assert (response.status, response.data.decode()) == (200, f"It is {name!r}."), path


def until_logged(server: Server, words: str) -> bool:
    until = time.monotonic() + TIMEOUT / 2
    while words not in server.log and time.monotonic() < until:
        time.sleep(0.05)
    return words in server.log


def begin_download(connection: HTTPConnection) -> tuple[HTTPResponse, str]:
    """Read the first bytes of a large file; return the start of its log line, too."""
    response = send(connection, "company/roles.txt")
    assert response.status == 200
    assert response.read(MIB) == LARGE[:MIB]
    return response, f"request id={response.headers['x-request-id']} GET /content/"


def test_large_file_is_complete(app: Server) -> None:
    assert get(app, "company/roles.txt").data == LARGE


def test_disconnect_ends_reading(app: Server) -> None:
    with connect(app) as connection:
        response, line = begin_download(connection)
        response.close()

    assert until_logged(app, line)
    (written,) = [each for each in app.log.split("\n") if line in each]
    assert written.endswith("outcome=client gone")


def test_file_changed_in_transfer_is_truncated(kind: str, app: Server, documents: Path) -> None:
    file = documents / "company" / "roles.txt"
    with connect(app) as connection:
        response, line = begin_download(connection)
        os.utime(file, (1, 1))
        with pytest.raises((HTTPException, ConnectionError)):
            response.read()
    file.write_bytes(LARGE)

    assert until_logged(app, f"{line}{{path}} dialect=- status=200")
    assert kind != "dev" or "Traceback" not in app.log  # other hosts may log the truncation


def test_log_contains_no_document_name(app: Server) -> None:
    get(app, "company/very-private.txt")

    assert "very-private" not in app.log
    assert "roles.txt" not in app.log
