"""What each retriever answers about files: their passages, and the names that a user may see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest

from shared.chat.citation_paths import encode_path
from shared.chat.errors import Misconfigured, Unavailable, Unsupported
from shared.chat.events import Source
from shared.chat.overrides import UNSET, Overrides
from shared.chat.request import User
from shared.ingest.splitting.passages import Passage
from shared.ingest.targets.index_writer import Document
from shared.ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.retrieval.azure_search.client import make_index
from shared.retrieval.azure_search.field_mapping import IndexFields
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.retrieval.base import LimitedRetriever, Retriever, SearchResult
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.fake_search import SELECTS, FakeSearch
from tests.support.search_writer import FakeCredential, run_transport, tls_contexts
from tests.support.upstream import error_response, run_upstream

Work = Callable[[Retriever], Coroutine[Any, Any, Any]]
Run = Callable[[Work], Any]
"""Calls `work` with the retriever of an index."""
MakeIndex = Callable[[Sequence[Source], Path], AbstractContextManager[Run]]

NOBODY, ANNA, BERT = User(), User("oid-a", ("g1",)), User("oid-b", ("g2", "g3"))
USERS = (NOBODY, ANNA, BERT)
FILTERS: Mapping[str, Any] = {"use_oid_security_filter": True, "use_groups_security_filter": True}
BOTH = Overrides(**FILTERS)
READERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "public": ((), ()),
    "for-anna": (("oid-a",), ()),
    "for-bert": (("oid-b",), ()),
    "for-anna-and-g2": (("oid-a",), ("g2",)),
    "for-g1": ((), ("g1",)),
    "for-nobody-here": (("oid-z",), ("g9",)),
}


def passage(name: str, page: int, part: str, **more: Any) -> Source:
    file = encode_path(name)
    anchor = f"#page={page}" if page else ""
    id, text = f"x-1f-p{page}-{part}", f"Part {part} of page {page}."
    return Source(id, text, f"{file}{anchor}", file, **more)


def ids(sources: Sequence[Source]) -> list[str]:
    return [source.id for source in sources]


@contextmanager
def memory_index(passages: Sequence[Source], _folder: Path) -> Iterator[Run]:
    with closing(SqliteRetriever(passages)) as index:
        yield lambda work: asyncio.run(run_with(index, work))


async def run_with(index: Retriever, work: Work) -> Any:
    return await work(LimitedRetriever(index))


@contextmanager
def file_index(passages: Sequence[Source], folder: Path) -> Iterator[Run]:
    with closing(SqliteRetriever.open(write_file(passages, folder))) as index:
        yield lambda work: asyncio.run(run_with(index, work))


def write_file(passages: Sequence[Source], folder: Path) -> Path:
    """Write the files of these passages to the index of a folder, as `make index` does."""

    async def fill() -> None:
        writer = SqliteIndexWriter(folder / "index.db", IndexMeta(folder))
        try:
            for name, of_file in groupby(passages, lambda item: item.sourcefile):
                document = Document(name, "1", tuple(map(to_passage, of_file)))
                await writer.put(document, Path())
            await writer.finish()
        finally:
            await writer.close()

    asyncio.run(fill())
    return folder / "index.db"


def to_passage(source: Source) -> Passage:
    names = (source.id, source.content, source.sourcepage, source.sourcefile)
    readers = (source.oids, source.groups)
    return Passage(*names, source.category or "", *readers, heading=source.heading)


OWN_NAMES = IndexFields(
    id="key",
    content="text",
    sourcepage="page",
    sourcefile="file",
    category="",
    oids="people",
    groups="teams",
    image="",
)


def azure_search(fields: IndexFields, **options: Any) -> MakeIndex:
    """An index of Azure AI Search with these fields, which returns passages in any order."""

    @contextmanager
    def make(passages: Sequence[Source], _folder: Path) -> Iterator[Run]:
        docs = [to_document(fields, passage) for passage in passages]
        Random(7).shuffle(docs)
        sample = to_document(fields, Source("x", "x", "x", "x"))
        with run_fake_search(docs, fields, **{"sample": sample, **options}) as (run, _):
            yield run

    return make


def to_document(fields: IndexFields, source: Source) -> dict[str, Any]:
    """A passage as the index stores it: only the app's own encodes the names of files."""
    names = ("id", "content", "sourcepage", "sourcefile", "category", "oids", "groups")
    values = {name: getattr(source, name) for name in names} | {"image": "key-of-an-image"}
    if not fields.is_own_schema:
        values["sourcefile"] = unquote(source.sourcefile)
    return {field: values[name] for name in values if (field := getattr(fields, name))}


@contextmanager
def run_fake_search(
    docs: Sequence[Mapping[str, Any]], fields: IndexFields, **options: Any
) -> Iterator[tuple[Run, FakeSearch]]:
    selects = (*SELECTS, set(fields.select_fields()), {fields.id})
    fake = FakeSearch(docs=docs, **{"selects": selects, "sortable": {fields.id}, **options})

    async def run(work: Work) -> Any:
        async with run_transport() as transport:
            index = make_index(search.url, "docs", FakeCredential(), transport=transport)
            return await run_with(AzureSearchRetriever(index, fields, 5), work)

    with run_upstream(fake, tls_contexts()[0]) as search:
        yield lambda work: asyncio.run(run(work)), search


INDEXES: Mapping[str, MakeIndex] = {
    "memory": memory_index,
    "file": file_index,
    "Azure AI Search": azure_search(IndexFields()),
    "own field names": azure_search(OWN_NAMES),
    "sourcefile not filterable": azure_search(
        OWN_NAMES, unfilterable={"file"}, searchable={"file"}
    ),
    "key not sortable": azure_search(OWN_NAMES, sortable=()),
}
EMBEDDED = ("memory", "file")


