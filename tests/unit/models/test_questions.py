"""Tests that the demo model quotes the passages that answer the sample questions.

`python -m tests.unit.models.test_questions` prints how many hold, and the answers of the others.
"""

from __future__ import annotations

import asyncio

from tests.support.questions import HELD, REPORTED, measure


def test_nine_in_ten_questions_in_words_of_the_documents_hold() -> None:
    score = asyncio.run(measure())

    assert set(score.all) == HELD | REPORTED
    for kind in HELD:
        assert score.holding[kind] >= 0.9 * score.all[kind], str(score)


if __name__ == "__main__":
    print(asyncio.run(measure()))
