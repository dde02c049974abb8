"""Reads files in a child process under limits of time and memory."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from ingest.document import MAX_FILE_BYTES, MEGABYTE, UnreadableDocument
from ingest.splitting.passages import Passage

MAX_REPLY_BYTES = 128 * MEGABYTE
"""The limit of a reply with one file's passages."""


class SandboxLimits(BaseModel):
    """The limits per file: bytes on disk, seconds, and bytes of memory.

    The memory limit works on Linux only: macOS does not enforce it and Windows has none.
    """

    model_config = ConfigDict(frozen=True)

    max_bytes: int = MAX_FILE_BYTES
    timeout: float = 60.0
    timeout_hint: str = "--seconds allows more"  # of the message about a timeout
    max_memory: int = 1024 * MEGABYTE
    files_per_process: int = 200  # a new one frees what the libraries keep in memory


class ReadRequest(BaseModel):
    """A file to read, and its name in the index."""

    model_config = ConfigDict(frozen=True)

    path: str
    name: str


class ReadReply(BaseModel):
    """The passages of a file, or the reason for skipping it."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    passages: tuple[Passage, ...] = ()
    error: str | None = None
    must_restart: bool = False  # the process has reached a limit and must be replaced


def encode_line(message: ReadRequest | ReadReply) -> bytes:
    """Encode a message as one line of JSON."""
    return message.model_dump_json().encode("utf-8") + b"\n"


_ROOT = Path(__file__).parent.parent
_START_SECONDS = 60.0
NO_PROCESS = "The process that reads files does not start: {reason}."
# The environment variables of the child process; none of them is a secret.
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
    """The child process cannot start; the message says what to do."""


class SandboxReader:
    """Reads and splits one file at a time in a child process, which is reused.

    A child that exceeds a limit is killed, and the next file gets a new one. It also ends with
    `async with` and with this process.
    """

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        self.limits = limits or SandboxLimits()
        self._process: Process | None = None
        self._files_left = 0
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def read_passages(self, path: Path, name: str) -> tuple[Passage, ...]:
        """Read the passages of the file at `path`, which the index knows as `name`.

        Raises UnreadableDocument with the reason, a sentence without the file's name, and
        SandboxStartError.
        """
        request = _encode_request(path, name)
        async with self._lock:
            is_reused = self._process is not None
            reply = await self._send(request)
            if reply.must_restart and is_reused:  # Earlier files may have caused it.
                reply = await self._send(request)
        if reply.error is not None:
            raise UnreadableDocument(reply.error)
        return reply.passages

    async def _send(self, request: bytes) -> ReadReply:
        """Send a request and return the reply; stop the child after a failure or its last file."""
        is_reusable = False
        try:
            process = await self._ensure_process()
            async with asyncio.timeout(self.limits.timeout):
                reply = await _exchange(process, request)
            is_reusable = not reply.must_restart and self._files_left > 0
            return reply
        except TimeoutError as error:
            hint = f": {self.limits.timeout_hint}" if self.limits.timeout_hint else ""
            message = f"It took more than {self.limits.timeout:g} seconds{hint}."
            raise UnreadableDocument(message) from error
        except (OSError, ValueError):
            return ReadReply(error="It is damaged: what reads it crashed.", must_restart=True)
        finally:
            if not is_reusable:  # also after a cancellation
                await self._stop()

    async def _ensure_process(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            try:
                self._process = await _start_process(self.limits)
            except OSError as error:  # such as too many processes
                raise SandboxStartError(NO_PROCESS.format(reason=error.strerror)) from error
            self._files_left = self.limits.files_per_process
            await self._wait_until_ready(self._process)
        self._files_left -= 1
        return self._process

    async def _wait_until_ready(self, process: Process) -> None:
        """Wait for the first, empty reply: starting does not count as a file's time."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await _read_reply(process)
        except (TimeoutError, ValueError) as error:
            memory = self.limits.max_memory // MEGABYTE
            raise SandboxStartError(
                "The process that reads files does not start: install what "
                f"requirements-ingest.txt names, for {sys.executable}, and see that {memory} MB "
                "of memory are enough for Python."
            ) from error

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _encode_request(path: Path, name: str) -> bytes:
    address = str(path.absolute())
    try:
        (address + name).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableDocument("Its name holds bytes that are no characters.") from error
    return encode_line(ReadRequest(path=address, name=name))


async def _start_process(limits: SandboxLimits) -> Process:
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    modules = os.pathsep.join((str(_ROOT), *filter(None, sys.path)))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "ingest.sandbox_worker", limits.model_dump_json()),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd=_ROOT,
        env={**inherited, "PYTHONPATH": modules, "PYTHONUTF8": "1"},
        limit=MAX_REPLY_BYTES,
    )


async def _exchange(process: Process, request: bytes) -> ReadReply:
    assert process.stdin is not None
    process.stdin.write(request)
    await process.stdin.drain()
    return await _read_reply(process)


async def _read_reply(process: Process) -> ReadReply:
    """Read one reply. Raises ValueError where it is incomplete, invalid or too long."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    return await asyncio.to_thread(ReadReply.model_validate_json, line)
