"""The scores of an answer that need no model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean as mean

import ir_measures
from ir_measures import RR, R, nDCG

from evals.citations import find_citations
from evals.questions import Question
from evals.records import Record, Reply

# How models say, in lower case, that the documents have no answer: an answer that begins so counts
# as one. For other languages than English and German add a line.
ABSTENTION = re.compile(
    r"\bi (do not|don't|cannot|can't|could not|couldn't|am unable to) (know|find|answer|have|see)"
    r"|\b(sources?|documents?|passages?|context|information)\b[^.:]{0,40}"
    r"\b(do not|don't|does not|doesn't|cannot|can't)\b"
    r"|\bno (information|mention)\b"
    r"|\bnot (mentioned|specified|provided|stated|found) (in|by) the (sources?|documents?|context)"
    r"|\bweiß (ich )?(es )?nicht|\bkeine (angaben?|informationen?)"
)
ABSTENTION_LENGTH = 150  # characters in which an answer says so
REFUSAL = re.compile(r"\W*(i'm sorry, but )?i (can't|cannot|am unable to) (assist|help)")
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Metric:
    """What a score means."""

    label: str
    meaning: str
    unit: str = ""  # empty for a share from 0 to 1
    lower_is_better: bool = False


METRICS: Mapping[str, Metric] = {
    "recall@3": Metric("Recall@3", "share of the expected pages among the first 3 retrieved"),
    "recall@10": Metric("Recall@10", "share of the expected pages among the first 10 retrieved"),
    "ndcg@10": Metric("nDCG@10", "how far up the expected pages are among the first 10 retrieved"),
    "reciprocal_rank": Metric("Reciprocal rank", "1 / rank of the first expected page"),
    "facts_retrieved": Metric("Facts retrieved", "share of the facts in the retrieved passages"),
    "facts_found": Metric("Facts found", "share of the facts in the answer"),
    "citations_exist": Metric("Citations exist", "share of the citations whose file there is"),
    "citations_retrieved": Metric(
        "Citations retrieved", "share of the citations that name a retrieved passage"
    ),
    "citation_precision": Metric("Citation precision", "share of the citations that are expected"),
    "citation_recall": Metric("Citation recall", "share of the expected pages that are cited"),
    "answered": Metric("Answered", "answerable questions that have an answer"),
    "abstention": Metric("Abstention", 'unanswerable questions that get "I don\'t know"'),
    "refused": Metric("Refused", "answers that a filter or the model refused", "", True),
    "words": Metric("Words", "words of the answer", "words", True),
    "prompt_tokens": Metric("Prompt tokens", "tokens of the prompt", "tokens", True),
    "completion_tokens": Metric("Answer tokens", "tokens of the answer", "tokens", True),
    "cost": Metric("Cost", "US dollars for 1,000 such answers", "$", True),
    "seconds_to_first_token": Metric("First token", "seconds to the first token", "s", True),
    "seconds": Metric("Time", "seconds to the end of the answer", "s", True),
    "groundedness": Metric("Groundedness", "share of the claims that the passages support (judge)"),
    "relevance": Metric("Relevance", "how well the answer fits the question (judge)"),
    "completeness": Metric("Completeness", "how much of the reference answer it has (judge)"),
}


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens."""

    prompt: float
    completion: float


def score(record: Record, prices: Prices | None = None) -> dict[str, float]:
    """Return the scores that apply to an answer, by their metric; none for a failure."""
    if record.reply is None:
        return {}
    question, reply = record.question, record.reply
    scores = dict(_costs(reply, prices))
    scores["refused"] = float(is_refusal(reply))
    if not question.answerable:
        scores["abstention"] = float(is_abstention(reply.content))
        return scores
    scores["answered"] = float(is_answer(reply))
    if question.citations:
        scores |= _ranking(question, reply)
    if question.facts:
        passages = " ".join(passage.text for passage in reply.passages)
        scores["facts_retrieved"] = _share_found(question.facts, passages)
        scores["facts_found"] = _share_found(question.facts, reply.content)
    return scores | dict(_citations(question, reply))


def is_abstention(content: str) -> bool:
    """Whether an answer begins by saying that it does not know."""
    return bool(ABSTENTION.search(_normalize(content)[:ABSTENTION_LENGTH]))


def is_refusal(reply: Reply) -> bool:
    """Whether a content filter or the model has refused to answer."""
    return reply.finish_reason == "content_filter" or bool(REFUSAL.match(_normalize(reply.content)))


def is_answer(reply: Reply) -> bool:
    """Whether a reply is neither empty nor an abstention nor a refusal."""
    has_text = bool(reply.content.strip())
    return has_text and not is_abstention(reply.content) and not is_refusal(reply)


def contains(text: str, fact: str) -> bool:
    """Whether a text has a fact, ignoring case, white space and the form of apostrophes."""
    return _normalize(fact) in _normalize(text)


def matches(expected: str, name: str) -> bool:
    """Whether a name is the expected page, or a page of the expected file."""
    return name == expected or name.startswith(f"{expected}#")


def _normalize(text: str) -> str:
    return " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").lower().split())


def _share_found(facts: Sequence[Sequence[str]], text: str) -> float:
    found = sum(any(contains(text, fact) for fact in alternatives) for alternatives in facts)
    return found / len(facts)


def _expectations(question: Question, name: str) -> list[int]:
    """Return the numbers of the expectations that a name meets."""
    return [
        number
        for number, alternatives in enumerate(question.citations)
        if any(matches(expected, name) for expected in alternatives)
    ]


def _ranking(question: Question, reply: Reply) -> dict[str, float]:
    """Return the measures of the retrieved pages.

    Alternatives count as one page, and a page that meets two expectations as two.
    """
    pages: list[str] = []
    for passage in reply.passages:
        numbers = _expectations(question, passage.name)
        pages += [f"expected {number}" for number in numbers] or [passage.name]
    ranking = dict.fromkeys(pages)
    run = {"q": {page: -float(rank) for rank, page in enumerate(ranking)}} if ranking else {}
    grades = {"q": {f"expected {number}": 1 for number in range(len(question.citations))}}
    measures = {"recall@3": R @ 3, "recall@10": R @ 10, "ndcg@10": nDCG @ 10, "reciprocal_rank": RR}
    figures = ir_measures.calc_aggregate(list(measures.values()), grades, run)
    return {name: float(figures[measure]) for name, measure in measures.items()}


def _citations(question: Question, reply: Reply) -> Iterator[tuple[str, float]]:
    cited = find_citations(reply)
    retrieved = {passage.name for passage in reply.passages}
    met = [_expectations(question, name) for name in cited]
    if cited:
        yield "citations_exist", mean(name not in reply.missing_files for name in cited)
        yield "citations_retrieved", mean(name in retrieved for name in cited)
    if cited and question.citations:
        yield "citation_precision", mean(map(bool, met))
    if question.citations:
        yield "citation_recall", len(set(chain.from_iterable(met))) / len(question.citations)


def _costs(reply: Reply, prices: Prices | None) -> Iterator[tuple[str, float]]:
    yield "words", len(reply.content.split())
    yield "seconds", reply.seconds
    yield "seconds_to_first_token", reply.seconds_to_first_token
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return
    yield "prompt_tokens", reply.prompt_tokens
    yield "completion_tokens", reply.completion_tokens
    if prices:
        tokens = (reply.prompt_tokens, reply.completion_tokens)
        dollars = tokens[0] * prices.prompt + tokens[1] * prices.completion
        yield "cost", 1000 * dollars / MILLION
