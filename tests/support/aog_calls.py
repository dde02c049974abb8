"""Calls of the AOG chat service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.http.call import Call
from tests.support.calls import JSON, BufferedReply, call, read_events

CHAT = "/aog/v0.2/services/{service}"


def aog_call(body: Any, headers: Mapping[str, str] = JSON, **more: Any) -> Call:
    """A call of the AOG chat service."""
    return call(CHAT, body, headers, **{"path": "chat", **more})


def read_text(reply: BufferedReply) -> str:
    """The answer's text in a reply, whole or streamed."""
    objects = read_events(reply) if reply.media_type == "text/event-stream" else [reply.json]
    return "".join(each["message"]["content"] for each in objects)
