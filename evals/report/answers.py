"""A question with its answers: what they should have and have, and how they score."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from evals.citations import find_citations
from evals.metrics import Metric, contains, matches
from evals.questions import Question
from evals.records import Judgement, Passage, Reply


@dataclass(frozen=True, slots=True)
class Score:
    """A score of an answer, and that of the answer before."""

    metric: Metric
    after: float | None
    before: float | None = None

    @property
    def change(self) -> float:
        """How much better it became: negative where it became worse."""
        if self.after is None or self.before is None:
            return 0
        return (self.after - self.before) * (-1 if self.metric.lower_is_better else 1)

    @property
    def loss(self) -> float:
        """How far the score of a rate is from the best."""
        if self.after is None:
            return 0
        return self.after if self.metric.lower_is_better else 1 - self.after


@dataclass(frozen=True, slots=True)
class Expectation:
    """A page or a fact that an answer should have."""

    kind: str
    texts: tuple[str, ...]  # any of them is enough
    states: tuple[str, ...]  # where each answer has it


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage, its rank for each answer, and what is good about it."""

    passage: Passage
    ranks: tuple[int | None, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with its answers."""

    question: Question
    replies: tuple[Reply, ...]  # that of the run before first, if there is one
    scores: tuple[Score, ...]
    judgements: tuple[Judgement | None, ...]  # of each answer

    @property
    def is_same(self) -> bool:
        """Whether all answers have the same text."""
        return len({reply.content for reply in self.replies}) == 1

    @property
    def changes(self) -> list[Score]:
        """The rates that changed, the most first."""
        changed = (score for score in self._rates() if score.change)
        return sorted(changed, key=lambda score: -abs(score.change))

    @property
    def shortfalls(self) -> list[Score]:
        """The rates that could be better, the worst first."""
        short = (score for score in self._rates() if score.loss)
        return sorted(short, key=lambda score: -score.loss)

    @property
    def weight(self) -> tuple[float, float]:
        """How much the answer deserves a look: how much it changed, then how bad it is."""
        rates = self._rates()
        change = sum(abs(score.change) for score in rates)
        loss = sum(score.loss for score in rates)
        return change / (len(rates) or 1), loss / (len(rates) or 1)

    def expectations(self) -> Iterator[Expectation]:
        """Yield the expected pages and facts."""
        for texts in self.question.citations:
            states = tuple(_page_state(texts, reply) for reply in self.replies)
            yield Expectation("page", texts, states)
        for texts in self.question.facts:
            states = tuple(_fact_state(texts, reply) for reply in self.replies)
            yield Expectation("fact", texts, states)

    def passages(self) -> Iterator[Retrieved]:
        """Yield the passages, those of the last answer first; what both have comes once."""
        cited = {name for reply in self.replies for name in find_citations(reply)}
        for passage in dict.fromkeys(p for reply in reversed(self.replies) for p in reply.passages):
            ranks = tuple(_rank(passage, reply) for reply in self.replies)
            yield Retrieved(passage, ranks, tuple(self._notes(passage, cited)))

    def _notes(self, passage: Passage, cited: Container[str]) -> Iterator[str]:
        pages = (text for texts in self.question.citations for text in texts)
        facts = (text for texts in self.question.facts for text in texts)
        if any(matches(page, passage.name) for page in pages):
            yield "expected"
        if any(contains(passage.text, fact) for fact in facts):
            yield "has a fact"
        if passage.name in cited:
            yield "cited"

    def _rates(self) -> list[Score]:
        # METRICS begins with what was retrieved: what became of it says more.
        return [score for score in reversed(self.scores) if not score.metric.unit]


def _page_state(texts: Sequence[str], reply: Reply) -> str:
    def has(names: Iterable[str]) -> bool:
        return any(matches(text, name) for text in texts for name in names)

    if has(find_citations(reply)):
        return "cited"
    return "retrieved only" if has(passage.name for passage in reply.passages) else "missing"


def _fact_state(texts: Sequence[str], reply: Reply) -> str:
    def has(content: str) -> bool:
        return any(contains(content, text) for text in texts)

    if has(reply.content):
        return "in the answer"
    # As the score does: a fact may begin in a passage and end in the next one.
    passages = " ".join(passage.text for passage in reply.passages)
    return "in a passage only" if has(passages) else "missing"


def _rank(passage: Passage, reply: Reply) -> int | None:
    return reply.passages.index(passage) + 1 if passage in reply.passages else None
