"""Asks the app of this folder the same questions with different settings, and compares the answers.

A variant is a name, and the settings that it changes: "one DEFAULT_TOP=1". The first is the one
that the others are compared with. Each is a run of its name, which goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from evals import evaluate
from evals.gate import RULES, read_gate
from evals.metrics import METRICS
from evals.questions import SAMPLE_QUESTIONS, read_questions
from evals.runs import Run
from evals.summary import compare, measure

NAME = re.compile(r"[\w.-]+")
Variant = tuple[str, list[tuple[str, str]]]  # the name of a run, and settings of the app


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("variants", nargs="+", type=parse_variant, metavar='"NAME SETTING=VALUE"')
    parser.add_argument("--questions", type=Path, default=SAMPLE_QUESTIONS, metavar="FILE")
    parser.add_argument(
        "--at-once", type=evaluate.parse_positive, default=8, metavar="N", help="default: 8"
    )
    parser.add_argument("--judge", metavar="NAME", help="a model that judges the answers")


def parse_variant(text: str) -> Variant:
    """Parse the name and the settings of a variant. Raises ArgumentTypeError."""
    name, *settings = shlex.split(text) or [""]
    if not NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} does not begin with a name for its run")
    return name, [evaluate.parse_setting(setting) for setting in settings]


def main(options: argparse.Namespace) -> int:
    """Run each variant. Returns the exit status: 1 for a question without an answer."""
    statuses = []
    baseline = None
    for name, settings in options.variants:
        print(f"\n== {name}", flush=True)
        more = {"target": None, "rules": RULES, "gate": False, "accept": False}
        run = {"set": settings, "run": name, "before": baseline}
        statuses.append(evaluate.main(argparse.Namespace(**vars(options), **more, **run)))
        baseline = baseline or name
    questions, prices = read_questions(options.questions), read_gate(RULES).prices
    names = [name for name, _ in options.variants]
    print("")
    for line in describe([evaluate.load_run(name, questions, prices) for name in names]):
        print(line)
    return max(statuses)


def describe(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the lines of a table with a column for each run."""
    first = runs[0]
    widths = [max(len(run.name), 9) for run in runs]
    pairs = list(zip(runs, widths, strict=True))
    yield f"{'':<22}" + "".join(f"{run.name:>{width + 3}}" for run, width in pairs)
    figures = [measure(run) for run in runs]
    for metric in [metric for metric in METRICS if any(metric in each for each in figures)]:
        line = f"{METRICS[metric].label:<22}"
        for (run, width), each in zip(pairs, figures, strict=True):
            change = compare(first, run, metric) if run is not first else None
            mark = "*" if change and change.excludes_zero else " "
            value = f"{each[metric].mean:.3f}" if metric in each else "-"
            line += f"{value:>{width + 2}}{mark}"
        yield line.rstrip()
    yield f"* differs from {first.name} by more than noise"
