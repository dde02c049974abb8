"""Compares the installed distributions with the pins of constraints.txt.

`python -m tests.support.lockfile`, run by an environment with the deployed set alone, fails where a
distribution is installed that constraints.txt does not pin. It imports the standard library only.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path

CONSTRAINTS = Path(__file__).parent.parent.parent / "constraints.txt"
EXEMPT = "azure-functions"  # which major version fits depends on the Python
INSTALLERS = {"pip", "setuptools", "wheel"}


def canonical_name(name: str) -> str:
    """A distribution's name as PEP 503 normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(text: str) -> set[str]:
    """The lines `name==version` of a constraints file, without their markers."""
    lines = (re.split(r"\s*[;#]", line)[0].strip() for line in text.splitlines())
    return {line for line in lines if line}


def find_unpinned(versions: dict[str, str], pins: set[str], exempt: set[str]) -> list[str]:
    """The installed distributions, of names and versions, that no constraint pins."""
    names = sorted(versions.keys() - exempt - INSTALLERS)
    lines = [f"{name}=={versions[name]}" for name in names]
    return [line for line in lines if line not in pins]


def with_dependencies(name: str) -> set[str]:
    """A distribution, and all that it requires without an extra, in this environment."""
    try:
        lines = [line for line in requires(name) or [] if "extra ==" not in line]
    except PackageNotFoundError:  # a marker that does not hold here
        return {name}
    names = (re.match(r"[\w.-]+", line) for line in lines)
    return {name}.union(*(with_dependencies(canonical_name(one[0])) for one in names if one))


def main() -> None:
    versions = {canonical_name(one.name): one.version for one in distributions()}
    if EXEMPT not in versions:
        sys.exit(f"{EXEMPT} is not installed: install requirements.txt first.")
    pins = read_pins(CONSTRAINTS.read_text("utf-8"))
    unpinned = find_unpinned(versions, pins, with_dependencies(EXEMPT))
    if unpinned:
        sys.exit(f"constraints.txt does not pin {', '.join(unpinned)}: run `make lock`.")
    print("constraints.txt pins all that is installed.")


if __name__ == "__main__":
    main()
