"""Tests that the demo model quotes the passages that answer the sample questions.

`python -m tests.unit.models.test_questions` prints how many hold, and the answers of the others.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from evals.questions import SAMPLE_QUESTIONS, Question, read_questions
from shared.chat.events import Answer, collect
from shared.chat.messages import Message
from shared.chat.overrides import DEFAULT_TOP, Overrides
from shared.chat.request import ChatRequest
from shared.models.demo import HEADING, UNKNOWN, DemoModel
from shared.models.router import Router
from shared.rag.flow import Rag, answer
from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages
from shared.settings import SHARED_FOLDER
from tests.support.prompts import APP_PROMPTS

QUOTE = re.compile(r"^- (.*) \[([^\]]+)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Score:
    """The numbers of questions by their kind: all, those that hold, those whose quote answers."""

    all: Counter[str] = field(default_factory=Counter)
    holding: Counter[str] = field(default_factory=Counter)
    answering: Counter[str] = field(default_factory=Counter)
    others: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = (
            f"{kind} {self.holding[kind]}/{number} ({self.answering[kind]} with the answer itself)"
            for kind, number in self.all.items()
        )
        return "\n\n".join((", ".join(kinds), *self.others))


def kind_of(question: Question) -> str:
    """What is expected: a quote, also for a follow-up question, quotes of no use, or none."""
    if question.answerable:
        return "follow-up" if question.history else "plain"
    return "shares words" if "shares words" in question.tags else "unknown"


def holds(question: Question, reply: Answer) -> bool:
    """Whether a quote comes from the cited passage that has the answer, or there is none at all."""
    if not question.answerable:
        return reply.content.startswith(HEADING if "shares words" in question.tags else UNKNOWN)
    passages = [
        " ".join(source.content.split())
        for source in reply.context.sources
        if source.sourcepage in pages_of(question) and contains(question, source.content)
    ]
    return any(quote in passage for quote in cited_quotes(question, reply) for passage in passages)


def answers(question: Question, reply: Answer) -> bool:
    """Whether a quote has the answer itself."""
    return any(contains(question, quote) for quote in cited_quotes(question, reply))


def cited_quotes(question: Question, reply: Answer) -> list[str]:
    """The quotes with a citation that is expected."""
    pages = pages_of(question)
    return [text for text, cited in QUOTE.findall(reply.content) if cited in pages]


def pages_of(question: Question) -> set[str]:
    """The pages that hold the answer."""
    return {page for pages in question.citations for page in pages}


def contains(question: Question, text: str) -> bool:
    """Whether a text has every fact of the answer."""
    flat = text.lower()
    return all(any(fact.lower() in flat for fact in facts) for facts in question.facts)


async def conversation(rag: Rag, questions: Sequence[str]) -> Answer:
    """The answer to the last question, the earlier ones asked and answered before it."""
    messages: tuple[Message, ...] = ()
    for question in questions:
        messages = (*messages, Message("user", question))
        reply = await collect(answer(rag, ChatRequest(messages)))
        messages = (*messages, Message("assistant", reply.content))
    return reply


async def measure() -> Score:
    """Ask every question of the file."""
    score = Score()
    with closing(SqliteRetriever(read_passages(SHARED_FOLDER / "data" / "samples.jsonl"))) as index:
        rag = Rag(
            index,
            Router.for_model(DemoModel()),
            APP_PROMPTS,
            Overrides(top=DEFAULT_TOP),
        )
        for question in read_questions(SAMPLE_QUESTIONS):
            questions = [*question.history, question.question]
            reply = await conversation(rag, questions)
            kind, is_held = kind_of(question), holds(question, reply)
            score.all[kind] += 1
            score.holding[kind] += is_held
            score.answering[kind] += answers(question, reply)
            if not is_held:
                score.others.append(f"{kind}: {' / '.join(questions)}\n  {reply.content}")
    return score


def test_nine_in_ten_questions_of_each_kind_hold() -> None:
    score = asyncio.run(measure())

    assert set(score.all) == {"plain", "follow-up", "unknown", "shares words"}
    for kind, number in score.all.items():
        assert score.holding[kind] >= 0.9 * number, str(score)


if __name__ == "__main__":
    print(asyncio.run(measure()))
