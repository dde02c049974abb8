"""What does a memory in a file cost at size? `python -m bench.memory --conversations 10000`

One owner's conversations beside those of others, each with some turns: pages of the list by their
position, in proportion to the first page of an owner who has only ten.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from shared.memory.base import Memory, PageRequest, Turn
from shared.memory.sqlite.store import open_memory

TURN = Turn("What is covered? " * 5, "Answer. " * 100, "It is. " * 60, "chat", "passage " * 400)
TIMES = 200


async def fill(memory: Memory, owner: str, conversations: int, turns: int) -> list[str]:
    """Begin conversations, and say something in each; their ids."""
    ids = []
    for number in range(conversations):
        ids.append((await memory.conversations.create(owner, f"Conversation {number}")).id)
        for _ in range(turns):
            await memory.interactions.add(owner, ids[-1], TURN)
    return ids


async def cost(work: Callable[[], Awaitable[Any]], times: int = TIMES) -> float:
    """The median milliseconds of some work."""
    took = []
    for _ in range(times):
        start = perf_counter()
        await work()
        took.append((perf_counter() - start) * 1000)
    return median(took)


async def measure(path: Path, conversations: int, turns: int) -> dict[str, float]:
    """The milliseconds of each thing that a client does."""
    memory = open_memory(path)
    await fill(memory, "few", 10, turns)
    start = perf_counter()
    ids = await fill(memory, "many", conversations, turns)
    built = (perf_counter() - start) * 1000 / (conversations * (turns + 1))

    def page(owner: str, position: int) -> Callable[[], Awaitable[Any]]:
        return lambda: memory.conversations.list(owner, PageRequest(position, 10))

    few, last = "few", conversations - 10
    rows = {
        "first page of ten": await cost(page(few, 0)),
        f"first page of {conversations}": await cost(page("many", 0)),
        f"page at {last // 2}": await cost(page("many", last // 2)),
        f"page at {last}": await cost(page("many", last)),
        "the newest turns of one": await cost(
            lambda: memory.interactions.list("many", ids[0], PageRequest())
        ),
        "one more turn": await cost(lambda: memory.interactions.add("many", ids[0], TURN)),
        "a write while it was filled": built,
    }
    await memory.close()
    return rows


def main() -> None:
    """Fill a file, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        rows = asyncio.run(measure(path, options.conversations, options.turns))
        size = path.stat().st_size / 1024 / 1024
    (first, *_) = rows.values()
    print(f"{'':<32}{'ms':>10}{'ratio':>10}")
    for name, value in rows.items():
        print(f"{name:<32}{value:>10.2f}{value / first:>10.1f}")
    print(f"{'file, MiB':<32}{size:>10.1f}")


if __name__ == "__main__":
    main()
