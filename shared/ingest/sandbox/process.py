"""Reads files in a process of its own, so that no file can hold the run or fill the machine."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from shared.ingest.document import LARGEST, MEGABYTE, UnreadableDocument
from shared.ingest.sandbox.ipc import LARGEST_REPLY, SIZE, ReadReply, ReadRequest, frame
from shared.ingest.splitting.passages import Passage

_ROOT = Path(__file__).parent.parent.parent.parent
_FILES = 200  # of one process; after them what its libraries keep in memory is given back
_START = 60.0  # seconds
_BUFFER = 4 * MEGABYTE
# What Python and its libraries need of the environment. No key of a service is among it.
PASSED = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


class CannotStart(Exception):
    """Nothing can be read on this machine; the message says what to do."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one file may take: bytes on disk, seconds, and bytes of memory.

    The memory is limited on Linux. macOS does not keep such a limit and Windows has none: there
    the time alone bounds what a file can do.
    """

    largest: int = LARGEST
    seconds: float = 60.0
    memory: int = 1024 * MEGABYTE


@dataclass(frozen=True, slots=True)
class FilePassages:
    """A file's passages. `category` is the one that the file gives itself; they carry it."""

    passages: tuple[Passage, ...]
    category: str | None = None


class SandboxReader:
    """Reads and splits one file at a time in a child process, which is used for many of them.

    A child that breaks a limit is killed, and the next file gets a new one. Left, by the end of
    `async with` or by a crash, it ends too.
    """

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        self._limits = limits or SandboxLimits()
        self._child: Process | None = None
        self._left = 0
        self._turn = asyncio.Lock()

    @property
    def largest(self) -> int:
        """The most bytes of a file."""
        return self._limits.largest

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def passages(self, path: Path, name: str) -> FilePassages:
        """The passages of the file at `path`, which the index knows as `name`.

        Raises Unreadable with the reason, a sentence without the file's name, and CannotStart.
        """
        request = self._request(path, name)
        async with self._turn:
            used = self._child is not None
            reply = await self._asked(request)
            if reply.spent and used:  # What earlier files left behind is not this one's fault.
                reply = await self._asked(request)
        if reply.reason is not None:
            raise UnreadableDocument(reply.reason)
        return FilePassages(reply.passages, reply.category)

    def _request(self, path: Path, name: str) -> bytes:
        whole = str(path.absolute())
        try:
            (whole + name).encode("utf-8")
        except UnicodeEncodeError as error:
            raise UnreadableDocument("Its name holds bytes that are no characters.") from error
        limits = self._limits
        return frame(
            ReadRequest(path=whole, name=name, largest=limits.largest, seconds=limits.seconds)
        )

    async def _asked(self, request: bytes) -> ReadReply:
        """One question and its answer; a child that gives none, or its last, is ended."""
        done = False
        try:
            child = await self._ready()
            async with asyncio.timeout(self._limits.seconds):
                reply = await _exchange(child, request)
            done = not reply.spent and self._left > 0
            return reply
        except TimeoutError as error:
            raise UnreadableDocument(
                f"It took more than {self._limits.seconds:g} seconds."
            ) from error
        except (asyncio.IncompleteReadError, OSError, ValueError):
            return ReadReply(reason="It is damaged: what reads it crashed.", spent=True)
        finally:
            if not done:  # Also when the run is cancelled in the middle.
                await self._end()

    async def _ready(self) -> Process:
        if self._child is None or self._child.returncode is not None:
            self._child = await _started(self._limits.memory)
            self._left = _FILES
            await self._greeted(self._child)
        self._left -= 1
        return self._child

    async def _greeted(self, child: Process) -> None:
        """Wait for its first, empty reply: what it takes to start is no file's time."""
        try:
            async with asyncio.timeout(_START):
                await _reply(child)
        except (TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
            memory = self._limits.memory // MEGABYTE
            raise CannotStart(
                "The process that reads files does not start: install what "
                f"requirements-ingest.txt names, for {sys.executable}, and see that {memory} MB "
                "of memory are enough for Python."
            ) from error

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _started(memory: int) -> Process:
    inherited = {name: os.environ[name] for name in PASSED if name in os.environ}
    modules = os.pathsep.join((str(_ROOT), *filter(None, sys.path)))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "shared.ingest.sandbox.worker", str(memory)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd=_ROOT,
        env={**inherited, "PYTHONPATH": modules, "PYTHONUTF8": "1"},
        limit=_BUFFER,
    )


async def _exchange(child: Process, request: bytes) -> ReadReply:
    assert child.stdin is not None
    child.stdin.write(request)
    await child.stdin.drain()
    return await _reply(child)


async def _reply(child: Process) -> ReadReply:
    assert child.stdout is not None
    size = int.from_bytes(await child.stdout.readexactly(SIZE), "big")
    if size > LARGEST_REPLY:
        raise ValueError(size)
    data = await child.stdout.readexactly(size)
    return await asyncio.to_thread(ReadReply.model_validate_json, data)
