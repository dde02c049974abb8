"""Detects image types by their signatures: file names are not reliable."""

from __future__ import annotations

import base64
from collections.abc import Mapping

# The image types that models accept, by their first bytes.
SIGNATURES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def detect_image_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image; None for other data."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((value for start, value in SIGNATURES.items() if data.startswith(start)), None)


def to_data_url(data: bytes) -> str | None:
    """Encode an image as a data URL; None for other data."""
    media_type = detect_image_type(data)
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}" if media_type else None
