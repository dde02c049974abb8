"""The messages of a conversation, their content parts and the types of their images."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_json

Role = Literal["system", "user", "assistant", "tool"]
MAX_MESSAGES = 10_000  # of a request: more of them would hold up other requests


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool, or a part of one."""

    index: int  # identifies the call
    id: str | None = None  # of the first part, as the name
    name: str | None = None
    arguments: str = ""  # the model's text, JSON or not: parts are concatenated


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file that a message names by its id, or contains."""

    id: str  # empty for one that the message contains
    field: str  # its place in the request
    name: str = ""  # of one that the message contains
    data: str = ""  # its content, in base64


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat."""

    role: Role
    content: str
    images: tuple[str, ...] = ()  # URLs; data URLs for uploads
    files: tuple[FileReference, ...] = ()  # uploads of the user
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None  # the call that a tool's message answers
    # The client's original message, for a model that accepts it unchanged.
    raw: Mapping[str, Any] | None = None


def tool_call_json(call: ToolCall) -> dict[str, Any]:
    """Make the JSON of a tool call, as in OpenAI's and AOG's messages."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def iterate_parts(message: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the parts of a message's `content` and its `images`."""
    content = message.get("content")
    yield from content if isinstance(content, list) else () if content is None else (content,)
    for image in message.get("images") or ():
        yield {"type": "image", "image": image}


def part_text(part: Any) -> str:
    """Return the text of a part: empty for an image."""
    if isinstance(part, str):
        return part
    if part["type"] != "text":
        return ""
    text = part["text"]
    return str(text["value"] if isinstance(text, Mapping) else text)


def part_image_url(part: Any) -> str | None:
    """Return the URL of an image part, a data URL for base64; None for text."""
    if isinstance(part, str):
        return None
    if part["type"] == "image_url":
        return str(part["image_url"]["url"])
    return base64_to_data_url(part["image"]) if part["type"] == "image" else None


# The image types that models accept, by their first bytes.
SIGNATURES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
HEAD_LENGTH = 64  # characters of base64 that hold an image's signature


def detect_image_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image; None for other data."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((value for start, value in SIGNATURES.items() if data.startswith(start)), None)


def to_data_url(data: bytes) -> str | None:
    """Encode an image as a data URL; None for other data."""
    media_type = detect_image_type(data)
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}" if media_type else None


def base64_to_data_url(image: str) -> str:
    """Make a data URL of a base64 image, with the media type of its signature."""
    try:
        head = base64.b64decode(image[:HEAD_LENGTH])
    except binascii.Error:
        head = b""
    return f"data:{detect_image_type(head) or 'application/octet-stream'};base64,{image}"


MAX_URL_LENGTH = 2000  # characters of an image's URL; a data URL may be longer
# Stricter than RFC 3986: no URL matches in which two parsers could see different hosts. No form of
# an IP address matches either: the last label must be letters, or punycode (xn--).
LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
TOP_LABEL = "[A-Za-z]{2,63}|[Xx][Nn]--[A-Za-z0-9-]{0,58}[A-Za-z0-9]"
PUBLIC_URL = re.compile(
    rf"https?://(?=[^:/]{{1,253}}(?:[:/]|$))(?:{LABEL}\.)+(?P<top>{TOP_LABEL})"
    r"(?::[1-9][0-9]{0,4})?(?:/[!-\[\]-~]*)?"
)
# RFC 6761, 6762 (appendix G), 7686, 8375 (home.arpa), and other names common in private networks.
LOCAL_DOMAINS = frozenset(
    "localhost test invalid example local internal intranet private corp home lan arpa onion "
    "localdomain svc".split()
)
NOT_PUBLIC = (
    "must name a public host, such as https://example.com/picture.png: the model's server fetches "
    "it, so IP addresses, local names and user names are refused; a path begins with / and is "
    "percent-encoded ASCII"
)


def check_image_url(url: str) -> str:
    """Return `url`. Raises ValueError unless it is a data URL of an image, or on a public host.

    The model's server fetches the URL, so a private host would allow request forgery (SSRF).
    """
    if url.startswith("data:image/"):
        return url
    if not url.startswith(("https://", "http://")):
        raise ValueError("must begin with https://, http:// or data:image/")
    if len(url) > MAX_URL_LENGTH:
        raise ValueError(f"must have {MAX_URL_LENGTH} characters at most, or be a data URL")
    match = PUBLIC_URL.fullmatch(url)
    if match is None or match["top"].lower() in LOCAL_DOMAINS:
        raise ValueError(NOT_PUBLIC)
    return url


NOT_JSON_SAFE = "contains a number out of range"


def is_json_safe(value: Any) -> bool:
    """Whether a parsed value can be encoded as JSON: 1e400 is parsed as infinity, which cannot."""
    if isinstance(value, str | int):
        return True
    quick = to_json(value)
    if b"Infinity" not in quick and b"NaN" not in quick:  # a text may have these words, too
        return True
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
