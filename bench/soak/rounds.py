"""Rounds of load with faults, each with a check that the app has recovered, and a last one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

import aiohttp

from bench.soak.process import AppProcess, Holdings
from bench.soak.protocols import PROTOCOLS
from bench.soak.services import Services
from bench.soak.sessions import WHOLE, Report, Session, Violation

ROUND_SECONDS = 60.0
IDLE_SECONDS = 40.0  # in which the app closes what it keeps for the next request
GROWTH_MIB = 40.0  # that the caches of the app and of Python may take after the first round


def open_client(url: str) -> aiohttp.ClientSession:
    """A client without limits of its own."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
    return aiohttp.ClientSession(url, connector=connector, timeout=timeout, read_bufsize=2**20)


@dataclass
class Soak:
    """One run: the app at `url`, the services behind it, and what happens."""

    url: str
    app: AppProcess
    services: Services
    at_once: int
    report: Report = field(default_factory=Report)
    numbers: Iterator[int] = field(default_factory=count)

    async def run(self, seconds: float) -> None:
        """Run the rounds, then wait until the app is idle."""
        start = time.monotonic()
        await self._ask_without_faults()
        first, mib = self.app.holdings(), 0.0
        rounds = max(2, round(seconds / ROUND_SECONDS))
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}")
            await self._ask_with_faults(start + seconds * number / rounds)
            await self._ask_without_faults()
            mib = mib or self.app.mib
        await self._check_left_behind(first, mib)

    async def _ask_with_faults(self, until: float) -> None:
        """Keep sessions going until a time, and report the progress."""
        self.services.faults.active = True
        async with open_client(self.url) as client, asyncio.TaskGroup() as group:

            async def keep_asking() -> None:
                while time.monotonic() < until:
                    number = next(self.numbers)
                    protocol = PROTOCOLS[number % len(PROTOCOLS)]
                    random = Random(f"{self.services.faults.seed} {number}")
                    await Session(client, protocol, number, random, self.report).run()

            for _ in range(self.at_once):
                group.create_task(keep_asking())
            while (left := until - time.monotonic()) > 0:
                await asyncio.sleep(min(5.0, left))
                print(f"  {max(0, left - 5):2.0f} s left: {self.report}; {self.app.mib:.0f} MiB")

    async def _ask_without_faults(self) -> None:
        """Ask once in each protocol, streaming or not: each first answer must be whole."""
        self.services.faults.active = False
        async with open_client(self.url) as client:
            for protocol in PROTOCOLS:
                for streams in {False, protocol.stream_path is not None}:
                    number = next(self.numbers)
                    session = Session(client, protocol, number, Random(0), self.report, False)
                    try:
                        ending = await session.ask(0, streams)
                    except Violation as violation:
                        ending = str(violation)
                    if ending != WHOLE:
                        self.report.violations.append(f"no recovery: {protocol.name}: {ending}")

    async def _check_left_behind(self, first: Holdings, mib: float) -> None:
        """Wait until the app holds what it held at first, `mib` after the first round."""
        until = time.monotonic() + IDLE_SECONDS
        while (problems := self._compare(first)) and time.monotonic() < until:
            await asyncio.sleep(1)
        last = self.app.holdings()
        print(f"memory: {first.mib:.0f} MiB at first, {mib:.0f} after a round, {last.mib:.0f} last")
        print(f"files: {first.files} at first, {last.files} last")
        if last.mib > mib + GROWTH_MIB:
            problems.append(f"{last.mib - mib:.0f} MiB")
        self.report.violations += [f"left behind: {problem}" for problem in problems]

    def _compare(self, first: Holdings) -> list[str]:
        """What the app holds more than at first."""
        now, at_services = self.app.holdings(), self.services.open_connections
        tasks = now.tasks - first.tasks
        checks = (
            (now.connections, f"{now.connections} connections of the app"),
            (at_services, f"{at_services} connections at the services"),
            (tasks, f"tasks: {dict(tasks)}"),
            (now.files > first.files, f"{now.files - first.files} files"),
        )
        return [problem for is_left, problem in checks if is_left]
