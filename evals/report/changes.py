"""What differs between two runs, question by question, and what of it is noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from evals.metrics import METRICS, Metric
from evals.runs import Run
from evals.statistics import Interval, difference, pair_values

MIN_REACH = 0.1  # so that a small difference looks small
VERDICTS = ("worse", "better", "noise", "same")


@dataclass(frozen=True, slots=True)
class Change:
    """The means of a metric over the questions that both runs have answered."""

    name: str
    metric: Metric
    before: float
    after: float
    difference: Interval

    @property
    def verdict(self) -> str:
        """One of VERDICTS: a change is noise if its interval has zero in it."""
        low, high = self.difference.low, self.difference.high
        if not self.difference.excludes_zero:
            return "noise" if low < high else "same"
        return "better" if (low > 0) != self.metric.lower_is_better else "worse"

    @property
    def relative(self) -> Interval:
        """The difference as it is drawn: of a rate itself, of an amount as a share of before."""
        scale = abs(self.before) or 1 if self.metric.unit else 1
        mean, low, high = self.difference.mean, self.difference.low, self.difference.high
        return replace(self.difference, mean=mean / scale, low=low / scale, high=high / scale)


@dataclass(frozen=True, slots=True)
class Pairing:
    """How many questions have an answer in both runs, and in one only."""

    both: int
    only_now: int
    only_before: int


def list_changes(
    run: Run, before: Run, metrics: Mapping[str, Metric] = METRICS
) -> tuple[Change, ...]:
    """Return the changes of the metrics that both runs have: the worse first, then the better."""
    changes = []
    for name, metric in metrics.items():
        old, new = pair_values(before.scores(name), run.scores(name))
        if new:
            bounds = difference(old, new)
            changes.append(Change(name, metric, fmean(old), fmean(new), bounds))
    return tuple(sorted(changes, key=lambda change: VERDICTS.index(change.verdict)))


def pair(run: Run, before: Run) -> Pairing:
    """Count the questions that both runs have answered, and the others."""
    old = {row.record.question.id for row in before.rows if row.record.reply}
    new = {row.record.question.id for row in run.rows if row.record.reply}
    return Pairing(len(old & new), len(new - old), len(old - new))


def reach(changes: Sequence[Change], change: Change) -> float:
    """Return the end of the scale on which the rates, or the amounts, are drawn."""
    alike = (
        each.relative for each in changes if bool(each.metric.unit) == bool(change.metric.unit)
    )
    return max(MIN_REACH, *(max(abs(bounds.low), abs(bounds.high)) for bounds in alike))
