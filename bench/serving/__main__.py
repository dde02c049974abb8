"""Measures the app beside two baselines: `python -m bench.serving --quick`.

Prints a table, and writes all figures as JSON. `--app FOLDER` measures another checkout as well,
for a before and after in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.serving import report
from bench.serving.cases import QUICK
from bench.serving.processes import ROOT, LoadClient, peak_mib, run_fakes, run_load_client
from bench.serving.targets import Target, list_servers, run_targets

Figures = dict[str, dict[str, list[dict[str, Any]]]]


def measure(client: LoadClient, targets: Sequence[Target], fakes: Any, options: Any) -> Figures:
    """The figures of each case and target, a round after the other, the targets in turn."""
    figures: Figures = {}
    for number in range(options.rounds):
        for case in QUICK:
            print(f"round {number + 1}: {case.name}", file=sys.stderr, flush=True)
            fakes.set_delays(**case.delays)
            by_target = figures.setdefault(case.name, {each.name: [] for each in targets})
            for target in targets if number % 2 else reversed(targets):
                by_target[target.name].append(client.run(case.job(target, options.scale)))
    return figures


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the most important cases")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of answers")
    parser.add_argument(
        "--app", type=Path, action="append", default=[], metavar="FOLDER", help="another checkout"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "serving.json")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fakes = stack.enter_context(run_fakes(folder))
        client = stack.enter_context(run_load_client(folder))
        servers = list_servers(fakes, [app.resolve() for app in options.app], folder)
        targets = run_targets(stack, servers)
        try:
            figures = measure(client, targets, fakes, options)
        except RuntimeError as error:
            logs = (f"{log.name}:\n{log.read_text()[-3000:]}" for log in folder.glob("*.log"))
            raise SystemExit("\n".join((f"{error}. The logs end with:", *logs))) from None
        memory = {target.name: round(peak_mib(target.pid)) for target in targets}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"cases": figures, "peak_mib": memory}, indent=1))
    print(report.format_table(list(report.rows(figures))))
    print("Peak memory, MiB: " + ", ".join(f"{name} {mib}" for name, mib in memory.items()))


if __name__ == "__main__":
    main()
