"""Encodes JSON as documents, lines and server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

# Allowed in a JSON string, but line readers split at them.
LINE_SEPARATORS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}


# Made once: `json.dumps` would make one for each line of a stream.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dumps(value: Any) -> bytes:
    """Encode JSON as UTF-8 without any line separator. Raises ValueError for inf and nan."""
    text = _ENCODER.encode(value)
    if not text.isascii():
        for character, escape in LINE_SEPARATORS.items():
            text = text.replace(character, escape)
    return text.encode(errors="replace")  # a model may send lone surrogates


def json_line(value: Json) -> bytes:
    """Encode a line of a stream, with "\\n": clients drop an unterminated last line."""
    return dumps(value) + b"\n"


def server_sent_event(value: Json) -> bytes:
    """Encode a server-sent event with a data line only: some clients support no other."""
    return b"data: " + dumps(value) + b"\n\n"


JSON_LINES_TYPES = ("application/jsonl", "application/json-lines", "application/x-ndjson")


def acceptable_values(accept: str) -> Iterator[str]:
    """Yield what `Accept` or `Accept-Encoding` allows, such as media types, in lower case."""
    for part in re.sub(r"\s", "", accept).lower().split(","):
        if not re.search(r";q=0(?:\.0*)?(?:;|$)", part):
            yield part.partition(";")[0]


def negotiate_media_type(accept: str, default: str) -> str:
    """Return the media type of a stream: for JSON lines the first that `Accept` allows."""
    if default not in JSON_LINES_TYPES:
        return default
    media_types = acceptable_values(accept)
    return next((each for each in media_types if each in JSON_LINES_TYPES), default)
