"""The child process that reads files: `python -m shared.ingest.sandbox_worker BYTES`.

Hostile files can only harm this process. It exits when its pipe is closed, also within a file."""

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
from shared.ingest.sandbox import (
    LENGTH_BYTES,
    MAX_REPLY_BYTES,
    ReadReply,
    ReadRequest,
    encode_frame,
)
from shared.ingest.splitting.passages import split_document

_GRACE_SECONDS = 5.0  # seconds beyond a file's time, for the parent to kill this process first


def handle_request(request: ReadRequest) -> ReadReply:
    """Read and split one file."""
    try:
        content = read_file(Path(request.path), request.max_bytes)
        passages = tuple(split_document(request.name, content.pages, content.category))
        return ReadReply(passages=passages, category=content.category)
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
    """Send an empty reply as the sign of readiness, then handle requests forever."""
    replies.write(encode_frame(ReadReply()))
    replies.flush()
    while True:
        request = requests.get()
        # Exits even if a library blocks all threads and the parent is gone.
        faulthandler.dump_traceback_later(request.timeout + _GRACE_SECONDS, exit=True)
        replies.write(_encode_reply(handle_request(request)))
        replies.flush()
        faulthandler.cancel_dump_traceback_later()


def _receive_requests(pipe: IO[bytes], requests: SimpleQueue[ReadRequest]) -> None:
    while size := pipe.read(LENGTH_BYTES):
        requests.put(ReadRequest.model_validate_json(pipe.read(int.from_bytes(size, "big"))))
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


def main(max_bytes: int) -> None:
    """Serve requests from stdin with `max_bytes` bytes of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl+C.
    requests: SimpleQueue[ReadRequest] = SimpleQueue()
    replies = _take_over_stdout()
    _limit_memory(max_bytes)
    Thread(target=_receive_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    serve_requests(requests, replies)


if __name__ == "__main__":
    main(int(sys.argv[1]))
