"""The indexes that the tests of the Retriever contract run against, each filled with passages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

from ingest.splitting.passages import Passage
from ingest.targets.index_writer import Document
from ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.domain.events import Source, encode_path
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.client import make_index
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.retrieval.base import Retriever
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.fake_search import SELECTS, FakeSearch
from tests.support.search_writer import FakeCredential, run_transport, tls_contexts
from tests.support.upstream import run_upstream
from tests.support.vector_index import index_with_equal_vectors

Work = Callable[[Retriever], Coroutine[Any, Any, Any]]
Run = Callable[[Work], Any]
"""Calls `work` with the retriever of an index."""
MakeIndex = Callable[[Sequence[Source], Path], AbstractContextManager[Run]]

NOBODY, ANNA, BERT = User(), User("oid-a", ("g1",)), User("oid-b", ("g2", "g3"))
FILTERS: Mapping[str, Any] = {"use_oid_security_filter": True, "use_groups_security_filter": True}
BOTH = Overrides(**FILTERS)


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


@contextmanager
def vectors_index(passages: Sequence[Source], _folder: Path) -> Iterator[Run]:
    with closing(index_with_equal_vectors(*passages)) as index:
        yield lambda work: asyncio.run(run_with(index, work))


async def run_with(index: Retriever, work: Work) -> Any:
    return await work(index)


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
    "vectors": vectors_index,
    "Azure AI Search": azure_search(IndexFields()),
    "own field names": azure_search(OWN_NAMES),
    "sourcefile not filterable": azure_search(
        OWN_NAMES, unfilterable={"file"}, searchable={"file"}
    ),
}


def read(name: str, user: User = NOBODY, overrides: Overrides = BOTH) -> Work:
    return lambda index: index.list_passages(user, encode_path(name), overrides)
