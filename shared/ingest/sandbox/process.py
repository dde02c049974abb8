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

from shared.ingest.document import MAX_FILE_BYTES, MEGABYTE, UnreadableDocument
from shared.ingest.sandbox.ipc import (
    LENGTH_BYTES,
    MAX_REPLY_BYTES,
    ReadReply,
    ReadRequest,
    encode_frame,
)
from shared.ingest.splitting.passages import Passage

_ROOT = Path(__file__).parent.parent.parent.parent
_FILES_PER_PROCESS = (
    200  # of one process; after them what its libraries keep in memory is given back
)
_START_SECONDS = 60.0  # seconds
_BUFFER_BYTES = 4 * MEGABYTE
# What Python and its libraries need of the environment. No key of a service is among it.
INHERITED_VARIABLES = (
    "PATH",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
)


class SandboxStartError(Exception):
    """Nothing can be read on this machine; the message says what to do."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one file may take: bytes on disk, seconds, and bytes of memory.

    The memory is limited on Linux. macOS does not keep such a limit and Windows has none: there
    the time alone bounds what a file can do.
    """

    max_bytes: int = MAX_FILE_BYTES
    timeout: float = 60.0
    max_memory: int = 1024 * MEGABYTE


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
        self._process: Process | None = None
        self._files_left = 0
        self._lock = asyncio.Lock()

    @property
    def max_bytes(self) -> int:
        """The most bytes of a file."""
        return self._limits.max_bytes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def read_passages(self, path: Path, name: str) -> FilePassages:
        """The passages of the file at `path`, which the index knows as `name`.

        Raises Unreadable with the reason, a sentence without the file's name, and CannotStart.
        """
        request = self._encode_request(path, name)
        async with self._lock:
            used = self._process is not None
            reply = await self._send(request)
            if (
                reply.must_restart and used
            ):  # What earlier files left behind is not this one's fault.
                reply = await self._send(request)
        if reply.error is not None:
            raise UnreadableDocument(reply.error)
        return FilePassages(reply.passages, reply.category)

    def _encode_request(self, path: Path, name: str) -> bytes:
        whole = str(path.absolute())
        try:
            (whole + name).encode("utf-8")
        except UnicodeEncodeError as error:
            raise UnreadableDocument("Its name holds bytes that are no characters.") from error
        limits = self._limits
        return encode_frame(
            ReadRequest(path=whole, name=name, max_bytes=limits.max_bytes, timeout=limits.timeout)
        )

    async def _send(self, request: bytes) -> ReadReply:
        """One question and its answer; a child that gives none, or its last, is ended."""
        done = False
        try:
            child = await self._ensure_process()
            async with asyncio.timeout(self._limits.timeout):
                reply = await _exchange(child, request)
            done = not reply.must_restart and self._files_left > 0
            return reply
        except TimeoutError as error:
            raise UnreadableDocument(
                f"It took more than {self._limits.timeout:g} seconds."
            ) from error
        except (asyncio.IncompleteReadError, OSError, ValueError):
            return ReadReply(error="It is damaged: what reads it crashed.", must_restart=True)
        finally:
            if not done:  # Also when the run is cancelled in the middle.
                await self._stop()

    async def _ensure_process(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await _start_process(self._limits.max_memory)
            self._files_left = _FILES_PER_PROCESS
            await self._wait_until_ready(self._process)
        self._files_left -= 1
        return self._process

    async def _wait_until_ready(self, child: Process) -> None:
        """Wait for its first, empty reply: what it takes to start is no file's time."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await _read_reply(child)
        except (TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
            memory = self._limits.max_memory // MEGABYTE
            raise SandboxStartError(
                "The process that reads files does not start: install what "
                f"requirements-ingest.txt names, for {sys.executable}, and see that {memory} MB "
                "of memory are enough for Python."
            ) from error

    async def _stop(self) -> None:
        child, self._process = self._process, None
        if child is None:
            return
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _start_process(memory: int) -> Process:
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    modules = os.pathsep.join((str(_ROOT), *filter(None, sys.path)))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "shared.ingest.sandbox.worker", str(memory)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd=_ROOT,
        env={**inherited, "PYTHONPATH": modules, "PYTHONUTF8": "1"},
        limit=_BUFFER_BYTES,
    )


async def _exchange(child: Process, request: bytes) -> ReadReply:
    assert child.stdin is not None
    child.stdin.write(request)
    await child.stdin.drain()
    return await _read_reply(child)


async def _read_reply(child: Process) -> ReadReply:
    assert child.stdout is not None
    size = int.from_bytes(await child.stdout.readexactly(LENGTH_BYTES), "big")
    if size > MAX_REPLY_BYTES:
        raise ValueError(size)
    data = await child.stdout.readexactly(size)
    return await asyncio.to_thread(ReadReply.model_validate_json, data)
