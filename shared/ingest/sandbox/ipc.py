"""How do the process that reads files and the one that asks it talk? In frames of JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from shared.ingest.splitting.passages import Passage

MAX_REPLY_BYTES = 128 * 2**20
"""The most bytes of a reply: what one file's passages may take."""

LENGTH_BYTES = 8
"""The bytes before each frame: its length."""


class ReadRequest(BaseModel):
    """A file to read: where it lies, its name in the index, the limits in bytes and seconds."""

    model_config = ConfigDict(frozen=True)

    path: str
    name: str
    max_bytes: int
    timeout: float


class ReadReply(BaseModel):
    """The passages of a file, or the reason why there are none.

    `must_restart` says that the process has met a limit and is not to be used again.
    """

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    passages: tuple[Passage, ...] = ()
    category: str | None = None
    error: str | None = None
    must_restart: bool = False


def encode_frame(message: ReadRequest | ReadReply) -> bytes:
    """A message as it goes over the pipe."""
    data = message.model_dump_json().encode("utf-8")
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
