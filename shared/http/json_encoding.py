"""JSON as bytes: whole, as lines, as server-sent events."""

from __future__ import annotations

import json
import re
from typing import Any

Json = dict[str, Any]

# What JSON allows in a string and readers of lines take for the end of one.
LINE_SEPARATORS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}


def dumps(value: Any) -> bytes:
    """JSON as UTF-8, on one line for every reader of lines. Raises ValueError for inf and nan."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in LINE_SEPARATORS.items():
        text = text.replace(character, escape)
    return text.encode(errors="replace")  # a model may cut a character into lone surrogates


def json_line(value: Json) -> bytes:
    """One line of a stream; "\\n" after every line, since clients drop an unterminated last one."""
    return dumps(value) + b"\n"


def server_sent_event(value: Json) -> bytes:
    """One server-sent event, in one write. No other kind of line: some clients know none."""
    return b"data: " + dumps(value) + b"\n\n"


JSON_LINES_TYPES = ("application/jsonl", "application/json-lines", "application/x-ndjson")


def negotiate_media_type(accept: str, default: str) -> str:
    """The content type of a stream: of lines one that `Accept` names, else the dialect's."""
    if default not in JSON_LINES_TYPES:
        return default
    parts = (re.sub(r"\s", "", part).lower() for part in accept.split(","))
    wanted = (kind for kind in parts if not re.search(r";q=0(?:\.0*)?(?:;|$)", kind))
    asked = (kind.partition(";")[0] for kind in wanted)
    return next((kind for kind in asked if kind in JSON_LINES_TYPES), default)
