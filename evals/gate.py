"""The gate: does a run meet its thresholds, and is it no worse than the accepted run?"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from evals.files import FileError, describe_invalid, read_text
from evals.metrics import METRICS, Prices
from evals.runs import Run
from evals.statistics import difference, interval, pair_values

RULES = Path(__file__).with_name("gate.toml")

Scores = Mapping[str, Mapping[str, float]]
"""The scores of each question, by its id and their metric."""
_SCORES = TypeAdapter(dict[str, dict[str, float]])


class Gate(BaseModel):
    """The rules of the gate, which evals/gate.toml explains, and the file of the accepted run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    confidence: float = Field(gt=0.5, lt=1)
    accepted: Path
    no_worse: tuple[str, ...]
    thresholds: dict[str, float]
    prices: Prices | None = None

    @field_validator("no_worse", "thresholds")
    @classmethod
    def _check_names(cls, names: tuple[str, ...] | dict[str, float]) -> object:
        if unknown := [name for name in names if name not in METRICS]:
            raise ValueError(f"no metric is called {', '.join(unknown)}")
        return names

    def check(self, run: Run, accepted: Scores) -> Iterator[str]:
        """Yield a sentence for each rule that the run breaks."""
        if run.failures:
            yield f"{len(run.failures)} of {len(run.rows)} questions have no answer"
        yield from self.check_thresholds(run)
        yield from self.check_accepted(run, accepted)

    def check_thresholds(self, run: Run) -> Iterator[str]:
        """Yield a sentence for each threshold that the run fails."""
        for metric, threshold in self.thresholds.items():
            values = list(run.scores(metric).values())
            if not values:
                yield f"{metric}: it has a threshold, but no answer of this run has been measured"
                continue
            bounds = interval(values, self.confidence)
            is_lower_better = METRICS[metric].lower_is_better
            if bounds.low > threshold if is_lower_better else bounds.high < threshold:
                beyond = "over" if is_lower_better else "under"
                yield (
                    f"{metric}: {bounds.mean:.3f} (from {bounds.low:.3f} to {bounds.high:.3f}) "
                    f"is {beyond} the threshold {threshold:g}"
                )

    def check_accepted(self, run: Run, accepted: Scores) -> Iterator[str]:
        """Yield a sentence for each metric in which the run is worse than the accepted one."""
        for metric in self.no_worse:
            scores = {id: each[metric] for id, each in accepted.items() if metric in each}
            before, after = pair_values(scores, run.scores(metric))
            if not after:
                continue
            change = difference(before, after, self.confidence)
            is_worse = change.low > 0 if METRICS[metric].lower_is_better else change.high < 0
            if is_worse:
                yield (
                    f"{metric}: changed by {change.mean:+.3f} (from {change.low:+.3f} to "
                    f"{change.high:+.3f}) over {change.count} questions of the accepted run"
                )


def read_gate(path: Path = RULES) -> Gate:
    """Read the rules; the accepted run stands beside them. Raises FileError."""
    try:
        gate = Gate.model_validate(tomllib.loads(read_text(path)))
    except ValidationError as error:
        raise FileError(f"{path}: {describe_invalid(error)}") from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path}: {error}") from None
    return gate.model_copy(update={"accepted": path.parent / gate.accepted})


def read_accepted(path: Path) -> Scores:
    """Read the scores of the accepted run; none if there is no such file. Raises FileError."""
    try:
        return _SCORES.validate_json(read_text(path)) if path.exists() else {}
    except ValidationError as error:
        raise FileError(f"{path}: {describe_invalid(error)}") from None


def write_accepted(run: Run, metrics: tuple[str, ...], path: Path) -> None:
    """Write the scores of a run as those of the accepted run, a line for each question."""
    lines = []
    for row in sorted(run.rows, key=lambda row: row.record.question.id):
        scores = {name: round(row.scores[name], 4) for name in metrics if name in row.scores}
        lines.append(f"{json.dumps(row.record.question.id)}: {json.dumps(scores)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
