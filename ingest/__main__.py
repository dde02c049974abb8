"""Runs the command line: `python -m ingest FOLDER`."""

from __future__ import annotations

import sys

MISSING_DEPENDENCY = (
    "{name} is not installed. Install the dependencies of ingestion: "
    "{python} -m pip install -r requirements.txt -r requirements-local.txt"
)


def main() -> int:
    """Run the command, or name the missing dependency. Returns the exit status."""
    try:
        from ingest.cli import main as run
    except ModuleNotFoundError as missing:
        print(MISSING_DEPENDENCY.format(name=missing.name, python=sys.executable), file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
