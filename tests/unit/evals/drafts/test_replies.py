"""Replies of a model that drafts questions, or checks drafts, are parsed."""

from __future__ import annotations

import pytest

from evals.drafts.replies import CheckReply, DraftReply
from evals.json_replies import InvalidReply, parse


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "[]",
        '{"answer": 1}',
        '{"answer": ""}',
        '{"answer": "a"} Have a nice day!',
        '{"answer": "a", "reason": "b"}',
        "{}",
    ],
)
def test_reply_of_another_form_is_rejected(text: str) -> None:
    with pytest.raises(InvalidReply, match=r"^(the object|answer|reason): "):
        parse(text, CheckReply)


@pytest.mark.parametrize("text", ['{"question": null}', ' ```json\n{"question": null}\n``` '])
def test_reply_without_a_question_is_valid(text: str) -> None:
    assert parse(text, DraftReply) == DraftReply(question=None)