@pytest.fixture(params=INDEXES)
def make(request: pytest.FixtureRequest) -> MakeIndex:
    return INDEXES[request.param]


@pytest.fixture(params=EMBEDDED)
def make_embedded(request: pytest.FixtureRequest) -> MakeIndex:
    return INDEXES[request.param]


def read(name: str, user: User = NOBODY, overrides: Overrides = BOTH) -> Work:
    return lambda index: index.list_passages(user, encode_path(name), overrides)


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


@pytest.mark.parametrize("name", ["memory", "file", "Azure AI Search"])
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


def test_a_name_that_is_too_long_for_any_index_has_no_passages(
    make: MakeIndex, tmp_path: Path
) -> None:
    name = "x" * 3000
    with make([passage(name, 0, "1")], tmp_path) as run:
        assert run(read(name)) == ()
        assert run(lambda index: index.list_files(NOBODY, BOTH, name, 5)) == ()


def pages(user: User, limit: int) -> Work:
    """Read all pages of the names of files."""

    async def read_pages(index: Retriever) -> list[tuple[str, ...]]:
        pages, after = list[tuple[str, ...]](), ""
        while page := await index.list_files(user, BOTH, after, limit):
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


def test_azure_search_lists_no_files(tmp_path: Path) -> None:
    with INDEXES["Azure AI Search"](FILES, tmp_path) as run:
        assert run(pages(ANNA, 5)) == []


class MinimalRetriever(Retriever):
    """A search of one's own that defines only what it must."""

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        return SearchResult((passage("a.md", 0, "1"),), {})


def test_a_search_of_ones_own_need_not_read_files() -> None:
    index = LimitedRetriever(MinimalRetriever())

    assert asyncio.run(index.list_files(NOBODY, UNSET, "", 5)) == ()
    with pytest.raises(Unsupported, match="search it instead"):
        asyncio.run(index.list_passages(NOBODY, "a.md", UNSET))


OYD = IndexFields(
    sourcepage="filepath",
    sourcefile="filepath",
    category="",
    oids="",
    groups="",
    embedding="contentVector",
    image="",
    title="title",
    url="url",
    chunk="chunk_id",
)


def chunk(id: str, filepath: str | None, number: int, key: str) -> dict[str, Any]:
    text = f'{{"chunk_id": "{number}"}}' if key == "metadata" else str(number)
    title = "The plan" if filepath else "About us"
    file = {"filepath": filepath, "title": title, "url": f"https://site.example/{id}"}
    return {"id": id, "content": f"Text {id}.", **file, key: text}


@pytest.mark.parametrize("key", ["chunk_id", "metadata"])
@pytest.mark.parametrize("unfilterable", [(), {"filepath"}])
def test_an_index_of_on_your_data_is_read_by_filepath(key: str, unfilterable: set[str]) -> None:
    ids_by_number = [f"{(number * 7919) % 2203:05}" for number in range(2203)]
    docs = [
        *(chunk(id, "plans/a[1].pdf", number, key) for number, id in enumerate(ids_by_number)),
        chunk("other", "plans/a[1].pdf.md", 0, key),
        *(chunk(f"web-{number}", None, 0, key) for number in (10, 2)),
    ]
    selects = ({*OYD.select_fields()} - {"chunk_id"} | {key}, {"id"})
    options = {"selects": selects, "sample": docs[0], "unfilterable": unfilterable}
    with run_fake_search(sorted(docs, key=lambda doc: doc["content"]), OYD, **options) as (run, _):
        file = run(read("plans/a[1].pdf"))
        web_pages = run(read("About us"))
        readable = run(lambda index: index.readable(NOBODY, "plans/a%5B1%5D.pdf", BOTH))

    assert ids(file) == ids_by_number
    assert {source.sourcefile for source in file} == {"plans/a[1].pdf"}
    assert (file[12].sourcepage, file[12].title) == ("plans/a%5B1%5D.pdf#12", "The plan")
    assert file[12].url == f"https://site.example/{file[12].id}"
    assert ids(web_pages) == ["web-2", "web-10"]
    assert readable is False


def test_an_index_that_cannot_look_up_a_name_says_so(tmp_path: Path) -> None:
    make = azure_search(OWN_NAMES, unfilterable={"file"}, searchable=())
    with make(MIXED, tmp_path) as run, pytest.raises(Unsupported, match="by their names"):
        run(read("mixed.md"))


def test_the_app_s_own_index_must_have_its_fields(tmp_path: Path) -> None:
    make = azure_search(IndexFields(), unfilterable={"sourcefile"})
    with make(MIXED, tmp_path) as run, pytest.raises(Misconfigured):
        run(read("mixed.md"))


def test_a_service_that_fails_is_an_error_and_no_empty_file() -> None:
    with run_fake_search([], IndexFields()) as (run, search):
        search.plan += [error_response(503)] * 9
        with pytest.raises(Unavailable):
            run(read("a.md"))


def test_a_word_of_many_names_does_not_read_the_whole_index() -> None:
    docs = [chunk(str(number), f"plans/{number}.pdf", 0, "chunk_id") for number in range(3000)]
    options = {"sample": docs[0], "unfilterable": {"filepath"}}
    with run_fake_search(docs, OYD, **options) as (run, search):
        assert run(read("plans")) == ()
        phrases = [request for request in search.requests if "searchFields" in request.body]

    assert len(phrases) == 1
