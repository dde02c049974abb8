"""Is this a picture? Told by its first bytes alone: a file's name is not sure."""

from __future__ import annotations

import base64
from collections.abc import Mapping

# What models read, and how it begins.
SIGNATURES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def detect_image_type(data: bytes) -> str | None:
    """The media type of a picture that begins so: png, jpeg, gif or webp; None for no picture."""
    kind = next((kind for start, kind in SIGNATURES.items() if data.startswith(start)), None)
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else kind


def to_data_url(data: bytes) -> str | None:
    """A picture as a data URL; None where it is no picture."""
    kind = detect_image_type(data)
    return f"data:{kind};base64,{base64.b64encode(data).decode()}" if kind else None
