"""Asks an app the questions, scores the answers and writes the results: `make eval`."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import starmap
from pathlib import Path

from evals.app import run_app
from evals.gate import (
    RULES,
    Gate,
    Scores,
    read_accepted,
    read_gate,
    write_accepted,
)
from evals.judge import add_judgements, judge_answers
from evals.metrics import Prices, score
from evals.questions import SAMPLE_QUESTIONS, Question, read_questions
from evals.records import RUNS
from evals.report import write_report
from evals.runner import ask_all, find_absent_files, start_run
from evals.runs import REPORT, SUMMARY, Row, Run, RunError, RunHeader, read_answers, read_header
from evals.summary import describe, measure, write_summary
from evals.target import open_target
from shared.settings import Settings

# Variables of the environment, so that no key is in a command line.
KEY, TOKEN = "TARGET_KEY", "TARGET_TOKEN"
ABSENT_MESSAGE = (
    "Warning: the app has no {example}{others}, which the questions expect to be cited. Are they "
    "about its documents? Others: make eval QUESTIONS=path"
)
OTHER_DOCUMENTS = (
    "The questions are about the sample documents, and the app answers from others. Ask about "
    "yours: make eval QUESTIONS=path (make eval-questions drafts some). Or measure the samples: "
    'make eval ARGS="--set INDEX_FILE=samples"'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--questions", type=Path, default=SAMPLE_QUESTIONS, metavar="FILE")
    app = parser.add_mutually_exclusive_group()
    app.add_argument(
        "--target",
        metavar="URL",
        help=f"the app to ask, by default the one of this folder; a function key is read from "
        f"{KEY}, a bearer token from {TOKEN}",
    )
    app.add_argument(
        "--set",
        action="append",
        default=[],
        type=parse_setting,
        metavar="NAME=VALUE",
        help="a setting of the app of this folder",
    )
    parser.add_argument("--run", metavar="NAME", help="name a run, or continue the one of the name")
    parser.add_argument("--before", metavar="NAME", help="a run to compare with")
    parser.add_argument("--at-once", type=parse_positive, default=8, metavar="N", help="default: 8")
    parser.add_argument("--judge", metavar="NAME", help="a model that judges the answers")
    parser.add_argument("--rules", type=Path, default=RULES, metavar="FILE", help="of the gate")
    parser.add_argument("--gate", action="store_true", help="fail if the run breaks a rule")
    parser.add_argument("--accept", action="store_true", help="make this the accepted run")


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit status: 1 for a failure. Raises EvaluationError."""
    gate = read_gate(options.rules)
    accepted = read_accepted(gate.accepted)
    questions = read_questions(options.questions)
    before = load_run(options.before, questions, gate.prices) if options.before else None
    with _app(options) as url:
        header = asyncio.run(_ask(options, url, questions))
    if options.judge and not judge_answers(options.judge, header, questions):
        return 1
    run = load_run(header.name, questions, gate.prices)
    figures = measure(run)
    write_summary(run, figures, header.folder / SUMMARY)
    for line in describe(run, figures, before):
        print(line)
    write_report(header.folder / REPORT, run, before)
    print(f"Report: {header.folder / REPORT}")
    is_passed = not options.gate or _check(gate, run, accepted)
    if options.accept:
        _accept(run, gate)
    return 0 if is_passed and not run.failures else 1


def load_run(name: str, questions: Sequence[Question], prices: Prices | None = None) -> Run:
    """Read the answers of a run to these questions, and score them. Raises RunError."""
    header = read_header(name)
    if header is None:
        raise RunError(f"There is no run {name} in {RUNS}.")
    rows = [Row(record, score(record, prices)) for record in read_answers(name, questions)]
    rows = add_judgements(rows, header.folder)
    return Run(header.name, header.target, header.started, rows)


def _check(gate: Gate, run: Run, accepted: Scores) -> bool:
    """Print what the gate says. Returns whether the run passes."""
    problems = list(gate.check(run, accepted))
    for problem in problems:
        print(f"Gate: {problem}")
    if not any(row.record.question.id in accepted for row in run.rows):
        print("Gate: no accepted run has these questions; the thresholds alone were checked.")
    print("Gate: failed" if problems else "Gate: passed")
    return not problems


def _accept(run: Run, gate: Gate) -> None:
    if run.failures:
        print("Not accepted: not every question has an answer.")
        return
    write_accepted(run, gate.no_worse, gate.accepted)
    print(f"Accepted: {gate.accepted} has the scores of this run.")


def _app(options: argparse.Namespace) -> AbstractContextManager[str]:
    return nullcontext(options.target) if options.target else run_app(dict(options.set))


async def _ask(options: argparse.Namespace, url: str, questions: Sequence[Question]) -> RunHeader:
    """Ask what has no answer yet. Returns the run. Raises RunError and TargetError."""
    place = options.target or " ".join(["this folder", *starmap(_format_setting, options.set)])
    async with open_target(url, _headers()) as target:
        absent, is_every_file = await find_absent_files(target, questions)
        if is_every_file and options.questions == SAMPLE_QUESTIONS and not options.target:
            raise RunError(OTHER_DOCUMENTS)
        header = start_run(options.run, f"{place}, {await target.describe()}")
        print(f"Run {header.name}. To continue it if it is stopped: make eval RUN={header.name}")
        if absent:
            others = f" and {len(absent) - 1} other files" if absent[1:] else ""
            print(ABSENT_MESSAGE.format(example=absent[0], others=others))
        await ask_all(target, questions, header, options.at_once)
    return header


def _headers() -> dict[str, str]:
    headers = {}
    if key := os.environ.get(KEY):
        headers["x-functions-key"] = key
    if token := os.environ.get(TOKEN):
        headers["authorization"] = f"Bearer {token}"
    return headers


def _format_setting(name: str, value: str) -> str:
    """Return a setting for people, without a value that is, or may hold, a secret."""
    types = {field.alias: str(field.annotation) for field in Settings.model_fields.values()}
    is_secret = name in ("MODEL_PROVIDERS", *(n for n, kind in types.items() if "Secret" in kind))
    return f"{name}={'...' if is_secret or name not in types else value}"


def parse_setting(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`. Raises ArgumentTypeError."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def parse_positive(text: str) -> int:
    """Parse a whole number from 1. Raises ArgumentTypeError."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)
