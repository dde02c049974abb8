"""The child process that reads files: `python -m ingest.sandbox_worker LIMITS`.

`LIMITS` are the SandboxLimits as JSON. Hostile files can only harm this process. It exits when its
pipe is closed, also within a file.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO

from ingest.document import MEGABYTE
from ingest.isolation import isolate
from ingest.sandbox import (
    MAX_REPLY_BYTES,
    ReadReply,
    ReadRequest,
    SandboxLimits,
    encode_line,
)

_GRACE_SECONDS = 5.0  # seconds beyond a file's time, for the parent to kill this process first


def _send(pipe: IO[bytes], reply: ReadReply) -> None:
    line = encode_line(reply)
    if len(line) > MAX_REPLY_BYTES:
        message = f"It gives more than {MAX_REPLY_BYTES // MEGABYTE} MB of passages."
        line = encode_line(ReadReply(error=message))
    pipe.write(line)
    pipe.flush()


def _receive_requests(pipe: IO[bytes], requests: SimpleQueue[ReadRequest]) -> None:
    for line in pipe:
        requests.put(ReadRequest.model_validate_json(line))
    os._exit(0)  # also within a file


def _limit_memory(max_bytes: int) -> None:
    """Limit the address space; Windows has no such limit and macOS does not enforce it."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = max_bytes if hard == resource.RLIM_INFINITY else min(max_bytes, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _take_over_stdout() -> IO[bytes]:
    """Duplicate stdout for the replies, and redirect other output to stderr."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def main(limits: SandboxLimits) -> None:
    """Send an empty reply as the sign of readiness, then handle requests from stdin forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl+C.
    isolate()
    from ingest.passage_reader import read_passages  # its libraries start threads

    requests: SimpleQueue[ReadRequest] = SimpleQueue()
    replies = _take_over_stdout()
    _limit_memory(limits.max_memory)
    Thread(target=_receive_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    _send(replies, ReadReply())
    while True:
        request = requests.get()
        # Exits even if a library blocks all threads and the parent is gone.
        faulthandler.dump_traceback_later(limits.timeout + _GRACE_SECONDS, exit=True)
        _send(replies, read_passages(request, limits.max_bytes))
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(SandboxLimits.model_validate_json(sys.argv[1]))
