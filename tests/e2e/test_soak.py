"""The soak finds nothing in a minute of it, and says what it did."""

from __future__ import annotations

import re
import subprocess
import sys

from bench.soak.protocols import PROTOCOLS
from tests.support.isolation import app_copy


def test_soak_ends_without_violations_and_prints_its_seed_and_counts() -> None:
    options = ["--seconds", "60", "--seed", "20", "--at-once", "10"]
    command = [sys.executable, "-m", "bench.soak", *options]
    done = subprocess.run(command, cwd=app_copy(), capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed: 20\n")
    for protocol in PROTOCOLS:
        row = rf"^{protocol.name}, whole +[1-9]\d* +\d+ +\d+ +\d+$"
        assert re.search(row, done.stdout, re.MULTILINE), protocol.name
    assert re.search(r"^faults: .*\d", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\n0 violations; repeat it with --seed 20\n")
