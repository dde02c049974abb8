"""Writes the report of a run: one HTML file that has no script and loads nothing."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from evals.metrics import METRICS
from evals.report import text
from evals.report.changes import list_changes, pair, reach
from evals.report.groups import group_answers, list_failures
from evals.report.plots import place
from evals.report.tables import RATES, list_amounts, summarize, tabulate_tags
from evals.runs import Run

# Answers and documents may have markup in them: everything is escaped, and what changes the
# direction of a line is shown instead.
_ENVIRONMENT = Environment(
    loader=PackageLoader("evals", "report"),
    autoescape=True,
    finalize=text.reveal,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals |= {"metrics": METRICS, "place": place, "rates": RATES}
_ENVIRONMENT.filters |= {
    "change": text.format_change,
    "change_interval": text.format_change_interval,
    "citations": text.mark_citations,
    "interval": text.format_interval,
    "reach": reach,
    "score": text.format_score,
    "time": text.format_time,
    "value": text.format_value,
}


def render(run: Run, before: Run | None = None) -> str:
    """Return the report of a run, or of its differences from the run before."""
    changes = list_changes(run, before) if before else ()
    return _ENVIRONMENT.get_template("report.html").render(
        run=run,
        before=before,
        failures=list_failures(run, before),
        changes=changes,
        summary=summarize(run, changes),
        pairing=pair(run, before) if before else None,
        tags=tabulate_tags(run, before),
        amounts=list_amounts(run, before),
        groups=group_answers(run, before),
    )


def write_report(path: Path, run: Run, before: Run | None = None) -> None:
    path.write_text(render(run, before), "utf-8")
