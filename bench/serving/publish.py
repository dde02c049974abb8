"""Writes the summary of a run into docs/performance.md, and draws its picture.

`python -m bench.serving.publish`, after `python -m bench.serving --app ../before`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.serving import chart, report
from bench.serving.processes import OUTPUT, ROOT

PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"
START, END = "<!-- summary -->\n", "\n<!-- end of summary -->"


def fill(page: str, figures: report.Figures) -> str:
    """The page with the summary of a run between its comments."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    return f"{before}{start}\n{report.format_summary(figures)}\n{end}{after}"


def main() -> None:
    """Write the page and the picture."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    figures: report.Figures = json.loads(source.read_text("utf-8"))
    PAGE.write_text(fill(PAGE.read_text("utf-8"), figures), "utf-8")
    PICTURE.write_text(chart.draw(figures), "utf-8")
    print(report.format_summary(figures))


if __name__ == "__main__":
    main()
