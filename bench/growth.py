"""How does the time of a request grow with each of its lists? `python -m bench.growth`

Doubles each list of each route up to the largest body, and inputs of parsers that are meant to be
slow. Those whose time grows like the square, over three times as long at each doubling, are named
at the end, and the status is not zero then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from bench.flow import open_flow
from bench.parsers import list_parsers
from bench.rows import DOUBLINGS, Growth, Row, measure


def list_rows() -> Iterator[Row]:
    """Yield the inputs of the parsers and the lists of the routes."""
    yield from list_parsers()
    with open_flow() as flow:
        yield from flow.rows()


def write_header() -> str:
    """Return the first line of the table."""
    shares = "".join(f"{'1/' + str(1 << halving):>9}" for halving in range(DOUBLINGS, 0, -1))
    title = "milliseconds of CPU for a share of the largest size"
    return f"{title:<98}{'largest':>9}{shares}{'1/1':>9}  exponent"


def write_line(row: Row, growth: Growth) -> str:
    """Return the line of a row, with the status of the answer to the largest request."""
    times = "".join(f"{each:>9.1f}" for each in growth.times)
    place = f"{row.name:<40}{row.kind:<58}{row.largest:>9}"
    return f"{place}{times:<54}{growth.exponent or '-':>10.3} {growth.result or ''}".rstrip()


def write_table(rows: Iterable[Row]) -> list[str]:
    """Measure rows and print them. Return the names of those that grow like the square."""
    squares = []
    print(write_header())
    for row in rows:
        growth = measure(row)
        print(write_line(row, growth), flush=True)
        if growth.is_square:
            squares.append(f"{row.name} {row.kind}")
    return squares


def main() -> None:
    """Measure, print a table, and name what grows like the square."""
    command = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    command.add_argument("--scale", type=float, default=1, help="of the largest sizes")
    command.add_argument("--only", default="", help="a part of the name of a route or a parser")
    options = command.parse_args()
    squares = write_table(
        replace(row, largest=max(1, int(row.largest * options.scale)))
        for row in list_rows()
        if options.only in f"{row.name} {row.kind}"
    )
    if squares:
        sys.exit(f"Grow like the square: {', '.join(squares)}.")


if __name__ == "__main__":
    main()
