"""The judge in the command `python -m evals run`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evals.judge.judgements import read_judgements
from evals.judge.model import JudgeError
from evals.judge.run import judge_run
from evals.questions import Question
from evals.records import Judgement
from evals.runs import Row, RunHeader, read_answers
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.telemetry.access_log import quiet_libraries

FILE = "judgements.jsonl"  # in the folder of a run


def judge_answers(name: str, run: RunHeader, questions: Sequence[Question]) -> bool:
    """Judge the answers of a run. Prints why, and returns False, if the judge cannot be used."""
    quiet_libraries()
    records = read_answers(run.name, questions)
    try:
        asyncio.run(judge_run(name, read_environment(os.environ), records, run.folder / FILE))
    except (JudgeError, UsageError) as error:
        print(error, file=sys.stderr)
        return False
    return True


def add_judgements(rows: Sequence[Row], folder: Path) -> list[Row]:
    """Return the rows of a run with its judgements, if it has some, and their scores."""
    judgements = read_judgements(folder / FILE)
    return [_add_judgement(row, judgements.get(row.record.question.id)) for row in rows]


def _add_judgement(row: Row, judgement: Judgement | None) -> Row:
    if judgement is None or row.record.reply is None:
        return row
    return replace(row, scores={**row.scores, **judgement.scores}, judgement=judgement)
