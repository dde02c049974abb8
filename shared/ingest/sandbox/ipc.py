"""The protocol between the sandbox and its parent process: length-prefixed frames of JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from shared.ingest.splitting.passages import Passage

MAX_REPLY_BYTES = 128 * 2**20
"""The limit of a reply with one file's passages."""

LENGTH_BYTES = 8
"""The size of the length prefix of a frame."""


class ReadRequest(BaseModel):
    """A file to read, its name in the index, and the limits in bytes and seconds."""

    model_config = ConfigDict(frozen=True)

    path: str
    name: str
    max_bytes: int
    timeout: float


class ReadReply(BaseModel):
    """The passages of a file, or the reason for skipping it.

    `must_restart` says that the process has reached a limit and must be replaced.
    """

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    passages: tuple[Passage, ...] = ()
    category: str | None = None
    error: str | None = None
    must_restart: bool = False


def encode_frame(message: ReadRequest | ReadReply) -> bytes:
    """Encode a message with its length prefix."""
    data = message.model_dump_json().encode("utf-8")
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
