"""Files in Blob storage, with the real SDK: over Azurite, and over a server that fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import azure.core.exceptions
import azure.storage.blob
import pytest

from ingest.targets.azure_search.blob_upload import BlobUploader, make_uploader
from ingest.targets.index_writer import DocumentRejected
from shared.azure.errors import map_errors
from shared.bootstrap.build import start
from shared.domain import errors
from shared.files.blobs import (
    CHUNK_BYTES,
    MAX_IMAGE_BYTES,
    BlobFiles,
    make_container_client,
    map_status,
)
from shared.files.headers import guess_media_type as media_type
from shared.settings import SHARED_FOLDER
from tests.support.azurite import AzuriteCredential, AzuriteHome, needs_azurite
from tests.support.servers import Server, run_server
from tests.support.storage_responses import make_error, make_head
from tests.support.upstream import Exchange, RecordedRequest, Step
from tests.support.upstream import Server as Raw

T = TypeVar("T")
SAMPLES = SHARED_FOLDER / "data" / "documents"
PNG = b"\x89PNG\r\n\x1a\n..."


def run_with(
    home: AzuriteHome,
    url: str,
    work: Callable[[BlobUploader, BlobFiles], Awaitable[T]],
    container: str,
    seconds: float = 30,
) -> T:
    """Run `work` with the clients of ingestion and of the app."""

    async def go() -> T:
        how: dict[str, Any] = {"connection_verify": home.ca}
        uploads = make_uploader(url, container, AzuriteCredential(), **how)
        blobs = BlobFiles(
            make_container_client(url, container, AzuriteCredential(), **how), seconds
        )
        async with aclosing(Closing(uploads, blobs)):
            return await work(uploads, blobs)

    return asyncio.run(go())


class Closing:
    """Closes both clients."""

    def __init__(self, uploads: BlobUploader, blobs: BlobFiles) -> None:
        self.both = (uploads.container, blobs.container)

    async def aclose(self) -> None:
        for each in self.both:
            await each.close()
        await asyncio.sleep(0.1)  # aiohttp closes TLS connections asynchronously


async def content(blobs: BlobFiles, name: str) -> bytes:
    file = await blobs.open(name)
    return b"".join([part async for part in file.read(0, file.size)])


NAMES = [
    "a.txt",
    "sub/b c.txt",
    "100%.txt",
    "c#.txt",
    "[1].txt",
    "a?b&c.txt",
    "漢/ü.txt",
    "%41.txt",
]


@needs_azurite
def test_uploaded_file_is_read_by_exact_name(
    home: AzuriteHome, account: str, tmp_path: Path
) -> None:
    async def work(uploads: BlobUploader, blobs: BlobFiles) -> None:
        await uploads.ensure_container()
        for name in NAMES:
            (tmp_path / "file").write_text(name, "utf-8")
            await uploads.put(name, tmp_path / "file", "text/plain")
        read = [(await content(blobs, name)).decode() for name in NAMES]

        assert read == NAMES
        with pytest.raises(errors.NotFound):
            await blobs.open("A.txt")

    run_with(home, account, work, "names")


@needs_azurite
def test_large_file_is_transferred_in_chunks(
    home: AzuriteHome, account: str, tmp_path: Path
) -> None:
    data = os.urandom(5 * CHUNK_BYTES + 7)
    (tmp_path / "large.bin").write_bytes(data)

    async def work(uploads: BlobUploader, blobs: BlobFiles) -> list[bytes]:
        await uploads.ensure_container()
        await uploads.put("large.bin", tmp_path / "large.bin", "x/y")
        file = await blobs.open("large.bin")
        assert file.size == len(data)
        return [part async for part in file.read(3, file.size - 2)]

    parts = run_with(home, account, work, "large")

    assert b"".join(parts) == data[3:-2]
    assert max(map(len, parts)) == CHUNK_BYTES


@needs_azurite
def test_only_changed_files_are_uploaded(home: AzuriteHome, account: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    async def work(uploads: BlobUploader, blobs: BlobFiles) -> None:
        await uploads.ensure_container()
        await uploads.ensure_container()
        done = []
        for text, kind in [("one", "a/b"), ("one", "a/b"), ("two", "a/b"), ("two", "a/c")]:
            path.write_text(text)
            done.append(await uploads.put("a.txt", path, kind))

        assert done == [True, False, True, True]
        assert await content(blobs, "a.txt") == b"two"

    run_with(home, account, work, "changes")


@needs_azurite
def test_removed_file_is_not_found(home: AzuriteHome, account: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")

    async def work(uploads: BlobUploader, blobs: BlobFiles) -> None:
        await uploads.ensure_container()
        await uploads.put("a.txt", tmp_path / "a.txt", "text/plain")
        for _ in range(2):
            await uploads.remove("a.txt")
            with pytest.raises(errors.NotFound):
                await blobs.open("a.txt")

    run_with(home, account, work, "removed")


@needs_azurite
def test_images_are_stored_by_passage_id(home: AzuriteHome, account: str) -> None:
    async def work(uploads: BlobUploader, blobs: BlobFiles) -> None:
        await uploads.ensure_container()
        await uploads.put_image("one-p1-1", PNG)
        await uploads.put_image("one-p2-1", b"\xff\xd8\xff..")
        await uploads.put_image("two-p1-1", PNG)
        await uploads.put_image("text", b"no picture")
        await uploads.put_image("empty", b"")
        await uploads.put_image("large", PNG + bytes(MAX_IMAGE_BYTES))
        first, second = await blobs.read_image("one-p1-1"), await blobs.read_image("one-p2-1")
        await uploads.remove_images("one-")
        names = ["one-p1-1", "one-p2-1", "text", "empty", "large", "no", "../files/x", "", "a/b"]

        assert (first or "").startswith("data:image/png;base64,iVBOR")
        assert (second or "").startswith("data:image/jpeg;base64,")
        assert [await blobs.read_image(name) for name in names] == [None] * len(names)
        assert await blobs.read_image("two-p1-1") == first

    run_with(home, account, work, "pictures")


@needs_azurite
def test_changed_file_ends_the_stream(home: AzuriteHome, account: str, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"

    async def work(uploads: BlobUploader, blobs: BlobFiles) -> None:
        await uploads.ensure_container()
        for byte in (b"a", b"b"):
            path.write_bytes(byte * 2 * CHUNK_BYTES)
            await uploads.put("a.bin", path, "x/y")
            if byte == b"a":
                file = await blobs.open("a.bin")
                parts = file.read(0, file.size)
                await anext(parts)
        with pytest.raises(errors.Unavailable):
            await anext(parts)

    run_with(home, account, work, "changing")


@needs_azurite
def test_missing_container_is_misconfigured(
    home: AzuriteHome, account: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"")

    async def work(uploads: BlobUploader, blobs: BlobFiles) -> None:
        for asking in (blobs.open("a.txt"), blobs.read_image("a")):
            with pytest.raises(errors.Misconfigured) as failure:
                await asking
            assert "AZURE_STORAGE_CONTAINER" in str(failure.value.cause)
        with pytest.raises(DocumentRejected, match="AZURE_STORAGE_CONTAINER"):
            await uploads.put("a.txt", tmp_path / "a.txt", "text/plain")
        with pytest.raises(DocumentRejected, match="cannot be read: No such file"):
            await uploads.put("a.txt", tmp_path / "b.txt", "text/plain")

    run_with(home, account, work, "missing")


@pytest.fixture(scope="module")
def server(kind: str, home: AzuriteHome, account: str) -> Iterator[Server]:
    """The app with the sample documents in Azurite."""

    async def fill(uploads: BlobUploader, _: BlobFiles) -> None:
        await uploads.ensure_container()
        for path in SAMPLES.rglob("*.*"):
            name = path.relative_to(SAMPLES).as_posix()
            if name != "company/roles.txt":
                await uploads.put(name, path, media_type(name))

    run_with(home, account, fill, "documents")
    settings = {
        "AZURE_STORAGE_ENDPOINT": account,
        "SSL_CERT_FILE": home.ca,
        "PATH": f"{home.folder}{os.pathsep}{os.environ['PATH']}",
    }
    with run_server(kind, home.folder, settings) as running:
        yield running


@needs_azurite
def test_container_is_served_like_a_folder(server: Server) -> None:
    data = (SAMPLES / "plans" / "northwind_health_plus.pdf").read_bytes()
    path, size = "/content/plans/northwind_health_plus.pdf", len(data)
    with server.client() as client:
        assert client.get("/health").json()["files"] == "blobs"
        whole, head = client.get(path), client.head(path)
        part = client.get(path, headers={"range": f"bytes=10-{size + 99}"})
        same = client.get(path, headers={"if-none-match": whole.headers["etag"]})
        dated = client.get(path, headers={"if-modified-since": whole.headers["last-modified"]})
        behind = client.get(path, headers={"range": f"bytes={size}-"})

    assert (whole.status_code, whole.content) == (200, data)
    assert whole.headers["content-type"] == "application/pdf"
    assert (head.status_code, head.headers["content-length"]) == (200, str(size))
    assert (part.status_code, part.content) == (206, data[10:])
    assert [same.status_code, dated.status_code, behind.status_code] == [304, 304, 416]


@needs_azurite
@pytest.mark.parametrize("path", ["company/roles.txt", "company/no.txt", "..%2Fpictures%2Fx", ""])
def test_missing_blob_is_a_404(server: Server, path: str) -> None:
    with server.client() as client:
        response = client.get(f"/content/{path}")

    assert (response.status_code, response.json()) == (404, {"error": "There is no such document."})


class Storage(Raw):
    """A server with one blob of a hundred digits."""

    data = bytes(range(48, 58)) * 10

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        authorized = request.headers["authorization"].startswith("Bearer ")
        return None if authorized else make_error(401, "NoAuthenticationInformation")

    def respond(self, request: RecordedRequest) -> list[Step]:
        if request.method == "HEAD":
            return [make_head(200, {"Content-Length": "100"})]
        first, last = map(int, request.headers["x-ms-range"].removeprefix("bytes=").split("-"))
        return make_range(
            self.data[first : last + 1], {"Content-Range": f"bytes {first}-{last}/100"}
        )


def make_range(data: bytes, headers: dict[str, str]) -> list[Step]:
    return [make_head(206, {"Content-Length": str(len(data)), **headers}), data]


@pytest.fixture(scope="module")
def storage(home: AzuriteHome) -> Iterator[Storage]:
    with home.listening(Storage()) as running:
        yield running


WAIT = {"Retry_After": "0"}
SOON, LATE = {"x_ms_retry_after_ms": "1"}, {"x_ms_retry_after_ms": "20000"}
CUT: list[Step] = [make_head(206, {"Content-Length": "9"}), b"123", Exchange.reset]
FAILURES: list[Any] = [
    pytest.param([make_error(503, "ServerBusy")], None, 2, id="503 without Retry-After, once"),
    pytest.param(
        [make_error(503, "ServerBusy", **LATE)], errors.Unavailable, 1, id="503, long wait"
    ),
    pytest.param([make_error(502)] * 2, errors.Unavailable, 2, id="502 twice"),
    pytest.param(
        [make_error(503, "ServerBusy", **WAIT)] * 2, errors.Unavailable, 2, id="503 twice"
    ),
    pytest.param([make_error(503, "ServerBusy", **WAIT)], None, 2, id="503 once"),
    pytest.param([make_error(500, "InternalError")], errors.Unavailable, 1, id="500"),
    pytest.param([make_error(429)], errors.TooManyRequests, 1, id="429"),
    pytest.param([make_error(429, **WAIT)], None, 2, id="429 once"),
    pytest.param([make_error(401, "InvalidAuthenticationInfo")], errors.Misconfigured, 1, id="401"),
    pytest.param([make_error(403, "AuthorizationFailure")], errors.Misconfigured, 1, id="403"),
    pytest.param([make_error(404, "BlobNotFound")], errors.NotFound, 1, id="404"),
    pytest.param(
        [make_error(404, "ContainerNotFound")], errors.Misconfigured, 1, id="no container"
    ),
    pytest.param([make_error(409, "BlobArchived")], errors.Unavailable, 1, id="409"),
    pytest.param([make_error(412, "ConditionNotMet")], errors.Unavailable, 1, id="412"),
    pytest.param([make_error(400, "InvalidHeaderValue")], errors.Unavailable, 1, id="400"),
    # aiohttp retries on a pooled connection that was closed meanwhile
    pytest.param([[Exchange.reset]] * 2, errors.Unavailable, 2, id="reset"),
    pytest.param([[b"garbage\r\n\r\n"]], errors.Unavailable, 1, id="garbage"),
    pytest.param([[Exchange.stall]], errors.DeadlineExceeded, 1, id="stall"),
]


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize(("plan", "kind", "times"), FAILURES)
def test_storage_failures_are_mapped_and_the_next_request_works(
    home: AzuriteHome,
    storage: Storage,
    plan: list[list[Step]],
    kind: type[errors.ChatError] | None,
    times: int,
    reading: bool,
) -> None:
    async def work(_: BlobUploader, blobs: BlobFiles) -> tuple[Any, int]:
        file = await blobs.open("a.txt")
        before = len(storage.requests)
        storage.plan += plan
        failed = None
        try:
            await (anext(file.read(10, 20)) if reading else blobs.open("a.txt"))
        except errors.ChatError as error:
            failed = error
        requests = len(storage.requests) - before

        assert await content(blobs, "a.txt") == storage.data
        return failed, requests

    seconds = 2 if kind is errors.DeadlineExceeded else 30
    failed, requests = run_with(home, storage.url, work, "documents", seconds)

    assert (type(failed) if failed else None, requests) == (kind, times)


def test_long_retry_after_is_passed_to_the_caller(home: AzuriteHome, storage: Storage) -> None:
    async def work(_: BlobUploader, blobs: BlobFiles) -> None:
        storage.plan.append(make_error(503, "ServerBusy", Retry_After="30"))
        with pytest.raises(errors.Unavailable) as failure:
            await blobs.open("a.txt")

        assert failure.value.headers == {"Retry-After": "30"}

    run_with(home, storage.url, work, "documents")


BROKEN: list[Any] = [
    pytest.param(CUT, id="cut in the middle"),
    pytest.param([make_head(206, {"Content-Length": "3"}), b"123"], id="without its range"),
    pytest.param([make_head(206, {"Content-Length": "9"}), b"1", Exchange.stall], id="stall"),
]


@pytest.mark.parametrize("answer", BROKEN)
def test_truncated_download_is_an_error(
    home: AzuriteHome, storage: Storage, answer: list[Step]
) -> None:
    async def work(_: BlobUploader, blobs: BlobFiles) -> None:
        file = await blobs.open("a.txt")
        storage.plan += [answer] * 3
        with pytest.raises((errors.Unavailable, errors.DeadlineExceeded)):
            await anext(file.read(0, 9))
        storage.plan.clear()

    run_with(home, storage.url, work, "documents", 2)


def test_ingestion_honors_retry_after(home: AzuriteHome, storage: Storage, tmp_path: Path) -> None:
    async def work(uploads: BlobUploader, _: BlobFiles) -> None:
        storage.plan += [make_error(503, "ServerBusy", **SOON)] * 4
        storage.plan += [make_error(429, Retry_After="1"), make_error(202)]
        await uploads.remove("a.txt")

    before = len(storage.requests)
    run_with(home, storage.url, work, "documents")

    assert [request.method for request in storage.requests[before:]] == ["DELETE"] * 6


def test_ingestion_names_the_missing_role(home: AzuriteHome, storage: Storage) -> None:
    async def work(uploads: BlobUploader, _: BlobFiles) -> None:
        storage.plan.append(make_error(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(DocumentRejected, match="Storage Blob Data Contributor"):
            await uploads.remove("a.txt")

    run_with(home, storage.url, work, "documents")


def test_every_exception_of_the_sdk_is_mapped() -> None:
    modules = [azure.core.exceptions, azure.storage.blob]
    values = [each for module in modules for each in list(vars(module).values())]
    kinds: set[Any] = {each for each in values if isinstance(each, type)}
    sdk = {each for each in kinds if issubclass(each, azure.core.exceptions.AzureError)}
    assert azure.storage.blob.PartialBatchErrorException in sdk
    for each in sdk | {TimeoutError}:
        raised = each.__new__(each)
        if issubclass(each, azure.core.exceptions.HttpResponseError):
            raised.error = raised.response = raised.status_code = None

        with pytest.raises(errors.ChatError), map_errors("storage", map_status):
            raise raised


@pytest.mark.parametrize("name", ["ab", "Documents", "a--b", "-ab", "a/b", "a_b", "x" * 64])
def test_invalid_container_name_is_named(name: str) -> None:
    message = (
        "AZURE_STORAGE_CONTAINER must be 3 to 63 lower-case letters, digits and single hyphens"
    )

    assert start({"AZURE_STORAGE_CONTAINER": name}).problems == (message,)


def test_storage_endpoint_without_tls_is_rejected() -> None:
    message = (
        "AZURE_STORAGE_ENDPOINT must be a URL such as https://host: no token goes out without TLS"
    )

    assert start({"AZURE_STORAGE_ENDPOINT": "http://mine.blob.core.windows.net"}).problems == (
        message,
    )
