"""Runs one of the benchmarks, or all that need no data: `python -m bench [PART] [OPTIONS]`."""

from __future__ import annotations

import runpy
import subprocess
import sys

PARTS = {
    "serving": "what the app adds to its search and its model, beside two baselines (10 minutes)",
    "start": "what a worker does before its first answer (1 minute)",
    "index": "the embedded index with 100,000 passages (2 minutes)",
    "ingest": "a run over documents (2 minutes)",
    "memory": "stored conversations (1 minute)",
    "transport": "a stream over each of the OpenAI SDK's transports (half a minute)",
    "overload": "open streams of an instance that refuses more (2 minutes)",
    "uploads": "answers while uploads are read, on a laptop (3 minutes)",
    "leak": "memory over 20,000 requests (8 minutes)",
    "growth": "how the time of the parsers grows with their input (3 minutes)",
}
NEED_MORE = {
    "page": "the page in a browser; needs TEST_BROWSER",
    "answers": "how many passages an answer needs; needs a folder of documents",
    "retrieval": "the ranking on judged sets; needs a folder of them",
}
USAGE = "\n".join(
    (
        "python -m bench [PART] [OPTIONS]: a part with its own options (--help), or all the first.",
        "Without a part: serving.\n",
        *(f"  {name:<10} {text}" for name, text in (PARTS | NEED_MORE).items()),
        f"  {'all':<10} each of {', '.join(PARTS)}",
    )
)


def run(part: str, options: list[str]) -> None:
    """Run a part in this process, which a signal then ends with all that the part started."""
    sys.argv = [f"bench.{part}", *options]
    runpy.run_module(f"bench.{part}", run_name="__main__", alter_sys=True)


def run_apart(part: str) -> int:
    """Run a part in a process of its own. Returns its exit status."""
    print(f"\n== {part}: {PARTS[part]}", flush=True)
    return subprocess.run([sys.executable, "-m", f"bench.{part}"], check=False).returncode


def main(arguments: list[str]) -> int:
    """Run what the command line names. Returns the exit status."""
    if arguments[:1] in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    has_part = bool(arguments) and not arguments[0].startswith("-")
    part, options = (arguments[0], arguments[1:]) if has_part else ("serving", arguments)
    if part == "all":
        return max([run_apart(name) for name in PARTS])
    if part not in PARTS | NEED_MORE:
        print(USAGE, file=sys.stderr)
        return 2
    run(part, options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
