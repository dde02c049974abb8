"""Reads and splits one file, in the process of the sandbox."""

from __future__ import annotations

from pathlib import Path

from ingest.document import UnreadableDocument
from ingest.readers.file_reader import read_file
from ingest.sandbox import ReadReply, ReadRequest
from ingest.splitting.passages import split_document


def read_passages(request: ReadRequest, max_bytes: int) -> ReadReply:
    """Return the passages of a file, or the reason why there are none."""
    try:
        content = read_file(Path(request.path), max_bytes)
        passages = tuple(split_document(request.name, content.pages, content.category))
        return ReadReply(passages=passages)
    except UnreadableDocument as error:
        return ReadReply(error=str(error))
    except MemoryError:
        return ReadReply(error="It took too much memory.", must_restart=True)
