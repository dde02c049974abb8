"""The tables of a run: its rates, its amounts and its tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from evals.metrics import METRICS, Metric
from evals.report.changes import Change, list_changes
from evals.report.plots import histogram
from evals.runs import Row, Run
from evals.statistics import Interval, interval

RATES: Mapping[str, Metric] = {name: each for name, each in METRICS.items() if not each.unit}
AMOUNTS: Mapping[str, Metric] = {name: each for name, each in METRICS.items() if each.unit}
ALL, UNTAGGED = "all questions", "without a tag"


@dataclass(frozen=True, slots=True)
class Line:
    """The mean of a metric."""

    metric: Metric
    mean: Interval


@dataclass(frozen=True, slots=True)
class Amount:
    """How a metric that is not a rate is distributed over the answers of a run."""

    run: str
    metric: Metric
    mean: Interval
    figures: tuple[float, float, float]  # the median, the 95th percentile and the largest
    bars: str


@dataclass(frozen=True, slots=True)
class TagLine:
    """The questions with a tag: the mean, or the change, of each rate that they have."""

    tag: str
    questions: int
    cells: Mapping[str, Line | Change]


def summarize(run: Run, changes: Iterable[Change] = ()) -> tuple[Line, ...]:
    """Return the means of the rates that are not among the changes."""
    names = [name for name in RATES if name not in {change.name for change in changes}]
    return tuple(_lines(run, names).values())


def list_amounts(run: Run, before: Run | None) -> tuple[tuple[Amount, ...], ...]:
    """Return each amount of the run, after that of the run before."""
    runs = {"before": before, "this run": run} if before else {"this run": run}
    amounts = (tuple(_amounts(metric, runs)) for metric in AMOUNTS)
    return tuple(each for each in amounts if each)


def tabulate_tags(run: Run, before: Run | None) -> tuple[TagLine, ...]:
    """Return a line for each tag, if there are any."""
    tags = sorted({tag for row in run.rows for tag in row.record.question.tags})
    names = (ALL, *tags, UNTAGGED) if tags else ()
    lines = (_tag_line(tag, run, before) for tag in names)
    return tuple(line for line in lines if line.questions)


def _lines(run: Run, names: Iterable[str]) -> dict[str, Line]:
    values = {name: list(run.scores(name).values()) for name in names}
    return {name: Line(RATES[name], interval(each)) for name, each in values.items() if each}


def _amounts(name: str, runs: Mapping[str, Run]) -> Iterator[Amount]:
    values = {label: list(run.scores(name).values()) for label, run in runs.items()}
    largest = max((value for each in values.values() for value in each), default=0)
    for label, each in values.items():
        if each:
            median, percentile = map(float, np.quantile(each, (0.5, 0.95)))
            figures = (median, percentile, max(each))
            yield Amount(label, AMOUNTS[name], interval(each), figures, histogram(each, largest))


def _tag_line(tag: str, run: Run, before: Run | None) -> TagLine:
    part = replace(run, rows=[row for row in run.rows if _has(row, tag)])
    if before is None:
        return TagLine(tag, len(part.rows), _lines(part, RATES))
    cells = {change.name: change for change in list_changes(part, before, RATES)}
    return TagLine(tag, len(part.rows), cells)


def _has(row: Row, tag: str) -> bool:
    tags = row.record.question.tags
    return tag == ALL or tag in tags or (tag == UNTAGGED and not tags)
