"""Requests to a storage account of uploads that fails, with the real SDKs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from shared.domain import errors
from shared.files.blobs import make_container_client
from shared.uploads.base import NO_UPLOAD
from shared.uploads.blob.queue import UploadsQueue, make_queue_client
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.blob.store import BlobUploads
from tests.support.azurite import AzuriteCredential, AzuriteHome
from tests.support.blob_store import LIMITS
from tests.support.storage_responses import make_error
from tests.support.upstream import Exchange, RecordedRequest, Server, Step

Call = Callable[[UploadsContainer, UploadsQueue], Awaitable[Any]]


class Storage(Server):
    """A server that answers as each test plans it."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        return None

    def respond(self, request: RecordedRequest) -> list[Step]:
        return make_error(500, "InternalError")


@pytest.fixture(scope="module")
def storage(home: AzuriteHome) -> Iterator[Storage]:
    with home.listening(Storage()) as running:
        yield running


CALLS: dict[str, Call] = {
    "put": lambda container, _: container.put("x/deleted"),
    "append": lambda container, _: container.append("x/day-1"),
    "delete": lambda container, _: container.delete("x/draft"),
    "list": lambda container, _: container.list("x/"),
    "has_any": lambda container, _: container.has_any("x/"),
    "read_metadata": lambda container, _: container.read_metadata("ids/x"),
    "open": lambda container, _: container.open("x/content"),
    "ready": lambda container, queue: BlobUploads(container, queue, LIMITS).ready(),
    "send": lambda _, queue: queue.send("x/y"),
}
FAILURES: list[Any] = [
    pytest.param(make_error(403, "AuthorizationFailure"), errors.Misconfigured, id="403"),
    pytest.param(make_error(401, "NoAuthentication"), errors.Misconfigured, id="401"),
    pytest.param(make_error(503, "ServerBusy", Retry_After="20"), errors.Unavailable, id="503"),
    pytest.param(make_error(500, "InternalError"), errors.Unavailable, id="500"),
    pytest.param([b"garbage\r\n\r\n"], errors.Unavailable, id="garbage"),
    pytest.param([Exchange.reset], errors.Unavailable, id="reset"),
    pytest.param([Exchange.stall], errors.DeadlineExceeded, id="stall"),
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("answer", "kind"), FAILURES)
def test_failure_is_mapped(
    home: AzuriteHome,
    storage: Storage,
    name: str,
    answer: list[Step],
    kind: type[errors.ChatError],
) -> None:
    seconds = 1.0 if kind is errors.DeadlineExceeded else 30.0
    storage.plan[:] = [answer] * 4

    assert type(fail(home, storage, CALLS[name], seconds)) is kind
    storage.plan.clear()


@pytest.mark.parametrize(("name", "setting"), [("list", "ENDPOINT"), ("send", "QUEUE_ENDPOINT")])
def test_missing_container_or_queue_names_the_setting(
    home: AzuriteHome, storage: Storage, name: str, setting: str
) -> None:
    code = "ContainerNotFound" if name == "list" else "QueueNotFound"
    storage.plan[:] = [make_error(404, code)]
    failure = fail(home, storage, CALLS[name])

    assert type(failure) is errors.Misconfigured
    assert f"AZURE_UPLOADS_{setting}" in (failure.cause or "")


def test_refusal_names_the_role(home: AzuriteHome, storage: Storage) -> None:
    for name, role in (("put", "Blob Data Contributor"), ("send", "Queue Data Message Sender")):
        storage.plan[:] = [make_error(403, "AuthorizationPermissionMismatch")]

        assert role in (fail(home, storage, CALLS[name]).cause or "")


def test_missing_blob_is_no_upload(home: AzuriteHome, storage: Storage) -> None:
    storage.plan[:] = [make_error(404, "BlobNotFound")]
    failure = fail(home, storage, CALLS["read_metadata"])

    assert (type(failure), failure.message) == (errors.NotFound, NO_UPLOAD)


def fail(
    home: AzuriteHome, storage: Storage, call: Call, seconds: float = 30.0
) -> errors.ChatError:
    """Return the error of a call."""

    async def go() -> errors.ChatError:
        options: dict[str, Any] = {"connection_verify": home.ca}
        client = make_container_client(storage.url, "uploads", AzuriteCredential(), **options)
        queue = make_queue_client(storage.url, AzuriteCredential(), **options)
        async with client, queue:
            with pytest.raises(errors.ChatError) as failure:
                await call(UploadsContainer(client, seconds), UploadsQueue(queue, seconds))
        await asyncio.sleep(0.1)  # aiohttp closes TLS connections asynchronously
        return failure.value

    return asyncio.run(go())
