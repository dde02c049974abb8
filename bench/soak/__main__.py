"""Asks in every protocol while services fail, and checks every answer and what is left behind."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from random import randrange

from bench.soak.fakes import Faults
from bench.soak.process import AppProcess
from bench.soak.rounds import Soak
from bench.soak.services import run_services
from bench.soak.sessions import ERROR, LATE_ERROR, LEFT, WHOLE, Report
from tests.support.isolation import isolate
from tests.support.servers import run_server

SHARE = 0.08  # of the calls of a service that fail
# Short, so that a service that stalls costs seconds.
LIMITS = {
    "SEARCH_SECONDS": "5",
    "MODEL_ACCEPT_SECONDS": "5",
    "MODEL_FIRST_TOKEN_SECONDS": "5",
    "MODEL_GAP_SECONDS": "5",
    "ANSWER_TIMEOUT_SECONDS": "15",
}
APP = [sys.executable, "-m", "bench.soak.app"]
LOG_END = 4000  # characters of the log to show


def run(options: argparse.Namespace, folder: Path) -> Report:
    """Run the app and its services, and return what happened."""
    faults = Faults(options.seed, SHARE)
    with run_services(folder, faults) as services:
        settings = {**services.settings, **LIMITS}
        with run_server("dev", folder, settings, line=APP) as server:
            soak = Soak(server.url, AppProcess(server), services, options.at_once)
            asyncio.run(soak.run(options.seconds))
            if soak.report.violations:
                print(server.log[-LOG_END:])
    print(f"faults: {', '.join(f'{kind} {it}' for kind, it in sorted(faults.counts.items()))}")
    return soak.report


def print_report(report: Report) -> None:
    """Print how the answers ended, and what must not have happened."""
    endings = (WHOLE, ERROR, LATE_ERROR, LEFT)
    print(f"{'':<32}" + "".join(f"{ending:>21}" for ending in endings))
    for name in sorted({name for name, _ in report.endings}):
        print(f"{name:<32}" + "".join(f"{report.endings[name, it]:>21}" for it in endings))
    print(f"{'all':<32}" + "".join(f"{report.count(ending):>21}" for ending in endings))
    for violation in report.violations[:20]:
        print(f"violation: {violation}")


def main() -> int:
    """Run, and return 1 if something happened that must not."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=randrange(10**6))
    parser.add_argument("--at-once", type=int, default=20)
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"seed: {options.seed}")
    isolate(os.environ)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        report = run(options, Path(folder))
    print_report(report)
    print(f"{len(report.violations)} violations; repeat it with --seed {options.seed}")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
