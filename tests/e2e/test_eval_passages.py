"""The passages that questions are drafted from, over each index of the app."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.drafts.passages import draw_passages
from shared.domain.events import Source
from shared.retrieval.base import Retriever
from tests.support.draft_upstream import plan_passage, plans
from tests.support.retrievers import INDEXES


@pytest.mark.parametrize("kind", INDEXES)
def test_each_public_passage_is_drawn_once_and_the_files_in_turn(kind: str, tmp_path: Path) -> None:
    secret = plan_passage("plans/z.md", "Z1", 900, oids=("someone",))
    heading = Source("id-H", "Fees", "plans/a.md", "plans/a.md")
    passages = [heading, *plans(3, 3), secret]

    async def draw(index: Retriever) -> list[Source]:
        return [passage async for passage in draw_passages(index, 1)]

    with INDEXES[kind](passages, tmp_path) as run:
        result = run(draw)

    assert sorted(each.content for each in result) == sorted(each.content for each in plans(3, 3))
    assert len({each.sourcefile for each in result[:3]}) == 3
