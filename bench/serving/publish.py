"""Writes the figures of a run into docs/performance.md, and draws its picture.

`python -m bench.serving.publish`, after `python -m bench.serving --app ../before`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench.serving import chart, report
from bench.serving.processes import OUTPUT, ROOT

PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"
TABLES: dict[str, Callable[[report.Figures], str]] = {
    "summary": report.format_summary,
    "figures": report.format_results,
}


def fill(page: str, figures: report.Figures) -> str:
    """The page with the tables of a run between its comments."""
    for name, table in TABLES.items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"\n<!-- end of {name} -->")
        page = f"{before}{start}\n{table(figures)}\n{end}{after}"
    return page


def main() -> None:
    """Write the page and the picture."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    figures: report.Figures = json.loads(source.read_text("utf-8"))
    PAGE.write_text(fill(PAGE.read_text("utf-8"), figures), "utf-8")
    PICTURE.write_text(chart.draw(figures), "utf-8")
    print(report.format_summary(figures))


if __name__ == "__main__":
    main()
