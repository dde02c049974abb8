"""Reads files for another process, one at a time: `python -m shared.ingest.sandbox.worker BYTES`.

What a hostile file does, it does here. It ends when its pipe is closed, whatever it is doing.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

from shared.ingest.document import MEGABYTE, UnreadableDocument
from shared.ingest.readers.file_reader import read_file
from shared.ingest.sandbox.ipc import (
    LENGTH_BYTES,
    MAX_REPLY_BYTES,
    ReadReply,
    ReadRequest,
    encode_frame,
)
from shared.ingest.splitting.passages import split_document

_GRACE_SECONDS = (
    5.0  # seconds after a file's time in which the other process would have ended this one
)


def handle_request(request: ReadRequest) -> ReadReply:
    """Read and split one file."""
    try:
        content = read_file(Path(request.path), request.max_bytes)
        found = tuple(split_document(request.name, content.pages, content.category))
        return ReadReply(passages=found, category=content.category)
    except UnreadableDocument as error:
        return ReadReply(error=str(error))
    except MemoryError:
        return ReadReply(error="It took too much memory.", must_restart=True)


def _encode_reply(reply: ReadReply) -> bytes:
    data = encode_frame(reply)
    if len(data) <= MAX_REPLY_BYTES:
        return data
    return encode_frame(
        ReadReply(error=f"It gives more than {MAX_REPLY_BYTES // MEGABYTE} MB of passages.")
    )


def serve_requests(requests: SimpleQueue[ReadRequest], replies: IO[bytes]) -> None:
    """Say that it is there, then answer one request after the other, forever."""
    replies.write(encode_frame(ReadReply()))
    replies.flush()
    while True:
        request = requests.get()
        # Even if a library neither ends nor lets other threads run, and nobody is left to kill it.
        faulthandler.dump_traceback_later(request.timeout + _GRACE_SECONDS, exit=True)
        replies.write(_encode_reply(handle_request(request)))
        replies.flush()
        faulthandler.cancel_dump_traceback_later()


def _receive_requests(pipe: IO[bytes], requests: SimpleQueue[ReadRequest]) -> None:
    while size := pipe.read(LENGTH_BYTES):
        requests.put(ReadRequest.model_validate_json(pipe.read(int.from_bytes(size, "big"))))
    os._exit(0)  # In the middle of a file, too.


def _limit_memory(most: int) -> None:
    """Windows has no such limit, and macOS does not keep to it: there only the time is limited."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _take_over_stdout() -> IO[bytes]:
    """The pipe to answer by, which nothing else here writes to."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def main(most: int) -> None:
    """Serve whoever has the other ends of the pipes, with `most` bytes of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the other process to obey.
    requests: SimpleQueue[ReadRequest] = SimpleQueue()
    replies = _take_over_stdout()
    _limit_memory(most)
    Thread(target=_receive_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    serve_requests(requests, replies)


if __name__ == "__main__":
    main(int(sys.argv[1]))
