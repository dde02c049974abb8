"""Questions of the AI SDK that contain documents, and what became of these."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

from tests.support.calls import ANNA, PNG_URL, BufferedReply, ask, call, read_events
from tests.support.input_files import QUESTION, TEXT, Files

ROUTE = "/api/chat"
IMAGE = {"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": PNG_URL}


def document(name: str = "animals.md", text: str = TEXT, kind: str = "text/markdown") -> Any:
    """A part as the SDK makes it of a file."""
    url = f"data:{kind};base64,{b64encode(text.encode()).decode()}"
    return {"type": "file", "mediaType": kind, "filename": name, "url": url}


def message(role: str, text: str, *parts: Any) -> Any:
    """A message with a text behind its other parts."""
    return {"role": role, "parts": [*parts, {"type": "text", "text": text}]}


def question(*parts: Any) -> Any:
    """The body of a question."""
    return {"messages": [message("user", QUESTION, *parts)]}


def send(files: Files, body: Any, headers: dict[str, str] = ANNA) -> BufferedReply:
    """The reply to a question."""
    return ask(call(ROUTE, body, headers), files.app)


def answer(files: Files, body: Any, headers: dict[str, str] = ANNA) -> list[Any]:
    """The events of an answer."""
    return events_of(send(files, body, headers))


def events_of(reply: BufferedReply) -> list[Any]:
    """The events of a reply that is an answer."""
    assert reply.status == 200, reply.data
    return read_events(replace(reply, data=reply.data.removesuffix(b"data: [DONE]\n\n")))


def names(files: Files, owner: str = "anna") -> list[str]:
    """The names of a user's uploads."""
    return [upload.name for upload in files.uploads.uploads_of(owner)]
