"""How does the time of each parser grow with its input? `python -m bench.growth`

Doubles inputs that are meant to be slow five times. Those whose time grows like the square, over
three times as long at each doubling, are named at the end, and the status is not zero then.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import process_time

from bench.parsers import INPUTS, PARSERS, Input, Parser
from shared.chat.errors import ChatError

SIZE, DOUBLINGS = 4_000, 5  # of the first input, in characters or entries
MOST = 3.0  # times as long at a doubling: between the 2 of a line and the 4 of a square
FLOOR = 20.0  # milliseconds: times below it are not judged
ENOUGH = 5_000.0  # milliseconds: an input that takes longer is not doubled


def measure(parser: Parser, make: Input, size: int) -> list[float]:
    """The milliseconds of an input and of its doubles."""
    took: list[float] = []
    gc.collect()
    for doubling in range(DOUBLINGS + 1):
        took.append(min(milliseconds(parser, make, size << doubling) for _ in range(3)))
        if took[-1] > ENOUGH:
            break
    return took


def milliseconds(parser: Parser, make: Input, size: int) -> float:
    """The CPU time of one input, be it refused or not."""
    value = make(size)
    gc.disable()  # as timeit does: its time grows with all that there is
    start = process_time()
    with suppress(ChatError):
        parser(value)
    gc.enable()
    return (process_time() - start) * 1000


def ratio(took: Sequence[float]) -> float:
    """How many times as long a doubling takes, of the last ones; 0 where they are too short."""
    last = took[-4:]
    if last[-1] < FLOOR:
        return 0
    if len(last) == 1:
        return inf
    return float((last[-1] / max(last[0], 0.001)) ** (1 / (len(last) - 1)))


def main() -> None:
    """Measure, print a table, and name what grows like the square."""
    command = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    command.add_argument("--size", type=int, default=SIZE, help="of the smallest input")
    command.add_argument("--only", default="", help="a part of a parser's name")
    options = command.parse_args()
    squares = []
    sizes = "".join(f"{options.size << doubling:>9}" for doubling in range(DOUBLINGS + 1))
    print(f"{'milliseconds of CPU for a size of':<48}{sizes}   ratio")
    for name, kind, make in (row for row in INPUTS if options.only in row[0]):
        took = measure(PARSERS[name], make, options.size)
        times, grown = "".join(f"{each:>9.1f}" for each in took), ratio(took)
        print(f"{name:<30}{kind:<18}{times:<54}{grown or '-':>8.3}", flush=True)
        if grown > MOST:
            squares.append(f"{name} ({kind})")
    if squares:
        sys.exit(f"Grow like the square: {', '.join(squares)}.")


if __name__ == "__main__":
    main()
