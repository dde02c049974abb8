"""Plants faults at random, one at a time, and prints those that no test notices: `make mutants`.

The faults are planted in a copy of the project. A run of the unit and integration tests without
one tells which tests execute a line; these run for each fault of it, the nearest and fastest first,
until one fails. mypy checks those that pass, since `make check` would reject a fault of a type.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from random import Random, randrange
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest
from coverage import CoverageData

from bench.mutants.faults import Fault, choose_faults
from tests.support.packaging import clone_project

SUITES = ("tests/unit", "tests/integration")
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")
COVERAGE = ("--cov=shared", "--cov-context=test", "--cov-report=", "--junitxml=.coverage.xml")
TEST_SECONDS = 30.0  # of the tests that execute a fault, as measured without it
APART_SECONDS = 90.0  # of those that may execute it in another process
PROCESS_SECONDS = 0.3  # a test that starts another process for its file takes longer
GRACE_SECONDS = 60.0  # beyond three times that: a fault that makes a test hang is noticed


def link_clients(folder: Path) -> None:
    """Let the tests of the copy use the packages of npm, such as the fake of Blob storage."""
    packages = Path("tests/clients/node_modules").resolve()
    if packages.exists():
        (folder / "tests/clients/node_modules").symlink_to(packages)


def measure(coverage: Path) -> None:
    """Run the tests without a fault. Writes what each executed, and its seconds beside it."""
    Path(".coveragerc").write_text("[run]\nrelative_files = true\n", "utf-8")
    subprocess.run([sys.executable, "-m", "pytest", *OPTIONS, *COVERAGE, *SUITES], check=False)
    shutil.move(".coverage", coverage)
    shutil.move(".coverage.xml", coverage.with_suffix(".xml"))


def read_seconds(coverage: Path) -> Mapping[str, float]:
    """The seconds of each test that passed."""
    cases = ElementTree.parse(coverage.with_suffix(".xml")).iter("testcase")
    passed = [case.attrib for case in cases if not len(case)]
    return {
        f"{case['classname'].replace('.', '/')}.py::{case['name']}": float(case["time"])
        for case in passed
    }


def rank_tests(fault: Fault, data: CoverageData, seconds: Mapping[str, float]) -> list[str]:
    """The tests that run for a fault: as many as there is time for.

    First those that execute it, the nearest and fastest first, then others of their files, which
    use what a cache or a fixture has kept: what is executed at import can concern all tests. Then
    those that may execute it in another process.
    """
    lines: Mapping[int, list[str]] = data.contexts_by_lineno(fault.file)
    contexts = {each for n in range(fault.start, fault.end + 1) for each in lines.get(n, ())}
    at_import = "" in contexts
    if at_import:
        contexts.update(*lines.values())
    direct = {each.rpartition("|")[0] for each in contexts} & seconds.keys()
    files = {name.partition("::")[0] for name in direct}
    names = {name for name in seconds if at_import or name.partition("::")[0] in files}
    slow = {name.partition("::")[0] for name, each in seconds.items() if each > PROCESS_SECONDS}
    apart = {name for name in seconds if name.partition("::")[0] in slow}
    words = set(Path(fault.file.replace("_", "/")).with_suffix("").parts)

    def rank(name: str) -> tuple[bool, int, float]:
        path = name.partition(".py")[0].replace("_", "/").split("/")
        return name not in direct, -len(words & set(path)), seconds[name]

    return [
        *_first(sorted(names, key=rank), seconds, TEST_SECONDS),
        *_first(sorted(apart - names, key=rank), seconds, APART_SECONDS),
    ]


def _first(names: Sequence[str], seconds: Mapping[str, float], limit: float) -> list[str]:
    """The first tests, as long as they take less than the limit together; at least one."""
    totals = accumulate(seconds[name] for name in names)
    count = sum(total < limit for total in totals)
    return list(names[: max(count, 1)])


def preload() -> None:
    """Import what the tests import, but for the project's own modules."""
    forget_modules()
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        pytest.main([*OPTIONS, "--collect-only", *SUITES])
    forget_modules()


def forget_modules() -> None:
    """Let the modules of this folder be imported again."""
    own = {path.stem for path in Path().iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


def run_tests(names: Sequence[str]) -> None:
    """Run tests until one fails, and exit with pytest's status: in a process of its own."""
    os.setsid()
    with open("mutants.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.exit(pytest.main([*OPTIONS, "-x", *names]))


def test(names: Sequence[str], limit: float) -> int | None:
    """Run tests in a copy of this process, for so many seconds. Returns pytest's status."""
    with TemporaryDirectory() as scratch:
        tempfile.tempdir = os.environ["TMPDIR"] = scratch
        child = get_context("fork").Process(target=run_tests, args=(names,))
        child.start()
        try:
            child.join(limit)
        finally:
            tempfile.tempdir = None
            del os.environ["TMPDIR"]
            with suppress(ProcessLookupError):  # what the tests have started ends, too
                os.killpg(child.pid or 0, signal.SIGKILL)
            child.join()
    return child.exitcode


def has_type_error(fault: Fault) -> bool:
    """Tell whether mypy rejects the fault. It keeps what it knows of the other files."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", fault.file]
    return subprocess.run(command, capture_output=True, check=False).returncode == 1


def plant(fault: Fault, data: CoverageData, seconds: Mapping[str, float]) -> str:
    """Plant a fault, and print its line, and the change if all tests pass.

    Returns "noticed" (by a test), "mypy" (by it alone), or "survived".
    """
    names = rank_tests(fault, data, seconds)
    path = Path(fault.file)
    path.write_text(fault.code(), "utf-8")
    limit = GRACE_SECONDS + 3 * sum(seconds[name] for name in names)
    status = test(names, limit)
    if status == pytest.ExitCode.USAGE_ERROR:  # a test has another name, for example by the fault
        status = test(sorted({name.partition("::")[0] for name in names}), limit)
    passed = status == pytest.ExitCode.OK
    result = "noticed" if not passed else "mypy" if has_type_error(fault) else "survived"
    path.write_text(fault.module.code, "utf-8")
    diff = "" if result == "noticed" else f"\n{fault.diff()}"
    print(f"{fault.file}:{fault.end}, {len(names)} tests: {result}{diff}", flush=True)
    return result


def main() -> None:
    """Plant faults, and count those that survive."""
    command = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    command.add_argument("--module", type=Path, default=Path("shared"), help="a folder or a file")
    command.add_argument("--count", type=int, default=40, help="the number of faults")
    command.add_argument("--seed", type=int, default=randrange(10**6), help="repeats a run")
    command.add_argument("--coverage", type=Path, help="keeps what the tests execute in a file")
    options = command.parse_args()
    with TemporaryDirectory() as temporary:
        folder = clone_project(Path(temporary).resolve())
        coverage = (options.coverage or folder / "coverage").resolve()
        link_clients(folder)
        os.chdir(folder)
        sys.path[0] = str(folder)
        if not coverage.exists():
            measure(coverage)
        data, seconds = CoverageData(str(coverage)), read_seconds(coverage)
        data.read()
        preload()
        faults = list(choose_faults(options.module, options.count, Random(options.seed)))
        results = Counter(plant(fault, data, seconds) for fault in faults)
    print(
        f"{results['survived'] + results['mypy']} of {len(faults)} faults survived the tests, "
        f"{results['survived']} of them mypy, too (SEED={options.seed})."
    )


if __name__ == "__main__":
    main()
