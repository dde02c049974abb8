"""The child process that reads files: its limits, failures and end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.document import UnreadableDocument
from ingest.sandbox import (
    INHERITED_VARIABLES,
    SandboxLimits,
    SandboxReader,
    SandboxStartError,
)
from tests.support import sample_files as samples

ROOT = Path(__file__).parent.parent.parent
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def children(parent: int) -> list[int]:
    """The processes that `parent` has started and not yet seen the end of."""
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]


def started_since(before: list[int]) -> list[int]:
    """The children that are not among `before`, as the servers of other tests are."""
    return [child for child in children(os.getpid()) if child not in before]


def is_alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def seconds_worked(process: int) -> float:
    """The processor's time that a process has taken."""
    used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11]
    return int(used) / os.sysconf("SC_CLK_TCK")


def wait_until(met: Callable[[], bool]) -> bool:
    """Whether it comes true within half a minute."""
    end = time.monotonic() + 30
    while not met() and time.monotonic() < end:
        time.sleep(0.05)
    return met()


def endless(folder: Path) -> Path:
    path = folder / "endless.xlsx"
    path.write_bytes(samples.endless_xlsx())
    return path


def good(folder: Path) -> Path:
    path = folder / "good.txt"
    path.write_text("It can be read.")
    return path


async def reason(reader: SandboxReader, path: Path) -> str:
    with pytest.raises(UnreadableDocument) as caught:
        await reader.read_passages(path, path.name)
    return str(caught.value)


async def contents(reader: SandboxReader, path: Path) -> list[str]:
    return [passage.content for passage in await reader.read_passages(path, path.name)]


def test_timeout_affects_one_file(tmp_path: Path) -> None:
    async def read() -> tuple[str, list[str]]:
        async with SandboxReader(SandboxLimits(timeout=2)) as reader:
            return await reason(reader, endless(tmp_path)), await contents(reader, good(tmp_path))

    expected = "It took more than 2 seconds: --seconds allows more."
    assert asyncio.run(read()) == (expected, ["It can be read."])


@LINUX
def test_memory_limit_affects_one_file(
    tmp_path: Path,
) -> None:
    large = tmp_path / "large.json"
    large.write_text("[" + "{}," * 9_000_000 + "{}]")

    async def read() -> tuple[str, list[str]]:
        async with SandboxReader(SandboxLimits(max_memory=600 * 2**20)) as reader:
            return await reason(reader, large), await contents(reader, good(tmp_path))

    assert asyncio.run(read()) == ("It took too much memory.", ["It can be read."])


@LINUX
def test_crash_affects_one_file(tmp_path: Path) -> None:
    async def read() -> tuple[str, list[str]]:
        before = children(os.getpid())
        async with SandboxReader() as reader:
            crashing = asyncio.create_task(reason(reader, endless(tmp_path)))
            while not (new := started_since(before)) or seconds_worked(new[0]) < 3:
                await asyncio.sleep(0.1)  # Until it has started, which takes one, and reads.
            os.kill(new[0], signal.SIGSEGV)
            return await crashing, await contents(reader, good(tmp_path))

    assert asyncio.run(read()) == ("It is damaged: what reads it crashed.", ["It can be read."])


@LINUX
def test_crash_of_a_reused_process_is_retried(tmp_path: Path) -> None:
    async def read() -> list[str]:
        before = children(os.getpid())
        async with SandboxReader() as reader:
            await contents(reader, good(tmp_path))
            [child] = started_since(before)
            os.kill(child, signal.SIGSTOP)
            reading = asyncio.create_task(contents(reader, good(tmp_path)))
            await asyncio.sleep(0.2)
            os.kill(child, signal.SIGKILL)
            return await reading

    assert asyncio.run(read()) == ["It can be read."]


@LINUX
def test_reader_ends_after_its_process_has_crashed(tmp_path: Path) -> None:
    async def read() -> list[str]:
        before = children(os.getpid())
        async with SandboxReader() as reader:
            read = await contents(reader, good(tmp_path))
            [child] = started_since(before)
            os.kill(child, signal.SIGKILL)
            assert await asyncio.to_thread(wait_until, lambda: not started_since(before))
        return read

    assert asyncio.run(read()) == ["It can be read."]


@LINUX
def test_process_is_reused_and_ends(tmp_path: Path) -> None:
    async def read() -> tuple[set[int], set[int]]:
        before = children(os.getpid())
        started: set[int] = set()
        async with SandboxReader() as reader:
            for _ in range(20):
                await contents(reader, good(tmp_path))
                started |= set(started_since(before))
        return started, set(children(os.getpid())) & started

    started, running = asyncio.run(read())

    assert (len(started), running) == (1, set())


def test_reader_is_usable_after_cancellation(tmp_path: Path) -> None:
    async def read() -> list[str]:
        async with SandboxReader() as reader:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(contents(reader, endless(tmp_path)), 1)
            return await contents(reader, good(tmp_path))

    assert asyncio.run(read()) == ["It can be read."]


def test_event_loop_is_not_blocked(tmp_path: Path) -> None:
    async def read() -> int:
        async with SandboxReader(SandboxLimits(timeout=2)) as reader:
            reading = asyncio.create_task(reason(reader, endless(tmp_path)))
            turns = 0
            while not reading.done():
                await asyncio.sleep(0.01)
                turns += 1
            return turns

    assert asyncio.run(read()) > 10


SCRIPT = """
import asyncio, sys
from pathlib import Path
from ingest.sandbox import SandboxReader

async def main(path):
    async with SandboxReader() as reader:
        await reader.read_passages(path.parent / "good.txt", "good.txt")
        print("warm", flush=True)
        await reader.read_passages(path, path.name)

asyncio.run(main(Path(sys.argv[1])))
"""


@LINUX
@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_process_ends_with_its_parent(tmp_path: Path, ended_by: signal.Signals) -> None:
    good(tmp_path)
    command = [sys.executable, "-c", SCRIPT, str(endless(tmp_path))]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"warm\n"
        [child] = children(started.pid)
        time.sleep(0.5)
        started.send_signal(ended_by)
        started.wait(30)

    assert wait_until(lambda: not is_alive(child))


@LINUX
def test_secrets_are_not_inherited(tmp_path: Path) -> None:
    async def environment() -> bytes:
        before = children(os.getpid())
        async with SandboxReader() as reader:
            await contents(reader, good(tmp_path))
            [child] = started_since(before)
            return Path(f"/proc/{child}/environ").read_bytes()

    names = {entry.partition(b"=")[0] for entry in asyncio.run(environment()).split(b"\0")}

    assert names <= {
        *(name.encode() for name in INHERITED_VARIABLES),
        b"PYTHONPATH",
        b"PYTHONUTF8",
        b"",
    }


def test_missing_file_is_reported(tmp_path: Path) -> None:
    async def read() -> str:
        async with SandboxReader() as reader:
            return await reason(reader, tmp_path / "gone.txt")

    assert asyncio.run(read()) == "It cannot be opened: No such file or directory."


@LINUX
def test_undecodable_name_is_reported(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))

    async def read() -> str:
        async with SandboxReader() as reader:
            return await reason(reader, path)

    assert asyncio.run(read()) == "Its name holds bytes that are no characters."


@LINUX
def test_start_failure_is_not_a_file_error(tmp_path: Path) -> None:
    async def read() -> None:
        async with SandboxReader(SandboxLimits(max_memory=2**20)) as reader:
            await reader.read_passages(good(tmp_path), "good.txt")

    with pytest.raises(SandboxStartError, match="does not start"):
        asyncio.run(read())
