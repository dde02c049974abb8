"""`use_whole_documents`: the model gets the documents of the passages found, whole if they fit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain.errors import ChatError, Unavailable, Unsupported
from shared.domain.events import Context, ExcludedSource, Source
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest, RequestMetadata, User
from shared.rag.flow import answer
from shared.rag.whole_documents import MAX_DOCUMENTS, MAX_TOKENS, UNREADABLE
from shared.retrieval.base import Retriever, SearchResult
from shared.retrieval.sqlite.retriever import SqliteRetriever
from tests.support.calls import PNG_URL
from tests.support.fakes import FakeModel, FakeRetriever, make_rag
from tests.support.retrievers import ANNA, FILTERS, INDEXES, NOBODY, MakeIndex, passage

QUESTION = "Which part is it?"
BOOK = [passage("book.pdf", page, "1") for page in range(1, 7)]
READERS: tuple[tuple[str, ...], ...] = ((), ("oid-a",), ("oid-b",), ("oid-a", "oid-b"))
MIXED = [passage("mixed.pdf", page, "1", oids=oids) for page, oids in enumerate(READERS, 1)]


@pytest.fixture(params=INDEXES)
def make(request: pytest.FixtureRequest) -> MakeIndex:
    return INDEXES[request.param]


def section(name: str, number: int, words: int, subject: str) -> Source:
    """A passage with so many words: the fake model counts each as a token."""
    text = f"{subject} {number} of {name}. {'word ' * words}"
    return Source(f"{name}-{number}", text, f"{name}#page={number}", name, name.partition("/")[0])


def document(name: str, words: int, found: str = "Part") -> list[Source]:
    """A document of two passages, the first of which is found."""
    return [section(name, 1, 10, found), section(name, 2, words, "Piece")]


async def ask(
    retriever: Any, tokens: int = 1_000_000, user: User = NOBODY, **overrides: Any
) -> tuple[Context, str]:
    """The context of an answer, and the text of the prompt."""
    model = FakeModel(max_prompt_tokens=tokens)
    messages, metadata = (Message("user", QUESTION),), RequestMetadata(user)
    request = ChatRequest(messages, Overrides(**overrides), metadata=metadata)
    events = [event async for event in answer(make_rag(model, retriever), request)]
    assert isinstance(events[0], Context)
    return events[0], model.calls[-1].messages[-1].content


def pages(context: Context) -> list[str]:
    return [source.sourcepage for source in context.sources]


def whole_pages(sources: Sequence[Source], tokens: int = 1_000_000, **overrides: Any) -> list[str]:
    """The citations of an answer about some documents, where whole ones are wanted."""
    options = {"top": 50, "use_whole_documents": True, **overrides}
    context, _ = asyncio.run(ask(SqliteRetriever(sources), tokens, **options))
    assert context.notes == ()
    return pages(context)


@pytest.mark.parametrize(("wanted", "number"), [(None, 1), (False, 1), (True, len(BOOK))])
def test_document_of_a_found_passage_is_whole_on_request(
    make: MakeIndex, tmp_path: Path, wanted: bool | None, number: int
) -> None:
    async def work(retriever: Retriever) -> tuple[Context, str]:
        return await ask(retriever, top=1, use_whole_documents=wanted)

    with make(BOOK, tmp_path) as run:
        context, prompt = run(work)
    places = [prompt.find(source.content) for source in BOOK]

    assert sum(place >= 0 for place in places) == number
    if wanted:
        assert places == sorted(places)
        assert pages(context) == [source.sourcepage for source in BOOK]


def test_passages_that_the_user_may_not_see_are_left_out(make: MakeIndex, tmp_path: Path) -> None:
    async def work(retriever: Retriever) -> tuple[Context, str]:
        return await ask(retriever, user=ANNA, top=1, use_whole_documents=True, **FILTERS)

    with make(MIXED, tmp_path) as run:
        context, prompt = run(work)

    assert pages(context) == [f"mixed.pdf#page={page}" for page in (1, 2, 4)]
    assert MIXED[2].content not in prompt


def test_best_documents_are_whole_and_a_long_one_is_its_passages() -> None:
    long = document("long.md", MAX_TOKENS, "Which part, part")
    others = [document(f"{name}.md", MAX_TOKENS // 2 - 100) for name in "ab"]
    third = document("c.md", MAX_TOKENS // 2)
    cited = whole_pages([*long, *others[0], *others[1], *third])

    assert cited[0] == "long.md#page=1"
    assert "long.md#page=2" not in cited
    assert sum(each.endswith("#page=2") for each in cited) == 2
    assert len(cited) == 4 + 2


def test_passages_of_other_documents_keep_their_room() -> None:
    first, second = document("a.md", 200, "Which part, part"), document("b.md", 50)
    cited = whole_pages([*first, *second], 200)

    assert cited == ["a.md#page=1", "b.md#page=1", "b.md#page=2"]


def test_documents_beyond_the_limit_are_their_passages() -> None:
    files = [document(f"{number}.md", 5) for number in range(MAX_DOCUMENTS + 2)]
    cited = whole_pages([source for file in files for source in file])

    assert len(cited) == 2 * MAX_DOCUMENTS + 2


def test_category_limits_the_whole_documents() -> None:
    sources = [*document("plans/a.md", 5), *document("company/b.md", 5)]
    cited = whole_pages(sources, include_category="plans")

    assert cited == ["plans/a.md#page=1", "plans/a.md#page=2"]


class OneFound(FakeRetriever):
    """Finds the first passage; the documents may be unreadable."""

    def __init__(self, sources: Sequence[Source], failure: ChatError | None = None) -> None:
        super().__init__(sources)
        self.failure = failure

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        result = await super().search(user, query, overrides)
        first, *others = result.sources
        excluded = tuple(ExcludedSource(source, "score") for source in others)
        return replace(result, sources=(first,), excluded=excluded)

    async def list_passages(self, *args: Any) -> tuple[Source, ...]:
        if self.failure:
            raise self.failure
        passages = await super().list_passages(*args)
        return tuple(replace(each, image=None, captions=()) for each in passages)


@pytest.mark.parametrize("failure", [Unsupported("No text."), Unavailable()])
def test_document_that_cannot_be_read_is_its_passages_with_a_note(failure: ChatError) -> None:
    context, _ = asyncio.run(ask(OneFound(BOOK, failure), use_whole_documents=True))

    assert pages(context) == [BOOK[0].sourcepage]
    assert context.notes == (UNREADABLE,)


def test_passage_below_the_minimum_score_is_not_excluded_from_a_whole_document() -> None:
    context, _ = asyncio.run(ask(OneFound(BOOK), use_whole_documents=True))

    assert pages(context) == [source.sourcepage for source in BOOK]
    assert context.excluded == ()


def test_whole_document_has_the_images_found_and_its_text_in_place_of_captions() -> None:
    found = replace(BOOK[0], image=PNG_URL, captions=("A caption.",))
    names = ("use_whole_documents", "use_gpt4v", "semantic_captions")
    options: dict[str, Any] = dict.fromkeys(names, True)
    context, prompt = asyncio.run(ask(OneFound([found, *BOOK[1:]]), **options))

    assert context.images == (PNG_URL,)
    assert all(source.content in prompt for source in BOOK)


def test_filter_is_not_circumvented() -> None:
    async def go() -> Context:
        messages = (Message("user", QUESTION),)
        overrides = Overrides(use_whole_documents=True).model_copy(update={"filter": "x eq 1"})
        rag = make_rag(FakeModel(max_prompt_tokens=1000), OneFound(BOOK))
        events = [event async for event in answer(rag, ChatRequest(messages, overrides))]
        assert isinstance(events[0], Context)
        return events[0]

    assert pages(asyncio.run(go())) == [BOOK[0].sourcepage]
