"""`[sourcepage]` becomes `[docN]`, however tokens cut it, and nothing else does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import process_time

import pytest

from shared.domain.errors import Unavailable
from shared.domain.events import Context, Delta, Done, Event, Events, collect
from shared.rag.citations import CitationRewriter, number_citations
from tests.support.fakes import PLUS, STANDARD


def rewriter(*pages: str) -> CitationRewriter:
    return CitationRewriter([replace(PLUS, sourcepage=page) for page in pages])


PAGES = ("a[1].pdf", "b.md", "b.md#page=2", "c", "c][d")

TEXTS = [
    ("Yes [b.md].", "Yes [doc2]."),
    ("[b.md]", "[doc2]"),
    ("[b.md][b.md#page=2][b.md]", "[doc2][doc3][doc2]"),
    ("See [a[1].pdf], or [[a[1].pdf]].", "See [doc1], or [[doc1]]."),
    ("[doc9] stays, and [1].", "[doc9] stays, and [1]."),
    ("x[0] = y[b.md", "x[0] = y[b.md"),
    ("[unknown.md] [b.mdx] [B.MD] [ b.md ]", "[unknown.md] [b.mdx] [B.MD] [ b.md ]"),
    ("[c] [c][d] [c]", "[doc4] [doc5] [doc4]"),
    ("[c][e]", "[doc4][e]"),
    ("[[[[", "[[[["),
    ("]] [", "]] ["),
    ("", ""),
    ("漢字[b.md]漢字", "漢字[doc2]漢字"),
]


@pytest.mark.parametrize(("text", "cited"), TEXTS)
def test_a_marker_is_found_wherever_it_is_cut(text: str, cited: str) -> None:
    for size in range(1, len(text) + 2):
        citations = rewriter(*PAGES)
        output = [citations.feed(text[at : at + size]) for at in range(0, len(text), size)]

        assert "".join(output) + citations.end() == cited


def test_what_is_no_marker_is_shown_at_once() -> None:
    citations = rewriter(*PAGES)

    assert citations.feed("before [b.m") == "before "
    assert citations.feed("x after") == "[b.mx after"
    assert citations.feed("[z") == "[z"


def test_without_sources_no_marker_is_kept_back() -> None:
    assert rewriter().feed("[b.md] [b") == "[b.md] [b"


def test_a_source_has_the_number_of_its_first_passage() -> None:
    citations = CitationRewriter([STANDARD, PLUS, replace(PLUS, id="plus-2b")])

    assert citations.feed(f"[{PLUS.sourcepage}]") == "[doc2]"


def test_a_source_without_a_place_is_not_cited() -> None:
    assert rewriter("", "b.md").feed("x[] [b.md]") == "x[] [doc2]"


def test_a_marker_may_be_decoded() -> None:
    citations = rewriter("a%5B1%5D.pdf#3", "a[1].pdf#4")

    assert citations.feed("[a[1].pdf#3] [a%5B1%5D.pdf#3] [a[1].pdf#4]") == "[doc1] [doc1] [doc2]"


async def played(*events: Event) -> Events:
    for event in events:
        yield event


def test_the_stream_s_sources_are_those_of_its_context() -> None:
    context = Context((PLUS, STANDARD), (), "m")
    text = f"Yes [{STANDARD.sourcepage}]. No [{PLUS.sourcepage}"
    deltas = [Delta(letter) for letter in text]
    got = asyncio.run(collect(number_citations(played(context, *deltas, Done()))))

    assert got.content == f"Yes [doc2]. No [{PLUS.sourcepage}"
    assert got.done == Done(model="m")


def test_markers_inside_of_what_might_have_been_one_are_found_at_the_end() -> None:
    citations = rewriter("x", "[]a]b[", "]a")

    assert citations.feed("][[]a]") + citations.end() == "][[doc3]"


def test_a_name_of_any_length_is_cited_however_it_is_cut() -> None:
    page = "x" * 3000
    citations = rewriter(page)

    assert "".join(map(citations.feed, f"See [{page}].")) + citations.end() == "See [doc1]."


def test_a_megabyte_of_brackets_takes_no_seconds() -> None:
    citations = rewriter(*(f"plans/{number}.md" for number in range(1, 51)))
    text = "[x " * 350_000 + "[" * 1_150_000
    before = process_time()

    assert citations.feed(text) + citations.end() == text
    assert process_time() - before < 5  # it took over six


DOC2 = replace(STANDARD, id="d", sourcepage="doc2")
COPIED = [
    ("It says [doc2].", "It says (doc2)."),
    (f"[doc2] [{STANDARD.sourcepage}] [doc1]", "(doc2) [doc2] (doc1)"),
    ("[doc02] [doc002] [Doc2] [doc0000002]", "(doc02) (doc002) (Doc2) (doc0000002)"),
    ("[doc\u0662] [[doc2]] [doc[doc1]2]", "(doc\u0662) [(doc2)] [doc(doc1)2]"),
    ("[doc3] [doc0] [doc] [doc2", "[doc3] [doc0] [doc] [doc2"),
    (f"[doc{'2' * 40}] [doc{'2' * 40}", f"[doc{'2' * 40}] [doc{'2' * 40}"),
    ("[d [do [doc [docx] a[0]", "[d [do [doc [docx] a[0]"),
]


@pytest.mark.parametrize(("text", "content"), COPIED)
def test_a_citation_by_number_that_the_model_copied_is_none(text: str, content: str) -> None:
    context = Context((PLUS, STANDARD), (), "m")
    for size in range(1, len(text) + 1):
        deltas = [Delta(text[at : at + size]) for at in range(0, len(text), size)]
        got = asyncio.run(collect(number_citations(played(context, *deltas, Done()))))

        assert got.content == content


def test_a_source_that_is_called_as_a_citation_is_cited() -> None:
    context = Context((DOC2, PLUS, STANDARD), (), "m")
    deltas = [Delta("[doc"), Delta("2] [doc3"), Delta("]")]
    got = asyncio.run(collect(number_citations(played(context, *deltas, Done()))))

    assert got.content == "[doc1] (doc3)"


@pytest.mark.parametrize("text", ["See [plans/pl", "See [doc"])
def test_what_was_kept_back_comes_before_a_failure(text: str) -> None:
    async def failing() -> Events:
        yield Context((PLUS,), (), "m")
        yield Delta(text)
        raise Unavailable

    async def go() -> list[str]:
        texts = []
        with pytest.raises(Unavailable):
            async for event in number_citations(failing()):
                texts += [event.content] if isinstance(event, Delta) else []
        return texts

    assert "".join(asyncio.run(go())) == text
