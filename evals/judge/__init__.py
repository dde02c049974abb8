"""Judges the answers of a run with a language model, after the judge itself has been measured."""

from evals.judge.command import add_judgements, judge_answers
from evals.judge.judgements import read_judgements
from evals.judge.model import JudgeError
from evals.judge.run import judge_run

__all__ = [
    "JudgeError",
    "add_judgements",
    "judge_answers",
    "judge_run",
    "read_judgements",
]
