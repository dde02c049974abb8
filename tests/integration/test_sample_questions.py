"""Tests that the demo model quotes the passages that answer the sample questions.

`python -m tests.integration.test_sample_questions` prints how many hold, and the answers of the
others. Settings may follow, as NAME=VALUE.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict

from evals.questions import SAMPLE_QUESTIONS, read_questions
from ingest.samples import DATA, list_files, read_passages
from ingest.splitting.passages import Passage
from tests.support.questions import HELD, REPORTED, measure

DOCUMENTS = DATA / "documents"
FILES = tuple(path.relative_to(DOCUMENTS).as_posix() for path in list_files(DOCUMENTS))


def test_nine_in_ten_questions_in_words_of_the_documents_hold() -> None:
    score = asyncio.run(measure())

    assert set(score.all) == HELD | REPORTED
    for kind in HELD:
        assert score.holding[kind] >= 0.9 * score.all[kind], str(score)


if __name__ == "__main__":
    print(asyncio.run(measure(dict(text.split("=", 1) for text in sys.argv[1:]))))


def sample(name: str) -> tuple[Passage, ...]:
    return read_passages(DOCUMENTS, DOCUMENTS / name)


def test_pages_of_the_sample_questions_have_their_facts() -> None:
    texts: dict[str, str] = defaultdict(str)
    for passage in (passage for name in FILES for passage in sample(name)):
        texts[passage.sourcepage] += passage.content.lower()

    for question in read_questions(SAMPLE_QUESTIONS):
        facts = [fact.lower() for alternatives in question.facts for fact in alternatives]
        for page in (page for pages in question.citations for page in pages):
            assert any(fact in texts[page] for fact in facts), question
