"""What a protocol of a chat consists of: how requests are read, answers and errors written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.chat.errors import ChatError
from shared.chat.events import Answer, Context, Event
from shared.chat.request import ChatRequest
from shared.http.body import Body
from shared.http.json_encoding import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFormat:
    """How a protocol tells of a failure; `error` is given the body as far as it could be read.

    `status` and `headers` are the failure's own, where the protocol has no others for it.
    """

    name: str
    error: Callable[[ChatError, Any], Json]
    status: Callable[[ChatError, Any], int] = lambda failure, _body: failure.status
    headers: Callable[[ChatError], Mapping[str, str]] = lambda failure: failure.headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(ErrorFormat):
    """One protocol of a chat: how its requests are read and its answers written.

    `parse` raises BadRequest, which names the key at fault. `chunk` writes one event of a stream,
    given the request and the stream's context: None for one that this protocol has no words for.
    `broken` writes a failure after the first event, where that is not an `error` as any other.
    `pause` is how many seconds there are at least between two events of a stream. `late`: what is
    known before the answer goes out with its first piece, and an answer that comes in one piece is
    one event. `forms`: whether a request may be one, with files. `trailer` is what stands behind
    the last event. `notices`: a header tells what was used instead of what was asked for.
    `numbered`: sources are cited by their place, as `[doc1]`.
    """

    media_type: str
    parse: Callable[[Body], ChatRequest]
    streams: Callable[[str, Any], bool]
    answer: Callable[[ChatRequest, Answer], Json]
    chunk: Callable[[ChatRequest, Context, Event], Json | None]
    frame: Callable[[Json], bytes]
    broken: Callable[[ChatError, Any], Json] | None = None
    pause: float = 0
    late: bool = False
    forms: bool = True
    trailer: Callable[[ChatRequest, Answer], list[bytes]] | None = None
    notices: bool = False
    numbered: bool = False


def by_body(_route: str, body: Any) -> bool:
    """The body's `stream` decides whether an answer streams; not where it is missing."""
    return bool(body.get("stream"))
