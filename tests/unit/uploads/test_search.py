"""A question is answered from the shared index while the uploads cannot be searched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from shared.domain.errors import (
    ChatError,
    DeadlineExceeded,
    Misconfigured,
    TooManyRequests,
    Unavailable,
)
from shared.domain.events import Source
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.retrieval.base import SearchResult
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.uploads.base import Upload
from shared.uploads.folder.store import FolderUploads
from shared.uploads.retriever import TOO_SLOW, UploadsRetriever
from shared.uploads.search import NO_STORE, NOT_SEARCHED
from tests.support.fakes import FakeRetriever
from tests.support.uploads import LIMITS, UploadsFolder

ANNA, BEN = User("anna"), User("ben")
SHARED = (Source("1", "Vacation: 30 days.", "handbook.md", "handbook.md"),)
OWN = "My vacation is in June."
HANG_SECONDS = 60  # only a hang takes so long
ERRORS = [
    Unavailable(cause="uploads: closed"),
    Misconfigured(cause="uploads: status 403"),
    TooManyRequests(cause="uploads: status 429"),
    DeadlineExceeded(cause="uploads: no answer in time"),
]
METHODS = ("has_any", "get")


async def hang() -> None:
    await asyncio.Event().wait()


class FaultyStore(FolderUploads):
    """A store of which some methods fail, or hang."""

    def __init__(self, root: Path, fault: Callable[[], Any], *methods: str) -> None:
        super().__init__(root, LIMITS, lambda: None)
        self.fault, self.methods = fault, methods

    async def has_any(self, owner: str) -> bool:
        await self._meet_fault("has_any")
        return await super().has_any(owner)

    async def get(self, owner: str, ids: Iterable[str]) -> Mapping[str, Upload]:
        await self._meet_fault("get")
        return await super().get(owner, ids)

    async def list(self, owner: str) -> tuple[Upload, ...]:
        await self._meet_fault("list")
        return await super().list(owner)

    async def _meet_fault(self, method: str) -> None:
        if method in self.methods:
            await self.fault()


class FaultyPassages(SqliteRetriever):
    """An index of uploads that fails, or hangs."""

    def __init__(self, fault: Callable[[], Any]) -> None:
        super().__init__(())
        self.fault, self.queries = fault, list[str]()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        self.queries.append(query)
        await self.fault()
        return await super().search(user, query, overrides)

    async def list_passages(self, *_: Any) -> tuple[Source, ...]:
        await self.fault()
        return ()


def fail_with(error: ChatError) -> Callable[[], Any]:
    async def fail() -> None:
        raise error

    return fail


@pytest.fixture
def folder(tmp_path: Path) -> UploadsFolder:
    uploads = UploadsFolder(tmp_path)
    uploads.add("anna", "plan.md", OWN)
    uploads.run()
    return uploads


def search(retriever: UploadsRetriever, user: User = ANNA) -> SearchResult:
    async def go() -> SearchResult:
        result = await retriever.search(user, "vacation", UNSET)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(go())


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records about searches; a reading process of another test may add others."""
    return [record for record in caplog.records if "not searched" in record.getMessage()]


def over_store(folder: UploadsFolder, store: FolderUploads, seconds: float) -> UploadsRetriever:
    return UploadsRetriever(SqliteRetriever(SHARED), folder.passages, store, seconds=seconds)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", METHODS)
