"""What each retriever answers about files: their passages, and the names that a user may see."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.targets.index_writer import Document
from ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.domain.errors import Unsupported
from shared.domain.events import Source, encode_path
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.retrieval.base import FilePart, Retriever, SearchResult
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.retrievers import (
    ANNA,
    BERT,
    BOTH,
    FILTERS,
    INDEXES,
    NOBODY,
    MakeIndex,
    Work,
    ids,
    passage,
    read,
    write_file,
)

USERS = (NOBODY, ANNA, BERT)
READERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "public": ((), ()),
    "for-anna": (("oid-a",), ()),
    "for-bert": (("oid-b",), ()),
    "for-anna-and-g2": (("oid-a",), ("g2",)),
    "for-g1": ((), ("g1",)),
    "for-nobody-here": (("oid-z",), ("g9",)),
}


EMBEDDED = [
    pytest.param("memory", marks=pytest.mark.part("embedded-index")),
    pytest.param("vectors", marks=pytest.mark.part("embedded-index")),
    pytest.param("file", marks=pytest.mark.part("embedded-index", "ingestion")),
]
AZURE = pytest.param("Azure AI Search", marks=pytest.mark.part("azure-search", "azure-ingestion"))


@pytest.fixture(params=INDEXES)
def make(request: pytest.FixtureRequest) -> MakeIndex:
    return INDEXES[request.param]


@pytest.fixture(params=EMBEDDED)
def make_embedded(request: pytest.FixtureRequest) -> MakeIndex:
    return INDEXES[request.param]


def test_passages_are_in_the_order_of_the_file(make: MakeIndex, tmp_path: Path) -> None:
    parts = [(page, part) for page in range(13) for part in (*map(str, range(1, 12)), "i1", "i2")]
    passages = [passage("plans/2024/x10.pdf", *place) for place in parts]
    with make([passage("a.md", 0, "1"), *passages, passage("z.md", 0, "1")], tmp_path) as run:
        assert ids(run(read("plans/2024/x10.pdf"))) == ids(passages)


def test_more_passages_than_one_search_returns_are_complete(
    make: MakeIndex, tmp_path: Path
) -> None:
    passages = [passage("book.pdf", page, "1") for page in range(1, 2306)]
    with make(passages, tmp_path) as run:
        assert ids(run(read("book.pdf"))) == ids(passages)


def test_embedded_index_reads_no_more_than_a_part_of_a_file(
    make_embedded: MakeIndex, tmp_path: Path
) -> None:
    sources = [passage("a b.md", page, str(part)) for page in (1, 2) for part in range(50)]
    part = FilePart("a b.md#page=2", 100)
    with make_embedded(sources, tmp_path) as run:
        passages = run(lambda index: index.list_passages(NOBODY, "a b.md", BOTH, part))
        whole = run(lambda index: index.list_passages(NOBODY, "a b.md", BOTH))

    assert {source.sourcepage for source in passages} == {"a b.md#page=2"}
    assert 100 <= sum(len(source.content) for source in passages) < 120
    assert [*passages] == [*whole][50 : 50 + len(passages)]
    assert len(whole) == 100


def test_exactly_one_page_of_the_service_is_complete(make: MakeIndex, tmp_path: Path) -> None:
    passages = [passage("book.pdf", page, "1") for page in range(1, 1001)]
    with make(passages, tmp_path) as run:
        assert ids(run(read("book.pdf"))) == ids(passages)


def may_see(user: User, source: Source, overrides: Overrides = BOTH) -> bool:
    if not source.oids and not source.groups:
        return True
    by_oid = overrides.use_oid_security_filter and user.oid in source.oids
    by_group = overrides.use_groups_security_filter and {*user.groups} & {*source.groups}
    return bool(by_oid or by_group)


MIXED = [
    passage("mixed.md", page, "1", oids=oids, groups=groups)
    for page, (oids, groups) in enumerate(READERS.values(), 1)
]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("enabled", [{}, *({name: True} for name in FILTERS), FILTERS])
def test_only_the_passages_that_a_user_may_see_are_returned(
    make: MakeIndex, user: User, enabled: Mapping[str, Any], tmp_path: Path
) -> None:
    overrides = Overrides(top=50, **enabled)
    with make(MIXED, tmp_path) as run:
        sources = run(read("mixed.md", user, overrides))
        searched = run(lambda index: index.search(user, "part", overrides)).sources

    assert ids(sources) == [item.id for item in MIXED if may_see(user, item, overrides)]
    assert sorted(ids(sources)) == sorted(ids(searched))


def test_a_passage_is_complete_but_for_image_and_score(make: MakeIndex, tmp_path: Path) -> None:
    stored = replace(MIXED[3], category="plans", heading="Part 1")
    with make([stored], tmp_path) as run:
        (source,) = run(read("mixed.md", ANNA))

    assert (source.image, source.score, source.reranker_score) == (None, None, None)
    changes: dict[str, Any] = {} if source.heading else {"heading": ""}
    assert source == replace(stored, category=source.category, **changes)
    assert source.category in ("plans", None)


@pytest.mark.parametrize(
    "name",
    [*EMBEDDED, pytest.param("Azure AI Search", marks=pytest.mark.part("azure-ingestion"))],
)
def test_categories_and_filters_of_a_request_have_no_effect(name: str, tmp_path: Path) -> None:
    stored = [passage("a.md", 0, "1", category="plans")]
    options: list[dict[str, Any]] = [
        {"exclude_category": "plans"},
        {"include_category": "other"},
        {"filter": "category eq 'other'"},
        {"minimum_search_score": 9.0, "top": 1},
        {"use_gpt4v": True, "gpt4v_input": "textAndImages"},
    ]
    with INDEXES[name](stored, tmp_path) as run:
        for each in options:
            (source,) = run(read("a.md", NOBODY, Overrides(**each)))
            assert (source.category, source.image) == ("plans", None)


def test_a_file_that_is_missing_or_hidden_has_no_passages(make: MakeIndex, tmp_path: Path) -> None:
    hidden = passage("hidden.md", 0, "1", oids=("oid-b",))
    with make([passage("a.md", 0, "1"), hidden], tmp_path) as run:
        for name in (
            "hidden.md",
            "missing.md",
            "",
            "A.md",
            "a",
            "md",
            "' or 1 eq 1 or 'a",
            "a.md/",
        ):
            assert run(read(name, ANNA)) == ()
        assert ids(run(read("hidden.md", BERT))) == [hidden.id]


NAMES = ["a#1.md", "[a] b.md", "100%.md", "it's.md", 'a "b".md', "a\\b.md", "ä/日本.md", "a b.md"]


@pytest.mark.parametrize("name", [*NAMES, "50%23.md", "a#page=2", "--.md", "' eq '"])
def test_any_name_is_found_as_its_citation_encodes_it(
    make: MakeIndex, name: str, tmp_path: Path
) -> None:
    others = [passage(other, 0, "1") for other in NAMES if other != name]
    stored = replace(passage(name, 0, "1"), id="right")
    with make([*others, stored], tmp_path) as run:
        assert ids(run(read(name))) == ["right"]


def search_documents(*names: str, user: User = NOBODY, overrides: Overrides = BOTH) -> Work:
    encoded, limited = [*map(encode_path, names)], overrides.model_copy(update={"top": 50})

    async def search(index: Any) -> list[str]:
        result = await index.search_documents(user, "part", encoded, limited)
        return sorted(ids(result.sources))

    return search


@pytest.fixture(params=[*EMBEDDED, AZURE])
def make_searched(request: pytest.FixtureRequest) -> MakeIndex:
    return INDEXES[request.param]


@pytest.mark.part("uploads")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("enabled", [{}, *({name: True} for name in FILTERS), FILTERS])
def test_search_within_documents_has_the_rule_of_any_search(
    make_searched: MakeIndex, user: User, enabled: Mapping[str, Any], tmp_path: Path
) -> None:
    overrides = Overrides(**enabled)
    others = [passage("other.md", 0, "1"), passage("mixed.md.bak", 0, "2")]
    with make_searched([*MIXED, *others], tmp_path) as run:
        found = run(search_documents("mixed.md", user=user, overrides=overrides))
        two = run(search_documents("mixed.md", "other.md", user=user, overrides=overrides))

    expected = [item.id for item in MIXED if may_see(user, item, overrides)]
    assert found == sorted(expected)
    assert two == sorted([*expected, others[0].id])


@pytest.mark.part("uploads")
def test_search_within_no_or_missing_documents_finds_nothing(
    make_searched: MakeIndex, tmp_path: Path
) -> None:
    with make_searched([passage("a.md", 0, "1")], tmp_path) as run:
        for names in ((), ("missing.md",), ("",), ("' or 1 eq 1 or 'a",), ("A.md",)):
            assert run(search_documents(*names)) == []


@pytest.mark.part("uploads")
@pytest.mark.parametrize("name", [*NAMES, "a,b|c;d.md", "50%23.md", "--.md", "' eq '"])
def test_search_within_a_document_of_any_name(
    make_searched: MakeIndex, name: str, tmp_path: Path
) -> None:
    parts = [*name.split("|"), *name.split(","), *name.split(";"), *name.split(" ")]
    names = {*NAMES, *filter(None, parts)} - {name}
    others = [replace(passage(other, 0, "1"), id=f"x{n}") for n, other in enumerate(sorted(names))]
    stored = replace(passage(name, 0, "1"), id="right")
    with make_searched([*others, stored], tmp_path) as run:
        assert run(search_documents(name)) == ["right"]


@pytest.mark.part("uploads", "azure-search", "azure-ingestion")
def test_search_within_documents_of_an_index_of_another_tool(tmp_path: Path) -> None:
    stored = [passage("[a] b's.md", 0, "1"), passage("b.md", 0, "2")]
    with INDEXES["own field names"](stored, tmp_path) as run:
        assert run(search_documents("[a] b's.md")) == [stored[0].id]
    with (
        INDEXES["sourcefile not filterable"](stored, tmp_path) as run,
        pytest.raises(Unsupported, match="by their names"),
    ):
        run(search_documents("b.md"))


def pages(user: User, limit: int) -> Work:
    """Read all pages of the names of files."""

    async def read_pages(index: Retriever) -> list[tuple[str, ...]]:
        pages, after = list[tuple[str, ...]](), ""
        while page := await index.list_files(user, BOTH, after, limit):
            assert page[0] > after
            pages.append(page)
            after = page[-1]
        return pages

    return read_pages


FILES = [
    passage(f"{name}/{number}.md", 0, "1", oids=oids, groups=groups)
    for number in range(12)
    for name, (oids, groups) in READERS.items()
]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("limit", [1, 5, 12, 100])
def test_pages_have_each_file_that_a_user_may_see_once(
    make_embedded: MakeIndex, user: User, limit: int, tmp_path: Path
) -> None:
    with make_embedded([*FILES, *MIXED], tmp_path) as run:
        result = run(pages(user, limit))

    expected = sorted({item.sourcefile for item in [*FILES, *MIXED] if may_see(user, item)})
    assert [name for page in result for name in page] == expected
    assert {len(page) for page in result[:-1]} <= {limit}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", [*EMBEDDED, AZURE])
def test_categories_are_those_of_passages_that_a_user_may_see(
    name: str, user: User, tmp_path: Path
) -> None:
    stored = [replace(item, category=item.sourcefile.partition("/")[0]) for item in FILES]
    with INDEXES[name](stored, tmp_path) as run:
        categories = run(lambda index: index.list_categories(user, BOTH, 50))
        first = run(lambda index: index.list_categories(user, BOTH, 1))

    expected = sorted({str(item.category) for item in stored if may_see(user, item)})
    assert [*categories] == expected
    assert [*first] == expected[:1]


@pytest.mark.part("azure-search", "azure-ingestion")
def test_categories_of_an_index_of_another_tool_are_not_listed(tmp_path: Path) -> None:
    with INDEXES["own field names"](FILES, tmp_path) as run:
        assert run(lambda index: index.list_categories(NOBODY, BOTH, 50)) == ()


def test_names_are_sorted_by_code_point(make_embedded: MakeIndex, tmp_path: Path) -> None:
    names = ["a.md", "B.md", "ä.md", "\U0001f4c4.md", "\ufb01.md", "10.md", "9.md", "a/b.md"]
    with make_embedded([passage(name, 0, "1") for name in names], tmp_path) as run:
        assert [name for page in run(pages(NOBODY, 3)) for name in page] == sorted(names)


def test_pages_go_on_after_a_file_that_was_removed(tmp_path: Path) -> None:
    path = write_file([passage(f"{name}.md", 0, "1") for name in "abcdef"], tmp_path)

    async def read_around_a_change(index: Retriever) -> tuple[tuple[str, ...], ...]:
        first = await index.list_files(NOBODY, BOTH, "", 3)
        (tmp_path / "new").mkdir()
        others = [passage(f"{name}.md", 0, "1") for name in "bdxy"]
        new = await asyncio.to_thread(write_file, others, tmp_path / "new")
        new.replace(path)
        return first, await index.list_files(NOBODY, BOTH, first[-1], 3)

    with closing(SqliteRetriever.open(path)) as index:
        result = asyncio.run(read_around_a_change(index))
    assert result == (("a.md", "b.md", "c.md"), ("d.md", "x.md", "y.md"))


def test_a_file_without_text_is_not_listed(tmp_path: Path) -> None:
    async def fill(writer: SqliteIndexWriter) -> None:
        await writer.put(Document("empty.md", "1", ()), Path())
        await writer.finish()
        await writer.close()

    asyncio.run(fill(SqliteIndexWriter(tmp_path / "index.db", IndexMeta(tmp_path))))
    with closing(SqliteRetriever.open(tmp_path / "index.db")) as index:
        assert asyncio.run(pages(NOBODY, 5)(index)) == []


@pytest.mark.part("azure-ingestion")
def test_azure_search_lists_no_files(tmp_path: Path) -> None:
    with INDEXES["Azure AI Search"](FILES, tmp_path) as run:
        assert run(pages(ANNA, 5)) == []


class MinimalRetriever(Retriever):
    """A search of one's own that defines only what it must."""

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        return SearchResult((passage("a.md", 0, "1"),), {})


def test_a_search_of_ones_own_need_not_read_files() -> None:
    index = MinimalRetriever()

    assert asyncio.run(index.list_files(NOBODY, UNSET, "", 5)) == ()
    assert asyncio.run(index.list_categories(NOBODY, UNSET, 5)) == ()
    with pytest.raises(Unsupported, match="search it instead"):
        asyncio.run(index.list_passages(NOBODY, "a.md", UNSET))
