"""The summary of a run: a table, and summary.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from evals.metrics import METRICS
from evals.runs import Run
from evals.statistics import Interval, difference, interval, pair_values

MAX_FAILURES = 5  # that are printed


def measure(run: Run) -> dict[str, Interval]:
    """Return the mean of each metric that the run has, with its interval."""
    scores = {metric: list(run.scores(metric).values()) for metric in METRICS}
    return {metric: interval(values) for metric, values in scores.items() if values}


def compare(before: Run, after: Run, metric: str) -> Interval | None:
    """Return the mean change of a metric over the questions that both runs have."""
    old, new = pair_values(before.scores(metric), after.scores(metric))
    return difference(old, new) if new else None


def write_summary(run: Run, figures: Mapping[str, Interval], path: Path) -> None:
    """Write the figures of a run as JSON."""
    failures = [
        {"question": question.question, **failure.model_dump()}
        for question, failure in run.failures
    ]
    summary = {
        "name": run.name,
        "target": run.target,
        "started": run.started,
        "questions": len(run.rows),
        "failures": failures,
        "metrics": {metric: asdict(each) for metric, each in figures.items()},
    }
    path.write_text(json.dumps(summary, indent=2, ensure_ascii=False), "utf-8")


def describe(run: Run, figures: Mapping[str, Interval], before: Run | None = None) -> Iterator[str]:
    """Yield the lines of the table, with the change since another run."""
    yield f"{run.target}: {len(run.rows)} questions, {len(run.failures)} without an answer"
    for question, failure in run.failures[:MAX_FAILURES]:
        status = failure.status or "no response"
        yield f"  no answer ({status}): {question.question} {failure.message}"
    if len(run.failures) > MAX_FAILURES:
        yield f"  and {len(run.failures) - MAX_FAILURES} more in answers.jsonl"
    head = f"{'':<22}{'mean':>9}   {'95 % interval':<21}{'answers':>7}"
    yield head + (f"   change since {before.name}" if before else "")
    for metric, each in figures.items():
        bounds = f"{each.low:.3f} to {each.high:.3f}"
        line = f"{METRICS[metric].label:<22}{each.mean:>9.3f}   {bounds:<21}{each.count:>7}"
        yield line + (_describe_change(compare(before, run, metric)) if before else "")
    if before:
        yield "* more than noise: the interval of the change does not contain 0"


def _describe_change(change: Interval | None) -> str:
    if change is None:
        return ""
    bounds = f"   {change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"
    return bounds + (" *" if change.excludes_zero else "")
