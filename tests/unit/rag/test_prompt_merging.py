"""Passages that follow each other are merged for the prompt, without a word lost or repeated."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import permutations

import pytest

from ingest.document import Page
from ingest.splitting.passages import split_document
from shared.domain.events import Context, Source, collect
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.rag.flow import answer
from shared.rag.prompt import merge_neighbours
from tests.support.fakes import FakeModel, FakeRetriever, make_rag


def passage(id: str, content: str, page: str = "a.md", image: str | None = None) -> Source:
    return Source(id, content, page, page.partition("#")[0], image=image)


FIRST = passage("a-p0-1", "Leave > Parents\n\nOne two three. Four five six seven.")
SECOND = passage("a-p0-2", "Leave > Parents\n\nFour five six seven. Eight nine.")
THIRD = passage("a-p0-3", "Leave > Parents\n\nTen eleven.")


def contents(*sources: Source) -> list[str]:
    return [source.content for source in merge_neighbours(sources)]


@pytest.mark.parametrize("ranked", list(permutations((FIRST, SECOND, THIRD))))
def test_neighbours_become_one_passage_in_the_order_of_the_document(
    ranked: tuple[Source, ...],
) -> None:
    (text,) = contents(*ranked)

    assert (
        text.split()
        == ("Leave > Parents One two three. Four five six seven. Eight nine. Ten eleven.").split()
    )


def test_a_merged_passage_has_the_rank_of_its_best_one() -> None:
    other = passage("b-p0-7", "Other.", "b.md")
    merged = merge_neighbours((SECOND, other, FIRST))

    assert [source.sourcepage for source in merged] == ["a.md", "b.md"]


@pytest.mark.parametrize(
    "other",
    [
        THIRD,
        replace(SECOND, content="Leave > Others\n\nEight nine."),
        replace(SECOND, sourcepage="a.md#page=2"),
        replace(SECOND, sourcepage="a.md#a-p0-2"),
        replace(SECOND, id="b-p0-2"),
        replace(SECOND, id="b"),
        replace(SECOND, image="data:image/png;base64,AA=="),
    ],
    ids=[
        "not adjacent",
        "another section",
        "another page",
        "cited by id",
        "another file",
        "no number",
        "an image",
    ],
)
def test_other_passages_stay_apart(other: Source) -> None:
    assert contents(FIRST, other) == [FIRST.content, other.content]


def test_line_of_a_passage_has_a_colon_behind_its_headings() -> None:
    source = replace(FIRST, heading="Leave > Parents")

    assert source.prompt_line().startswith("a.md: Leave > Parents: One two three.")
    assert FIRST.prompt_line().startswith("a.md: Leave > Parents One two three.")


def test_passages_without_a_citation_stay_apart() -> None:
    bare = [replace(source, sourcepage="") for source in (FIRST, SECOND)]

    assert contents(*bare) == [FIRST.content, SECOND.content]


def test_one_word_at_both_sides_is_no_overlap() -> None:
    first = passage("a-p0-1", "Rules\n\nIt must be so")
    second = passage("a-p0-2", "Rules\n\nso be it")

    assert contents(first, second)[0].split() == "Rules It must be so so be it".split()


def test_a_document_is_whole_again_when_all_its_passages_are_merged() -> None:
    sentences = [
        f"Sentence {number} tells about the matter of {number * 7}." for number in range(90)
    ]
    split = split_document("a.txt", [Page(" ".join(sentences))])
    sources = [passage(each.id, each.content, each.sourcepage) for each in split]
    merged = contents(*reversed(sources))

    assert len(sources) > 3
    assert " ".join(merged).split() == " ".join(sentences).split()


def test_the_client_gets_each_passage_and_the_model_the_merged_ones() -> None:
    model = FakeModel()
    request = ChatRequest((Message("user", "How long?"),))
    result = asyncio.run(collect(answer(make_rag(model, FakeRetriever((FIRST, SECOND))), request)))
    context: Context = result.context

    assert [source.id for source in context.sources] == ["a-p0-1", "a-p0-2"]
    assert model.calls[-1].messages[-1].content.count("Four five six seven.") == 1
