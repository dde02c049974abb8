"""The writer of an index that exists, with access to its documents alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ingest.targets.azure_search.existing_index import FIND_SECONDS, ExistingIndexWriter
from ingest.targets.azure_search.retry import RetryPolicy
from tests.support.fake_index import FakeIndex
from tests.support.fake_service import FakeIndexService
from tests.support.search_writer import (
    INDEX_SPEC,
    UNUSED_PATH,
    RecordingRetry,
    connect_clients,
    document,
    run,
    run_service,
    tls_contexts,
)
from tests.support.upstream import RecordedRequest, Step, json_response, run_upstream

Work = Callable[[ExistingIndexWriter], Awaitable[Any]]


def use(running: FakeIndexService, work: Work, policy: RetryPolicy | None = None) -> Any:
    """Call `work` with a writer, after another one has created the index."""
    run(running, lambda writer: writer.fingerprints())
    running.requests.clear()

    async def go() -> Any:
        async with connect_clients(running) as clients:
            retry = policy or RetryPolicy(max_attempts=1)
            return await work(ExistingIndexWriter(clients, INDEX_SPEC, retry, has_vectors=True))

    return asyncio.run(go())


def ids(index: FakeIndex) -> set[str]:
    return {str(doc["sourcefile"]) for doc in index.docs.values()}


def test_definition_of_the_index_is_not_requested() -> None:
    async def work(writer: ExistingIndexWriter) -> None:
        await writer.put(document("a/b.md"), UNUSED_PATH)
        await writer.finish()
        assert await writer.fingerprints() == {"a/b.md": "print-of-1"}
        await writer.remove("a/b.md")

    with run_service() as running:
        use(running, work)

        assert {request.path.partition("?")[0] for request in running.requests} == {
            "/indexes('docs')/docs/search.index",
            "/indexes('docs')/docs/search.post.search",
        }
        assert running.indexes["docs"].docs == {}


def test_vectors_are_written() -> None:
    with run_service() as running:
        use(running, lambda writer: writer.put(document("a/b.md", ids="p0-1"), UNUSED_PATH))

        assert [doc["embedding"] for doc in running.indexes["docs"].docs.values()] == [[1.0, 0.0]]


def test_files_of_a_folder_are_found_and_removed() -> None:
    names = ("a", "a.md", "a-/b.md", "a/b-c.md", "a/c.md", "a0/b.md", "b/a.md", "aa/b.md")

    async def work(writer: ExistingIndexWriter) -> None:
        for name in names:
            await writer.put(document(name), UNUSED_PATH)
        found = await writer.fingerprints_in("a")
        assert found == dict.fromkeys(("a/b-c.md", "a/c.md"), "print-of-1")
        await writer.remove_folder("a")
        await writer.remove_folder("none")
        assert await writer.fingerprints_in("a") == {}

    with run_service() as running:
        use(running, work)

        assert ids(running.indexes["docs"]) == {*names} - {"a/b-c.md", "a/c.md"}


class LateService(FakeIndexService):
    """Searches find nothing for some time."""

    late = 0

    def search(self, name: str, request: RecordedRequest) -> list[Step]:
        self.late -= 1
        return json_response({"value": []}) if self.late >= 0 else super().search(name, request)

    def wait(self, late: int) -> tuple[list[float], int]:
        """Put a document that is found after so many searches, and finish."""
        self.late, retry = 0, RecordingRetry()

        async def work(writer: ExistingIndexWriter) -> None:
            await writer.put(document("a/b.md"), UNUSED_PATH)
            self.late = late
            await writer.finish()
            await writer.finish()

        use(self, work, retry.policy(max_attempts=1))
        return retry.waits, self.late


def test_finish_waits_until_searches_find_what_was_put() -> None:
    with run_upstream(LateService(), tls_contexts()[0]) as running:
        assert running.wait(2) == ([1, 1], -1)
        assert len(running.wait(1000)[0]) == FIND_SECONDS
