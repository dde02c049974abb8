"""An index of Azure AI Search with passages of other origin."""

from __future__ import annotations

from functools import partial

import pytest

from ingest.document import Page
from ingest.splitting.passages import split_document
from ingest.targets.azure_search.writer import AzureSearchWriter
from ingest.targets.index_writer import Document, IndexUnavailable
from tests.support.fake_service import FakeIndexService
from tests.support.search_writer import document, run, run_service, update_index

A = document("a.md")


def split(name: str) -> Document:
    """A file with the ids that it really has."""
    passages = tuple(
        split_document(name, [Page(f"{name} has a text.", 1), Page("And another.", 2)])
    )
    return Document(name, "print", passages, ((1.0, 0.0),) * len(passages))


def beside(running: FakeIndexService, sourcefile: str | None) -> None:
    """A passage as an indexer leaves it: for everyone, and without a mark."""
    index = running.indexes["docs"]
    empty = {one["name"]: None for one in index.definition["fields"]}
    key = "0f1e_aHR0_pages_0"
    row = {"id": key, "sourcefile": sourcefile, "content": "salaries", "parent": "aHR0"}
    index.docs[key] = {**empty, **row, "oids": [], "groups": []}


def holds(running: FakeIndexService) -> set[str]:
    return {doc["content"] for doc in running.indexes["docs"].docs.values()}


def test_passages_of_other_origin_are_replaced() -> None:
    with run_service() as running:
        run(running, AzureSearchWriter.fingerprints)
        beside(running, "a.md")
        run(running, partial(update_index, folder={"a.md": A}))

    assert holds(running) == {passage.content for passage in A.passages}


@pytest.mark.parametrize("name", ["a.md", "gone.md", None])
def test_restricted_folder_is_rejected_by_an_index_of_other_origin(name: str | None) -> None:
    folder = {"a.md": split("a.md")}
    with run_service() as running:
        run(running, partial(update_index, folder=folder))
        beside(running, name)
        before = holds(running)
        with pytest.raises(
            IndexUnavailable, match=r"not put there by this.*another index"
        ) as failed:
            run(running, partial(update_index, folder={"b.md": A}), restricted=True)

    assert (name or "an unnamed file") in str(failed.value)
    assert holds(running) == before


def test_restricted_folder_is_accepted_by_its_own_index() -> None:
    first = {name: split(name) for name in ("a.md", "[b] #1.md", "_c.md", "pläne/d.md")}
    second = {"a.md": split("a.md"), "new.md": split("new.md")}
    with run_service() as running:
        run(running, partial(update_index, folder=first), restricted=True)
        run(running, partial(update_index, folder=second), restricted=True)

    assert {doc["sourcefile"] for doc in running.indexes["docs"].docs.values()} == second.keys()


def test_passages_of_an_interrupted_run_are_own() -> None:
    folder = {"a.md": split("a.md")}
    with run_service() as running:
        run(running, AzureSearchWriter.fingerprints, restricted=True)
        running.cut_at, running.cut = len(running.requests) + 4, "after"
        with pytest.raises(IndexUnavailable, match="did not answer"):
            run(running, partial(update_index, folder=folder), restricted=True)
        run(running, partial(update_index, folder=folder), restricted=True)

    assert len(running.indexes["docs"].docs) == 2


def test_new_index_is_not_searched_for_old_passages() -> None:
    with run_service() as running:
        run(running, partial(update_index, folder={"a.md": A}), restricted=True)
    searches = [request for request in running.requests if "post.search" in request.path]

    assert len(searches) == 1
