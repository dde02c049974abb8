"""Asks the sample questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from evals.questions import SAMPLE_QUESTIONS, Question, read_questions
from shared.bootstrap.build import build
from shared.domain.events import Answer, collect
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.models.demo import HEADING, UNKNOWN
from shared.rag.flow import answer
from shared.rag.inputs import Rag
from shared.settings import read_settings

HELD = {"plain", "table", "follow-up", "unknown", "shares words"}
REPORTED = {"two pages", "paraphrase", "German"}  # they need a model that understands the question
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
    """What is expected: quotes of no use, none, or a quote, for one of the kinds of question."""
    if not question.answerable:
        return "shares words" if "shares words" in question.tags else "unknown"
    return next(tag for tag in question.tags if tag in HELD | REPORTED)


def holds(question: Question, reply: Answer) -> bool:
    """Whether a quote comes from each cited passage that has the answer, or there is none at all.

    If the answer stands on two pages, each of the passages has a part of its facts.
    """
    if not question.answerable:
        return reply.content.startswith(HEADING if "shares words" in question.tags else UNKNOWN)
    enough = all if len(question.citations) == 1 else any
    for pages in question.citations:
        passages = [
            " ".join(source.content.split())
            for source in reply.context.sources
            if source.sourcepage in pages and enough(facts_in(question, source.content))
        ]
        quotes = cited_quotes(pages, reply)
        if not any(quote in passage for quote in quotes for passage in passages):
            return False
    return True


def answers(question: Question, reply: Answer) -> bool:
    """Whether the quotes have the answer itself: one of them, if it stands on one page."""
    quotes = [quote for pages in question.citations for quote in cited_quotes(pages, reply)]
    texts = quotes if len(question.citations) == 1 else [" ".join(quotes)]
    return any(all(facts_in(question, text)) for text in texts)


def cited_quotes(pages: Sequence[str], reply: Answer) -> list[str]:
    """The quotes with a citation of one of the pages."""
    return [text for text, cited in QUOTE.findall(reply.content) if cited in pages]


def facts_in(question: Question, text: str) -> list[bool]:
    """Whether a text has each fact of the answer."""
    flat = text.lower()
    return [any(fact.lower() in flat for fact in facts) for facts in question.facts]


async def conversation(rag: Rag, questions: Sequence[str]) -> Answer:
    """The answer to the last question, the earlier ones asked and answered before it."""
    messages: tuple[Message, ...] = ()
    for question in questions:
        messages = (*messages, Message("user", question))
        reply = await collect(answer(rag, ChatRequest(messages)))
        messages = (*messages, Message("assistant", reply.content))
    return reply


async def measure(settings: Mapping[str, str] = MappingProxyType({})) -> Score:
    """Ask every question of the file."""
    score = Score()
    app = build(read_settings({"INDEX_FILE": "samples", **settings}))
    assert app.rag
    for question in read_questions(SAMPLE_QUESTIONS):
        questions = [*question.history, question.question]
        reply = await conversation(app.rag, questions)
        kind, is_held = kind_of(question), holds(question, reply)
        score.all[kind] += 1
        score.holding[kind] += is_held
        score.answering[kind] += answers(question, reply)
        if not is_held:
            score.others.append(f"{kind}: {' / '.join(questions)}\n  {reply.content}")
    return score
