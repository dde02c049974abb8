"""Medians of paired runs, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from bench.serving.targets import RAW, SDKS

Rounds = Sequence[Mapping[str, Any]]
Figures = Mapping[str, Mapping[str, Rounds]]  # by the case, then by the target


def ratio(rounds: Rounds, others: Rounds, name: str) -> float:
    """The median of a figure's ratios, each of two runs in the same round."""
    pairs = zip(rounds, others, strict=True)
    return float(median(one[name] / other[name] for one, other in pairs))


def rows(figures: Figures) -> Iterator[tuple[str, ...]]:
    """The lines of the table."""
    yield "case", "server", "CPU, ms", "x raw", "streams/s", "x SDKs"
    for case, targets in figures.items():
        for name, rounds in targets.items():
            yield (
                case,
                name,
                f"{median(it['cpu_ms'] for it in rounds):.2f}",
                f"{ratio(rounds, targets[RAW], 'cpu_ms'):.2f}",
                f"{median(it['per_second'] for it in rounds):.0f}",
                f"{ratio(rounds, targets[SDKS], 'per_second'):.2f}",
            )


def format_table(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, aligned for a terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [" | ".join(map(str.ljust, line, widths)) for line in lines]
    rule = "-|-".join("-" * width for width in widths)
    return "\n".join([f"| {texts[0]} |", f"|-{rule}-|", *(f"| {text} |" for text in texts[1:])])
