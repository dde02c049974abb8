"""Runs a part of the evaluation: `python -m evals PART [OPTIONS]`."""

from __future__ import annotations

import argparse
import sys
from typing import Protocol

from evals import compare, evaluate, feedback
from evals.drafts import command as draft_command
from evals.errors import EvaluationError
from evals.safety import command as safety_command
from shared.bootstrap.local_settings import UsageError


class Part(Protocol):
    """The module of a part."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of the part."""

    def main(self, options: argparse.Namespace) -> int:
        """Run the part. Returns the exit status: 1 for a failure. Raises EvaluationError."""


PARTS: dict[str, tuple[Part, str]] = {
    "run": (evaluate, "ask an app the questions, and score the answers"),
    "compare": (compare, "ask with different settings, and compare the answers"),
    "draft": (draft_command, "draft questions about the documents of the index"),
    "feedback": (feedback, "make questions of answers that were rated as not helpful"),
    "safety": (safety_command, "attack the app, and report what it does not resist"),
}


def main() -> int:
    """Run what the command line names. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    for name, (module, text) in PARTS.items():
        module.add_arguments(parts.add_parser(name, help=text, description=module.__doc__))
    options = parser.parse_args()
    try:
        return PARTS[options.part][0].main(options)
    except (EvaluationError, UsageError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
