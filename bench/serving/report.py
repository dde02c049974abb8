"""The table of a run: medians, with ratios of two runs in the same round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.serving.cases import FULL
from bench.serving.targets import APP, BASELINES, HYBRID, RAW, SDKS, TEXT

START = "start"
START_ALL = "start: hybrid, all Azure services"
STARTS = {TEXT: START, HYBRID: START_ALL}
SLOW = "10 ms a token, 10 at once"
WAITS = {
    "first_line_ms": "ms to the first line, beyond the waits for services",
    "first_token_ms": "ms to the first token, beyond the waits for services",
}
DELAYS = {
    "token_delay_ms": "ms added to a token, median",
    "token_delay_p99_ms": "ms added to a token, 99th percentile",
}
Round = Mapping[str, float]
Figures = dict[str, dict[str, list[Round]]]
"""The rounds by case and server."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a figure of a case, as such and as times that of `base`.

    `base` is a server, the same one if only a `base_case` is set.
    """

    label: str
    case: str
    figure: str
    base: str | None = None
    base_case: str | None = None
    digits: int = 1

    def values(self, figures: Figures, server: str) -> list[float]:
        """The figure in each round; none if it was not measured."""
        return _values(figures, self.case, server, self.figure)

    def format(self, value: float) -> str:
        """A value as text."""
        return f"{value:,.{self.digits}f}"

    def cell(self, figures: Figures, server: str) -> str:
        """The median, and the median ratio of each round."""
        if not (values := self.values(figures, server)):
            return ""
        text = self.format(median(values))
        if not (self.base or self.base_case):
            return text
        base = _values(figures, self.base_case or self.case, self.base or server, self.figure)
        if len(base) != len(values):
            return text
        return f"{text} ({median(map(float.__truediv__, values, base)):.2f}x)"


def _values(figures: Figures, case: str, server: str, figure: str) -> list[float]:
    rounds = figures.get(case, {}).get(server, ())
    return [each[figure] for each in rounds if figure in each]


# Cases beside another case of the same server.
COMPARISONS = tuple(
    Row(f"CPU, ms (times that of {name}): {case}", case, "cpu_ms", None, base_case, 2)
    for case, name, base_case in (
        ("hybrid, 50 at once", "text", "50 at once"),
        ("a model with Responses, 10 at once", "chat completions", "10 at once"),
        ("a knowledge base, 50 at once", "a search", "50 at once"),
        ("Responses", "chat completions", "OpenAI"),
        ("Responses, not streamed", "chat completions", "OpenAI, not streamed"),
        ("MCP ask", "/chat", "not streamed, 50 at once"),
        ("MCP search", "/chat", "not streamed, 50 at once"),
    )
)


def list_rows() -> Iterator[Row]:
    """The lines of the table, in order."""
    for case in FULL:
        base_case = "10 at once" if case.only_app else None
        yield Row(f"CPU of an answer, ms: {case.name}", case.name, "cpu_ms", RAW, base_case, 2)
    yield from COMPARISONS
    for name in ("50 at once", "200 at once", "hybrid, 50 at once"):
        yield Row(f"answers a second: {name}", name, "per_second", SDKS, digits=0)
    slow = [case.name for case in FULL if case.at_once == 1 and case.delays["token"]]
    for figure, label in WAITS.items():
        yield from (Row(f"{label}: {name}", name, figure) for name in slow)
    for figure, label in DELAYS.items():
        yield Row(f"{label}: {SLOW}", SLOW, figure, digits=2)
    for name in ("1 at once", "OpenAI", "Responses", "AOG", "OpenSearch", "MCP ask"):
        yield Row(f"bytes of an answer: {name}", name, "bytes", digits=0)
    for name in (START, START_ALL):
        more = name.removeprefix(START)
        yield Row(f"seconds to the first answer{more}", name, "seconds", SDKS, digits=2)
    for name in (START, START_ALL):
        more = name.removeprefix(START)
        yield Row(f"peak of memory, MiB{more}", name, "mib", SDKS, digits=0)


SUMMARY = (
    Row("CPU of a streamed answer, ms", "1 at once", "cpu_ms", RAW),
    Row("CPU, 50 at once, ms", "50 at once", "cpu_ms", RAW),
    Row("CPU, 10 ms between tokens, ms", SLOW, "cpu_ms", RAW),
    Row("CPU, hybrid search, 50 at once, ms", "hybrid, 50 at once", "cpu_ms", RAW),
    Row("answers a second, 50 at once", "50 at once", "per_second", SDKS, digits=0),
    Row("start to the first answer, s", START, "seconds", SDKS, digits=2),
    Row("peak of memory, MiB", START, "mib", SDKS, digits=0),
)


def list_servers(figures: Figures) -> list[str]:
    """The names of the servers: the baselines, other checkouts, this app."""
    names = {name for by_server in figures.values() for name in by_server}
    order = [*BASELINES, *sorted(names - {*BASELINES, APP}), APP]
    return [name for name in order if name in names]


def format_rows(rows: Iterable[Row], figures: Figures) -> str:
    """The table of what was measured, in Markdown."""
    servers = list_servers(figures)
    lines = [("", *servers)]
    for row in rows:
        cells = [row.cell(figures, server) for server in servers]
        if any(cells):
            lines.append((row.label, *cells))
    return format_table(lines)


def format_results(figures: Figures) -> str:
    """The table of all figures."""
    return format_rows(list_rows(), figures)


def format_summary(figures: Figures) -> str:
    """The table of the most important figures."""
    return format_rows(SUMMARY, figures)


def format_table(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, aligned for a terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [" | ".join(map(str.ljust, line, widths)) for line in lines]
    rule = "-|-".join("-" * width for width in widths)
    return "\n".join([f"| {texts[0]} |", f"|-{rule}-|", *(f"| {text} |" for text in texts[1:])])
