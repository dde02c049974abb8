"""The judgements of a run: one JSON object a line, written as it arrives."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from pydantic_core import to_json

from evals.files import read_results
from evals.judge.model import Judge, NoVerdict
from evals.judge.sentences import sentences
from evals.judge.verdicts import Rating, make_requests
from evals.questions import Question
from evals.records import Judgement, Reply, SentenceJudgement


def read_judgements(path: Path) -> dict[str, Judgement]:
    """Read the last judgement of each question, by its id."""
    return {each.question: each for each in read_by_key(path).values()}


def read_by_key(path: Path) -> dict[str, Judgement]:
    """Read the last judgement of each key."""
    judgements: dict[str, Judgement] = {}
    for judgement in read_results(path, Judgement):
        judgements.pop(judgement.key, None)  # in the order of the last lines
        judgements[judgement.key] = judgement
    return judgements


def judgement_key(judge: Judge, question: Question, reply: Reply) -> str:
    requests = make_requests(question, reply)
    messages = [request.messages for request in requests]
    inputs = (judge.endpoint, judge.model.name, question.id, messages)
    return sha256(to_json(inputs)).hexdigest()[:16]


async def judge_answer(judge: Judge, question: Question, reply: Reply) -> Judgement:
    """Judge an answer by each metric that applies to it."""
    scores, reasons, failures = dict[str, float](), dict[str, str](), dict[str, str]()
    parts: tuple[SentenceJudgement, ...] = ()
    for request in make_requests(question, reply):
        try:
            verdict = await judge.ask(request)
        except NoVerdict as error:
            failures[request.metric] = str(error)
            continue
        if verdict.score is not None:
            scores[request.metric] = verdict.score
        if isinstance(verdict, Rating):
            reasons[request.metric] = verdict.reason
        else:
            parts = tuple(
                SentenceJudgement(sentence=text, verdict=each.verdict, passage=each.passage)
                for text, each in zip(sentences(reply), verdict.sentences, strict=True)
            )
    return Judgement(
        key=judgement_key(judge, question, reply),
        judge=judge.model.name,
        question=question.id,
        scores=scores,
        reasons=reasons,
        failures=failures,
        sentences=parts,
    )
