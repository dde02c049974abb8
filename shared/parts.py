"""The forms that the content of a message may have, and what other servers make of them.

"Common data types: content" of AOG v0.2, whose forms OpenAI's are among.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from shared.chat import ToolCall
from shared.images import kind_of

UNSAYABLE = "holds a number out of the range of numbers"
ADDRESSES = ("https://", "http://", "data:image/")  # what an image's begins with
HEAD = 64  # characters of base64 that tell what an image is


def text_of(part: Any) -> str:
    """The words of a part: empty for an image."""
    if isinstance(part, str):
        return part
    if part["type"] != "text":
        return ""
    said = part["text"]
    return str(said["value"] if isinstance(said, Mapping) else said)


def image_of(part: Any) -> str | None:
    """The address of a part that is an image, a data URL where it came as base64."""
    if isinstance(part, str):
        return None
    if part["type"] == "image_url":
        return str(part["image_url"]["url"])
    return url_of(part["image"]) if part["type"] == "image" else None


def url_of(image: str) -> str:
    """The data URL of an image that came as base64; its kind is told by its first bytes."""
    try:
        head = base64.b64decode(image[:HEAD])
    except binascii.Error:
        head = b""
    return f"data:{kind_of(head) or 'application/octet-stream'};base64,{image}"


def parts_of(given: Mapping[str, Any]) -> Iterator[Any]:
    """The parts of a message, the images beside its content among them."""
    content = given.get("content")
    yield from content if isinstance(content, list) else () if content is None else (content,)
    for image in given.get("images") or ():
        yield {"type": "image", "image": image}


def tool_call(call: ToolCall) -> dict[str, Any]:
    """A call of a tool, as OpenAI's and AOG's messages have it."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def sayable(value: Any) -> bool:
    """Whether it can go back as it came: 1e400 is read as infinity, which JSON cannot say."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
