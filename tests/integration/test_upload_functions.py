"""The Functions app that reads uploads, under the library of Microsoft's worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import TextBase64DecodePolicy

from shared.uploads.blob.queue import UploadsQueue, make_queue_client
from tests.support.azure_uploads import UploadsInAzure, path_of
from tests.support.azurite import AzuriteCredential, AzuriteHome, azurite_queues, needs_azurite
from tests.support.blob_store import receive_all
from tests.support.functions_worker import FunctionsWorker, functions_worker, needs_worker_library
from tests.support.search_service import SearchService, make_index

pytestmark = needs_azurite
ROOT = Path(__file__).parent.parent.parent
SEARCH = {"AZURE_SEARCH_INDEX": "docs", "AZURE_UPLOADS_INDEX": "docs-uploads"}


@pytest.fixture
def place(home: AzuriteHome, account: str) -> Iterator[UploadsInAzure]:
    place = UploadsInAzure(home, account, "uploads")
    yield place
    place.close()


@pytest.fixture
def queue(home: AzuriteHome) -> Iterator[str]:
    """The address of the queues of an account, which has the one of uploads."""
    with azurite_queues(home) as url:

        async def create() -> None:
            options = {"connection_verify": home.ca}
            async with make_queue_client(url, AzuriteCredential(), **options) as client:
                await client.create_queue()

        asyncio.run(create())
        yield url


@pytest.fixture
def search(home: AzuriteHome) -> Iterator[Any]:
    """The search service, with the index of uploads."""
    with home.listening(SearchService(indexes={"docs-uploads": make_index()})) as running:
        yield running


@pytest.fixture
def worker(
    home: AzuriteHome, account: str, queue: str, search: Any, tmp_path: Path
) -> Iterator[FunctionsWorker]:
    """A worker with the app, whose folder is that of the package."""
    (tmp_path / "function_app.py").write_bytes((ROOT / "ingest/app/function_app.py").read_bytes())
    for name in ("ingest", "shared"):
        (tmp_path / name).symlink_to(ROOT / name)
    settings = {
        **SEARCH,
        "AZURE_SEARCH_ENDPOINT": search.url,
        "AZURE_UPLOADS_ENDPOINT": account,
        "AZURE_UPLOADS_QUEUE_ENDPOINT": queue,
        "CHAT_MODEL": "demo",
        "EMBEDDINGS": "off",
        "SSL_CERT_FILE": home.ca,
        "PATH": f"{home.folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }
    with functions_worker(tmp_path, settings) as running:
        yield running


@needs_worker_library
def test_functions_have_their_triggers(worker: FunctionsWorker) -> None:
    common = {"direction": "IN", "type": "queueTrigger", "connection": "AzureWebJobsStorage"}

    assert worker.functions == {
        "read_upload": [{**common, "name": "message", "queueName": "uploads"}],
        "give_up_upload": [{**common, "name": "message", "queueName": "uploads-poison"}],
        "sweep_uploads": [
            {
                "direction": "IN",
                "type": "timerTrigger",
                "name": "timer",
                "schedule": "0 */30 * * * *",
                "runOnStartup": False,
            }
        ],
    }


@needs_worker_library
def test_messages_are_handled(
    worker: FunctionsWorker, place: UploadsInAzure, home: AzuriteHome, queue: str, search: Any
) -> None:
    upload, failed = place.add("anna", "plan.md", "# Plan\n\nJune."), place.add("anna", "a.md", "A")
    missing = worker.invoke("read_upload", {"string": path_of(upload)}, DequeueCount=1, Id="1")
    given_up = worker.invoke("give_up_upload", {"string": path_of(failed)}, DequeueCount=1)
    swept = worker.invoke("sweep_uploads", {"json": '{"IsPastDue": false}'})

    assert (missing, given_up, swept) == (None, None, None)
    assert {name: state for name, (state, _) in place.states().items()} == {
        "plan.md": "ready",
        "a.md": "failed",
    }
    docs = search.indexes["docs-uploads"].docs.values()
    assert [(doc["content"], doc["oids"]) for doc in docs] == [("Plan\n\nJune.", ["anna"])]
    assert read_messages(home, queue) == []

    place.delete(upload)
    assert worker.invoke("read_upload", {"string": path_of(upload)}, DequeueCount=1) is None
    assert search.indexes["docs-uploads"].docs == {}


@needs_worker_library
def test_failure_of_a_service_is_a_failure_of_the_function(
    worker: FunctionsWorker, place: UploadsInAzure, search: Any
) -> None:
    search.indexes.clear()
    upload = place.add("anna", "plan.md", "June.")
    error = worker.invoke("read_upload", {"string": path_of(upload)}, DequeueCount=1)

    assert error is not None
    assert place.result(upload).attempts == 0


def test_service_sends_messages(home: AzuriteHome, queue: str, place: UploadsInAzure) -> None:
    path = path_of(place.add("anna", "plan.md", "June."))

    async def go() -> None:
        options = {"connection_verify": home.ca}
        async with make_queue_client(queue, AzuriteCredential(), **options) as client:
            await UploadsQueue(client).send(path)

    asyncio.run(go())

    assert read_messages(home, queue) == [path]


def read_messages(home: AzuriteHome, queue: str) -> list[str]:
    """The messages of the queue."""

    async def go() -> list[str]:
        options = {"connection_verify": home.ca, "message_decode_policy": TextBase64DecodePolicy()}
        async with make_queue_client(queue, AzuriteCredential(), **options) as client:
            return await receive_all(client)

    return asyncio.run(go())
