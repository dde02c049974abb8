"""`python -m shared.ingest FOLDER`: the command, or what it lacks."""

from __future__ import annotations

import sys

LACKS = (
    "{name} is not installed. What reads documents: "
    "{python} -m pip install -r requirements.txt -r requirements-ingest.txt"
)


def main() -> int:
    """The exit status."""
    try:
        from shared.ingest.cli import main as run
    except ModuleNotFoundError as missing:
        print(LACKS.format(name=missing.name, python=sys.executable), file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
