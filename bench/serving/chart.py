"""Draws the summary of a run as bars, in SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from statistics import median

from bench.serving import report
from bench.serving.targets import APP

WIDTH, LABEL, LINE, GAP = 960, 150, 26, 58  # of the picture, of names, of bars, between panels
BAR = 620  # the longest one
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-labelledby="title text" font-family="Segoe UI, Helvetica, Arial, sans-serif">
  <title id="title">Performance</title>
  <desc id="text">{description}</desc>
  <style>
    text {{ fill: #1c2733; font-size: 15px }} .head {{ font-weight: 600 }}
    .bar {{ fill: #9aa5b4 }} .app {{ fill: #2f6fb5 }}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #dbe3ec }} .bar {{ fill: #6b7685 }} .app {{ fill: #6fb0f5 }}
    }}
  </style>
"""


def draw(figures: report.Figures) -> str:
    """The picture: a panel for each figure of the summary, a bar for each server."""
    servers = report.list_servers(figures)
    panels = [(row, values) for row in report.SUMMARY if (values := _medians(row, figures))]
    height = len(panels) * (GAP + len(servers) * LINE)
    sentences = [f"{row.label}: {_describe(row, values)}" for row, values in panels]
    head = HEAD.format(width=WIDTH, height=height, description=escape("; ".join(sentences)) + ".")
    lines = [head.rstrip("\n")]
    for number, (row, values) in enumerate(panels):
        lines += _panel(row, values, number * (GAP + len(servers) * LINE))
    return "\n".join([*lines, "</svg>", ""])


def _medians(row: report.Row, figures: report.Figures) -> dict[str, float]:
    values = {name: row.values(figures, name) for name in report.list_servers(figures)}
    return {name: median(rounds) for name, rounds in values.items() if rounds}


def _describe(row: report.Row, values: dict[str, float]) -> str:
    return ", ".join(f"{name} {row.format(value)}" for name, value in values.items())


def _panel(row: report.Row, values: dict[str, float], top: int) -> Iterator[str]:
    yield f'  <text class="head" x="0" y="{top + 34}">{row.label}</text>'
    for number, (name, value) in enumerate(values.items()):
        y, width = top + 46 + number * LINE, value / max(values.values()) * BAR
        kind = "app" if name == APP else "bar"
        yield f'  <text x="0" y="{y + 15}">{escape(name)}</text>'
        yield f'  <rect class="{kind}" x="{LABEL}" y="{y}" width="{width:.0f}" height="18"/>'
        yield f'  <text x="{LABEL + width + 8:.0f}" y="{y + 15}">{row.format(value)}</text>'
