"""The images of a form: parts named `messages[i].files[j]` go with message i, as data URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared.chat.errors import BadRequest
from shared.chat.image_types import to_data_url

PART = re.compile(r"messages\[(\d{1,6})\]\.files\[(\d{1,6})\]")


def images(files: Mapping[str, bytes], roles: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """The data URLs of a form's images by the index of their message, in their own order.

    `roles` are the messages', in order. Parts of other names are ignored, as unknown keys are.
    Raises BadRequest that names the part: no such message, not the user's, no image.
    """
    by_message: dict[int, list[tuple[int, str]]] = {}
    for name, data in files.items():
        if name.startswith("messages"):
            message, file = _place(name, roles)
            by_message.setdefault(message, []).append((file, _data_url(name, data)))
    return {message: tuple(url for _, url in sorted(urls)) for message, urls in by_message.items()}


def _place(name: str, roles: Sequence[str]) -> tuple[int, int]:
    part = PART.fullmatch(name)
    if part is None or int(part[1]) >= len(roles):
        raise BadRequest(f"{name}: there is no such message")
    if roles[int(part[1])] != "user":
        raise BadRequest(f"{name}: only a message of the user can have files")
    return int(part[1]), int(part[2])


def _data_url(name: str, data: bytes) -> str:
    url = to_data_url(data)
    if url is None:
        raise BadRequest(f"{name}: must be an image (png, jpeg, gif or webp)")
    return url
