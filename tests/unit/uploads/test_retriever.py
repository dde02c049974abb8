"""A search in an index and in the uploads of the user who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from shared.domain.errors import BadRequest, Misconfigured, TooManyRequests
from shared.domain.events import Source
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.retrieval.base import Embed, IndexStatistics, SearchResult
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.uploads.folder.records import INDEX
from shared.uploads.retriever import FEWEST_PASSAGES, UploadsRetriever
from shared.uploads.search import NOT_SEARCHED
from tests.support.fakes import FakeRetriever
from tests.support.uploads import LIMITS, UploadsFolder
from tests.support.vector_index import embed, index_with_equal_vectors

ANNA, BEN, NOBODY = User("anna"), User("ben"), User()
SHARED = (
    Source("1", "Vacation: 30 days.", "handbook.md", "handbook.md", "company"),
    Source("2", "Vacation of managers: 31 days.", "managers.md", "managers.md", "company"),
    Source("3", "Vacation abroad.", "abroad.md", "abroad.md", "company"),
)
WORDS_ALONE = (
    "retrieval_mode hybrid was left out: the embedding model is busy or not available at the "
    "moment; text was used."
)


@pytest.fixture
def folder(tmp_path: Path) -> UploadsFolder:
    """The uploads of two people beside an index that all may read."""
    uploads = UploadsFolder(tmp_path)
    uploads.retriever = UploadsRetriever(SqliteRetriever(SHARED), uploads.passages, uploads.store)
    uploads.add("anna", "plan.md", "My vacation is in June.")
    uploads.add("ben", "plan.md", "My vacation is in August.")
    uploads.run()
    return uploads


def search(folder: UploadsFolder, user: User, overrides: Overrides = UNSET) -> SearchResult:
    return asyncio.run(folder.retriever.search(user, "vacation", overrides))


def test_user_finds_own_uploads_and_the_shared_documents_by_rank(folder: UploadsFolder) -> None:
    found = [source.content for source in search(folder, ANNA).sources]

    assert found[0] == "My vacation is in June."
    assert set(found[1:]) == {source.content for source in SHARED}


def test_user_whose_uploads_are_not_read_yet_finds_the_shared_documents(tmp_path: Path) -> None:
    uploads = UploadsFolder(tmp_path)
    uploads.retriever = UploadsRetriever(SqliteRetriever(SHARED), uploads.passages, uploads.store)
    uploads.add("anna", "plan.md", "My vacation is in June.")
    result = search(uploads, ANNA)

    assert {source.content for source in result.sources} == {source.content for source in SHARED}
    assert result.notes == ()


def test_top_is_the_number_of_both(folder: UploadsFolder) -> None:
    found = search(folder, BEN, UNSET.model_copy(update={"top": 2})).sources

    assert found[0].content == "My vacation is in August."
    assert [source.category for source in found] == ["uploads", "company"]


def test_user_without_an_id_finds_no_uploads(folder: UploadsFolder) -> None:
    assert {source.content for source in search(folder, NOBODY).sources} == {
        source.content for source in SHARED
    }


def search_documents(folder: UploadsFolder, user: User, *names: str) -> list[str]:
    work = folder.retriever.search_documents(user, "vacation", names, UNSET)
    return [source.content for source in asyncio.run(work).sources]


def test_documents_are_searched_for_their_owner_alone(folder: UploadsFolder) -> None:
    own, other = (folder.uploads_of(owner)[0].sourcefile for owner in ("anna", "ben"))
    later = folder.add("anna", "later.md", "Vacation later.").sourcefile

    assert search_documents(folder, ANNA, own, other, later) == ["My vacation is in June."]
    assert search_documents(folder, ANNA, other) == []
    assert search_documents(folder, ANNA, "handbook.md") == []
    assert search_documents(folder, NOBODY, own) == []


def test_deleted_document_is_not_searched(folder: UploadsFolder) -> None:
    (own,) = folder.uploads_of("anna")
    folder.delete("anna", own.id)

    assert search_documents(folder, ANNA, own.sourcefile) == []


@pytest.mark.parametrize("groups", [(), ("anna",)])
@pytest.mark.parametrize("filters", [True, False])
def test_no_group_and_no_override_shows_the_uploads_of_others(
    folder: UploadsFolder, groups: tuple[str, ...], filters: bool
) -> None:
    names = ("use_oid_security_filter", "use_groups_security_filter")
    overrides = UNSET.model_copy(update=dict.fromkeys(names, filters))
    user = User("ben", groups=groups, roles=("anna",), tenant="anna")
    found = {source.content for source in search(folder, user, overrides).sources}

    assert "My vacation is in August." in found
    assert "My vacation is in June." not in found


def test_filter_of_a_client_is_not_ignored(folder: UploadsFolder) -> None:
    with pytest.raises(BadRequest):
        search(folder, ANNA, UNSET.model_copy(update={"filter": "category eq 'uploads'"}))


def test_category_limits_the_search(folder: UploadsFolder) -> None:
    own = search(folder, ANNA, UNSET.model_copy(update={"include_category": "uploads"})).sources
    others = search(folder, ANNA, UNSET.model_copy(update={"exclude_category": "uploads"})).sources

    assert [source.content for source in own] == ["My vacation is in June."]
    assert {source.category for source in others} == {"company"}


def test_upload_is_read_and_listed_by_its_owner_alone(folder: UploadsFolder) -> None:
    async def read(user: User) -> tuple[bool, int, bool, bool]:
        (name,) = [upload.sourcefile for upload in await folder.store.list("anna")]
        files = await folder.retriever.list_files(user, UNSET, "", 10)
        return (
            await folder.retriever.readable(user, name, UNSET),
            len(await folder.retriever.list_passages(user, name, UNSET)),
            name in files,
            "uploads" in await folder.retriever.list_categories(user, UNSET, 10),
        )

    assert asyncio.run(read(ANNA)) == (True, 1, True, True)
    assert asyncio.run(read(BEN)) == (False, 0, False, True)  # who has an upload, too
    assert asyncio.run(read(NOBODY)) == (False, 0, False, False)


def test_files_of_both_are_listed_in_pages(folder: UploadsFolder) -> None:
    async def read_pages() -> list[str]:
        names, after = list[str](), ""
        while page := await folder.retriever.list_files(ANNA, UNSET, after, 1):
            names, after = [*names, *page], page[-1]
        return names

    names = asyncio.run(read_pages())
    assert names == sorted(names)
    assert [name.rpartition("/")[2] for name in names] == [
        "abroad.md",
        "handbook.md",
        "managers.md",
        "plan.md",
    ]


def test_deleted_upload_is_hidden_before_it_leaves_the_index(folder: UploadsFolder) -> None:
    (upload,) = folder.uploads_of("anna")
    folder.delete("anna", upload.id)

    assert "My vacation is in June." not in folder.search("anna", "vacation")
    assert upload.id in folder.indexed()


def test_upload_is_hidden_until_it_is_ready(folder: UploadsFolder) -> None:
    folder.add("anna", "late.md", "Late vacation.")

    assert "Late vacation." not in folder.search("anna", "vacation")


def test_damaged_index_of_uploads_is_a_note(folder: UploadsFolder) -> None:
    (folder.root / INDEX).write_bytes(b"no index")
    result = search(folder, ANNA)

    assert result.notes == (NOT_SEARCHED,)
    assert len(result.sources) == len(SHARED)


def test_failure_of_the_shared_index_is_raised(folder: UploadsFolder) -> None:
    failing = FakeRetriever(error=Misconfigured())
    retriever = UploadsRetriever(failing, folder.passages, folder.store)

    with pytest.raises(Misconfigured):
        asyncio.run(retriever.search(ANNA, "vacation", UNSET))


async def fail(texts: Sequence[str]) -> list[list[float]]:
    raise TooManyRequests(cause="m: status 429")


@pytest.mark.parametrize(("shared", "own"), [(fail, fail), (embed, fail), (fail, embed)])
def test_failing_embedding_model_is_one_note(
    folder: UploadsFolder, shared: Embed, own: Embed
) -> None:
    (name,) = (upload.sourcefile for upload in folder.uploads_of("anna"))
    mine = Source("own", "My vacation is in June.", name, name, oids=("anna",))
    indexes = (
        index_with_equal_vectors(*SHARED, embed=shared),
        index_with_equal_vectors(mine, embed=own),
    )
    retriever = UploadsRetriever(*indexes, folder.store)
    result = asyncio.run(retriever.search(ANNA, "vacation", UNSET))
    by_name = asyncio.run(retriever.search_documents(ANNA, "vacation", [name], UNSET))

    assert {source.content for source in result.sources} == {
        mine.content,
        *(source.content for source in SHARED),
    }
    assert result.notes == (WORDS_ALONE,)
    assert [source.content for source in by_name.sources] == [mine.content]
    assert by_name.notes == ((WORDS_ALONE,) if own is fail else ())


class Related(SqliteRetriever):
    """A retriever that knows the relevance, and maybe the number of its passages."""

    def __init__(
        self, sources: tuple[Source, ...], relevance: float, is_counted: bool = True
    ) -> None:
        super().__init__(sources)
        self.relevance, self.is_counted = relevance, is_counted

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        result = await super().search(user, query, overrides)
        return replace(result, relevance=self.relevance)

    def statistics(self) -> IndexStatistics:
        known = super().statistics()
        return known if self.is_counted else replace(known, passages=None)


@pytest.mark.parametrize(
    ("passages", "is_counted", "relevance"),
    [(1, True, None), (FEWEST_PASSAGES, True, 2.0), (FEWEST_PASSAGES, False, None)],
)
def test_relevance_is_unknown_among_few_uploads(
    tmp_path: Path, passages: int, is_counted: bool, relevance: float | None
) -> None:
    uploads = UploadsFolder(tmp_path, replace(LIMITS, files=100))
    upload = uploads.add("anna", "plan.md", "June.")
    uploads.run()
    own = tuple(
        Source(str(n), f"June {n}.", upload.sourcefile, upload.sourcefile, oids=("anna",))
        for n in range(passages)
    )
    retriever = UploadsRetriever(Related(SHARED, 0.5), Related(own, 2.0, is_counted), uploads.store)
    found = asyncio.run(retriever.search(ANNA, "June vacation", UNSET))
    others = asyncio.run(retriever.search(BEN, "June vacation", UNSET))

    assert found.relevance == relevance
    assert others.relevance == 0.5


class Ranked(SqliteRetriever):
    """A retriever with a semantic ranker that gives each passage the same score."""

    def __init__(self, sources: tuple[Source, ...], score: float | None) -> None:
        super().__init__(sources)
        self.score = score

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        result = await super().search(user, query, overrides)
        sources = (replace(each, reranker_score=self.score) for each in result.sources)
        return replace(result, sources=tuple(sources))


@pytest.mark.parametrize(
    ("shared", "own", "first"),
    [
        (Related(SHARED, 2.0), partial(Related, relevance=0.1), "company"),
        (Related(SHARED, 0.1), partial(Related, relevance=2.0), "uploads"),
        (Related(SHARED, 2.0), partial(Ranked, score=None), "uploads"),
        (Ranked(SHARED, 3.1), partial(Ranked, score=0.4), "company"),
        (Ranked(SHARED, 0.4), partial(Ranked, score=3.1), "uploads"),
    ],
)
def test_less_relevant_uploads_come_second(
    folder: UploadsFolder,
    shared: SqliteRetriever,
    own: Callable[[tuple[Source, ...]], SqliteRetriever],
    first: str,
) -> None:
    (name,) = (upload.sourcefile for upload in folder.uploads_of("anna"))
    mine = (Source("own", "My vacation is in June.", name, name, "uploads", oids=("anna",)),)
    retriever = UploadsRetriever(shared, own(mine), folder.store)
    found = asyncio.run(retriever.search(ANNA, "vacation", UNSET)).sources

    assert found[0].category == first
    assert {source.category for source in found[:2]} == {"company", "uploads"}
