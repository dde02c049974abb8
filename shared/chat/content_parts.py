"""The forms that the content of a message may have, and what other servers make of them.

"Common data types: content" of AOG v0.2, whose forms OpenAI's are among.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.chat.image_types import detect_image_type
from shared.chat.messages import ToolCall

NOT_JSON_SAFE = "holds a number out of the range of numbers"
HEAD_LENGTH = 64  # characters of base64 that tell what an image is
MAX_URL_LENGTH = 2000  # characters of an image's URL; a data URL may be longer
# Narrower than RFC 3986: what two parsers could read as two hosts does not match. Nor does an IP
# address in any form, since the last label is letters, or an encoded one (xn--).
LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
TOP_LABEL = "[A-Za-z]{2,63}|[Xx][Nn]--[A-Za-z0-9-]{0,58}[A-Za-z0-9]"
PUBLIC_URL = re.compile(
    rf"https?://(?=[^:/]{{1,253}}(?:[:/]|$))(?:{LABEL}\.)+(?P<top>{TOP_LABEL})"
    r"(?::[1-9][0-9]{0,4})?(?:/[!-\[\]-~]*)?"
)
# RFC 6761, 6762 (appendix G), 7686, 8375 (home.arpa), and what networks commonly use beside them.
LOCAL_DOMAINS = frozenset(
    "localhost test invalid example local internal intranet private corp home lan arpa onion "
    "localdomain svc".split()
)
NOT_PUBLIC = (
    "must name a public host, such as https://example.com/picture.png: the model's server fetches "
    "it, so IP addresses, local names and user names are refused; a path begins with / and is "
    "percent-encoded ASCII"
)


def part_text(part: Any) -> str:
    """The words of a part: empty for an image."""
    if isinstance(part, str):
        return part
    if part["type"] != "text":
        return ""
    said = part["text"]
    return str(said["value"] if isinstance(said, Mapping) else said)


def part_image_url(part: Any) -> str | None:
    """The address of a part that is an image, a data URL where it came as base64."""
    if isinstance(part, str):
        return None
    if part["type"] == "image_url":
        return str(part["image_url"]["url"])
    return base64_to_data_url(part["image"]) if part["type"] == "image" else None


def check_image_url(url: str) -> None:
    """Raise ValueError for what is neither a data URL of an image nor on a public host.

    The model's server fetches the URL: one of its own network would be read from inside of it.
    """
    if url.startswith("data:image/"):
        return
    if not url.startswith(("https://", "http://")):
        raise ValueError("must begin with https://, http:// or data:image/")
    if len(url) > MAX_URL_LENGTH:
        raise ValueError(f"must have {MAX_URL_LENGTH} characters at most, or be a data URL")
    matched = PUBLIC_URL.fullmatch(url)
    if matched is None or matched["top"].lower() in LOCAL_DOMAINS:
        raise ValueError(NOT_PUBLIC)


def base64_to_data_url(image: str) -> str:
    """The data URL of an image that came as base64; its kind is told by its first bytes."""
    try:
        head = base64.b64decode(image[:HEAD_LENGTH])
    except binascii.Error:
        head = b""
    return f"data:{detect_image_type(head) or 'application/octet-stream'};base64,{image}"


def iterate_parts(given: Mapping[str, Any]) -> Iterator[Any]:
    """The parts of a message, the images beside its content among them."""
    content = given.get("content")
    yield from content if isinstance(content, list) else () if content is None else (content,)
    for image in given.get("images") or ():
        yield {"type": "image", "image": image}


def tool_call_json(call: ToolCall) -> dict[str, Any]:
    """A call of a tool, as OpenAI's and AOG's messages have it."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def is_json_safe(value: Any) -> bool:
    """Whether it can go back as it came: 1e400 is read as infinity, which JSON cannot say."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