def test_store_that_fails_is_a_note(
    folder: UploadsFolder, error: ChatError, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = FaultyStore(folder.root, fail_with(error), method)
    result = search(over_store(folder, store, HANG_SECONDS))

    assert [source.content for source in result.sources] == [SHARED[0].content]
    assert result.notes == (NO_STORE,)
    (record,) = failures(caplog)
    assert record.getMessage() == f"uploads: not searched: {error.cause}"
    assert record.levelno == (
        logging.ERROR if isinstance(error, Misconfigured) else logging.WARNING
    )


@pytest.mark.parametrize("method", METHODS)
def test_store_that_stalls_is_a_note(
    folder: UploadsFolder, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = search(over_store(folder, FaultyStore(folder.root, hang, method), 0.05))

    assert [source.content for source in result.sources] == [SHARED[0].content]
    assert result.notes == (TOO_SLOW,)
    assert [record.getMessage() for record in failures(caplog)] == [
        "uploads: not searched: it stalls"
    ]


@pytest.mark.parametrize("error", ERRORS)
def test_index_that_fails_is_a_note(
    folder: UploadsFolder, error: ChatError, caplog: pytest.LogCaptureFixture
) -> None:
    passages = FaultyPassages(fail_with(error))
    retriever = UploadsRetriever(SqliteRetriever(SHARED), passages, folder.store)
    result = search(retriever)

    assert [source.content for source in result.sources] == [SHARED[0].content]
    assert result.notes == (NOT_SEARCHED,)
    assert [record.getMessage() for record in failures(caplog)] == [
        f"uploads: not searched: {error.cause}"
    ]


def test_index_and_store_that_fail_are_a_note(folder: UploadsFolder) -> None:
    fault = fail_with(Unavailable())
    store = FaultyStore(folder.root, fault, "list")
    retriever = UploadsRetriever(SqliteRetriever(SHARED), FaultyPassages(fault), store)

    assert search(retriever).notes == (NO_STORE,)


def test_index_that_stalls_is_a_note(folder: UploadsFolder) -> None:
    shared, passages = SqliteRetriever(SHARED), FaultyPassages(hang)
    retriever = UploadsRetriever(shared, passages, folder.store, seconds=0.05)

    assert search(retriever).notes == (TOO_SLOW,)


def test_owner_of_nothing_gets_no_note_and_no_search(
    folder: UploadsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    passages = FaultyPassages(fail_with(Misconfigured()))
    retriever = UploadsRetriever(SqliteRetriever(SHARED), passages, folder.store)
    result = search(retriever, BEN)
    folder.add("ben", "plan.md", "August.")  # not read yet
    later = search(retriever, BEN)

    assert (result.notes, later.notes) == ((), ())
    assert passages.queries == ["vacation"]
    assert failures(caplog) == []


def test_shared_index_is_searched_while_the_store_is_slow(folder: UploadsFolder) -> None:
    searched = asyncio.Event()

    class Shared(SqliteRetriever):
        async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
            searched.set()
            return await super().search(user, query, overrides)

    store = FaultyStore(folder.root, searched.wait, "has_any")
    retriever = UploadsRetriever(Shared(SHARED), folder.passages, store, seconds=HANG_SECONDS)
    result = search(retriever)

    assert [source.content for source in result.sources] == [OWN, SHARED[0].content]
    assert result.notes == ()


def test_failure_of_the_shared_index_does_not_wait_for_the_uploads(
    folder: UploadsFolder,
) -> None:
    store = FaultyStore(folder.root, hang, "has_any")
    failing = FakeRetriever(error=Unavailable())
    start = time.monotonic()
    with pytest.raises(Unavailable):
        search(UploadsRetriever(failing, folder.passages, store, seconds=2 * HANG_SECONDS))

    assert time.monotonic() - start < HANG_SECONDS


def test_failure_about_a_named_upload_is_raised(folder: UploadsFolder) -> None:
    (upload,) = folder.uploads_of("anna")
    shared, fault = SqliteRetriever(SHARED), fail_with(Unavailable())
    without_store = UploadsRetriever(
        shared, folder.passages, FaultyStore(folder.root, fault, "get")
    )
    without_index = UploadsRetriever(shared, FaultyPassages(fault), folder.store)
    name = upload.sourcefile

    with pytest.raises(Unavailable):
        asyncio.run(without_store.readable(ANNA, name, UNSET))
    for retriever in (without_store, without_index):
        with pytest.raises(Unavailable):
            asyncio.run(retriever.list_passages(ANNA, name, UNSET))
        with pytest.raises(Unavailable):
            asyncio.run(retriever.search_documents(ANNA, "vacation", [name], UNSET))
