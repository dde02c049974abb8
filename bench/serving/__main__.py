"""Measures the app beside two baselines: `python -m bench.serving --quick`.

Prints a table, and writes all figures as JSON. `--app FOLDER` measures another checkout as well,
for a before and after in the same run.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.serving import report
from bench.serving.cases import FULL, MANY, NO_DELAY, QUICK, Case
from bench.serving.processes import OUTPUT, ROOT, LoadClient, peak_mib, run_fakes, run_load_client
from bench.serving.targets import (
    TEXT,
    Server,
    Target,
    first_answer_seconds,
    list_servers,
    run_target,
)


def show_progress(text: str) -> None:
    """Print what is measured now."""
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace, folder: Path, stack: ExitStack) -> report.Figures:
    """The figures of each case and server, a round after the other, the servers in turn."""
    fakes = stack.enter_context(run_fakes(folder))
    client = stack.enter_context(run_load_client(folder))
    cases = [case for case in (QUICK if options.quick else FULL) if options.only in case.name]
    variants = {TEXT, *(case.variant for case in cases)}
    servers = list_servers(fakes, [ROOT, *options.app], folder)
    servers = [server for server in servers if server.variant in variants]
    targets = [stack.enter_context(run_target(server)) for server in servers]
    figures: report.Figures = {}

    def add(case: str, server: str, figure: report.Round) -> None:
        figures.setdefault(case, {}).setdefault(server, []).append(figure)

    for number in range(options.rounds):
        turn = 1 if number % 2 else -1  # in the other order
        for case in cases:
            show_progress(f"round {number + 1} of {options.rounds}: {case.name}")
            fakes.set_delays(**case.delays)
            for target in targets[::turn]:
                if can_answer(target, case):
                    add(case.name, target.name, client.run(case.job(target, options.scale)))
        show_progress(f"round {number + 1} of {options.rounds}: start and memory")
        fakes.set_delays(**NO_DELAY)
        for server in servers[::turn]:
            if name := report.STARTS.get(server.variant):
                add(name, server.name, measure_start(client, server, options.scale))
    return figures


def can_answer(target: Target, case: Case) -> bool:
    """Whether a server is set up for a case, and has its protocol."""
    if target.variant != case.variant:
        return False
    return not case.only_app or (target.is_app and target.has_route(case.path))


def measure_start(client: LoadClient, server: Server, scale: float) -> report.Round:
    """The seconds to a server's first answer, and its peak of memory after many answers."""
    start = time.monotonic()
    with run_target(server) as target:
        seconds = first_answer_seconds(target, start)
        client.run(MANY.job(target, scale))
        return {"seconds": seconds, "mib": peak_mib(target.pid)}


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the main cases, in two minutes")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases with this text")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of answers")
    parser.add_argument(
        "--app",
        type=lambda text: Path(text).resolve(strict=True),
        action="append",
        default=[],
        metavar="FOLDER",
        help="another checkout of the app, measured beside this one",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the file of all figures")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    options = read_options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends, too
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        try:
            figures = measure(options, folder, stack)
        except (RuntimeError, OSError) as error:
            logs = (f"{log.name}:\n{log.read_text()[-2000:]}" for log in folder.glob("*.log"))
            raise SystemExit("\n".join((f"{error}. The logs end with:", *logs))) from None
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=1))
    print(report.format_results(figures))


if __name__ == "__main__":
    main()
