"""Formats figures, and the texts of models and documents, which may be hostile."""

from __future__ import annotations

import re
from datetime import datetime
from math import floor, log10
from typing import Any

from markupsafe import Markup, escape

from evals.citations import find_citations
from evals.metrics import Metric, matches
from evals.questions import Question
from evals.records import Reply
from evals.statistics import Interval

MINUS, SPACE = "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"
# Control characters, overrides and isolates of the direction, and halves of a surrogate pair, which
# no file in UTF-8 can have.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def reveal(value: Any) -> Any:
    """Return a text with what is invisible in it written as `⟨U+202E⟩`, another value unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", value.replace("\r\n", "\n"))


def mark_citations(reply: Reply, question: Question) -> Markup:
    """Return an answer as HTML, each citation of it with what is right or wrong with it."""
    names = sorted(find_citations(reply), key=len, reverse=True)
    if not names:
        return escape(reveal(reply.content))
    markers = "|".join(re.escape(f"[{name}]") for name in names)
    notes = {f"[{name}]": _note(name, reply, question) for name in names}
    # Of a split by one group every second part is a match.
    parts = enumerate(re.split(f"({markers})", reply.content))
    return Markup("").join(
        Markup("<cite>{}{}</cite>").format(reveal(part), notes[part]) if odd % 2 else reveal(part)
        for odd, part in parts
    )


def format_time(text: str) -> str:
    """Return a time in ISO 8601 to the minute: `2026-11-23 04:20 UTC`."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M %Z}".strip()


def format_value(value: float, metric: Metric) -> str:
    """Return a score with its unit, unless the label ends with it: `83.3 %`, `0.352 s`, `$2.49`."""
    number = _format_number(value, metric)
    if metric.unit == "$":
        return f"${number}"
    is_named = metric.unit and metric.label.lower().endswith(metric.unit)
    return number if is_named else f"{number}{SPACE}{metric.unit or '%'}"


def format_score(value: float, metric: Metric) -> str:
    """Return the score of one answer, a rate in whole per cent."""
    return format_value(value, metric) if metric.unit else f"{100 * value:.0f}{SPACE}%"


def format_change(value: float, metric: Metric) -> str:
    """Return a difference of scores: `+7.1 points`, `+0.2 s`."""
    sign = "" if not value else MINUS if value < 0 else "+"
    return sign + format_value(abs(value), metric).replace("%", "points")


def format_interval(bounds: Interval, metric: Metric) -> str:
    """Return the bounds of a mean: `75.0 to 90.5 %`."""
    low = format_value(bounds.low, metric)
    return f"{low.partition(SPACE)[0]} to {format_value(bounds.high, metric)}"


def format_change_interval(bounds: Interval, metric: Metric) -> str:
    """Return the bounds of a difference: `+1.4 to +14.1 points`."""
    low = format_change(bounds.low, metric)
    return f"{low.partition(SPACE)[0]} to {format_change(bounds.high, metric)}"


def _note(name: str, reply: Reply, question: Question) -> Markup:
    if name in reply.missing_files:
        return Markup(' <b class="bad">✗ no such file</b>')
    if name not in {passage.name for passage in reply.passages}:
        return Markup(' <b class="bad">✗ not retrieved</b>')
    expected = [text for texts in question.citations for text in texts]
    if any(matches(text, name) for text in expected):
        return Markup(' <b class="good">✓ expected</b>')
    return Markup(" <b>not expected</b>") if expected else Markup("")


def _format_number(value: float, metric: Metric) -> str:
    """Return per cent with one digit after the point, and of others three digits that differ."""
    if not metric.unit:
        return f"{100 * value:.1f}"
    digits = 2 - floor(log10(abs(value))) if value % 1 else 0
    return f"{value:,.{max(0, digits)}f}"
