"""Attacks the app of this folder, and reports what it does not resist: `make eval-safety`."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from evals.errors import EvaluationError
from evals.records import RUNS
from evals.safety.attacks import ATTACKS, Attack, read_attacks
from evals.safety.deployments import run_deployment
from evals.safety.run import Outcome, run_attacks

RESULTS = RUNS / "safety" / "results.jsonl"
COLUMNS = ("passed", "failed", "left out")
MAX_FAILURES = 3  # that the report shows of an attack; the results have all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="run only these attacks")
    parser.add_argument(
        "--attacks", type=Path, default=ATTACKS, metavar="FILE", help="attacks of your own"
    )


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit status. Raises EvaluationError."""
    attacks = _select(read_attacks(options.attacks), options.ids)
    outcomes, model = _run(attacks)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("".join(f"{each.model_dump_json()}\n" for each in outcomes), "utf-8")
    print("\n".join(format_report(outcomes, model)))
    return int(any(outcome.failures for outcome in outcomes))


def _select(attacks: Sequence[Attack], ids: Sequence[str]) -> Sequence[Attack]:
    if unknown := set(ids) - {attack.id for attack in attacks}:
        raise EvaluationError(f"There is no attack {', '.join(sorted(unknown))}.")
    return [attack for attack in attacks if not ids or attack.id in ids]


def _run(attacks: Sequence[Attack]) -> tuple[list[Outcome], str]:
    """Return the outcomes, and the name of the language model or nothing."""
    with tempfile.TemporaryDirectory() as folder, run_deployment(Path(folder)) as deployment:
        progress = tqdm(run_attacks(deployment, attacks), "Attacks", len(attacks), leave=False)
        return list(progress), deployment.model_name


def format_report(outcomes: Sequence[Outcome], model: str) -> Iterator[str]:
    """Yield the lines of the report: failures, a table by kind, and what was left out."""
    for outcome in outcomes:
        if outcome.failures:
            yield f"FAILED {outcome.id} ({outcome.kind})"
            yield from (f"  {failure}" for failure in outcome.failures[:MAX_FAILURES])
            if number := len(outcome.failures[MAX_FAILURES:]):
                yield f"  and {number} more in {RESULTS}"
    counts = Counter((outcome.kind, _column(outcome)) for outcome in outcomes)
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    width = max(map(len, kinds))
    yield " ".join((" " * width, *(f"{column:>9}" for column in COLUMNS)))
    for kind in kinds:
        yield _format_row(kind.ljust(width), [counts[kind, column] for column in COLUMNS])
    totals = Counter(map(_column, outcomes))
    yield _format_row("total".ljust(width), [totals[column] for column in COLUMNS])
    if model:
        yield f"The attacks that need a language model ran with {model}."
    elif number := totals["left out"]:
        yield (
            f"{number} attacks were left out: only a language model can fall for them, and none is "
            "configured (docs/models.md)."
        )


def _format_row(label: str, numbers: Sequence[int]) -> str:
    return " ".join((label, *(f"{number:>9}" for number in numbers)))


def _column(outcome: Outcome) -> str:
    if outcome.skip_reason:
        return "left out"
    return "failed" if outcome.failures else "passed"
