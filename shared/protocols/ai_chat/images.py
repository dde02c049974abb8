"""Reads the images of a request: `files` in the JSON of its messages, and parts of a form."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from operator import eq
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from shared.domain.errors import BadRequest
from shared.domain.messages import to_data_url
from shared.protocols.message_json import FAST

PART = re.compile(r"messages\[(\d{1,6})\]\.files\[(\d{1,6})\]")
MAX_FILES = 200  # in the JSON of a request: as many as a form has parts
NO_IMAGE = "must be an image (png, jpeg, gif or webp)"
NO_JSON_IMAGE = f"{NO_IMAGE}, with its bytes in data, as base64 or as an array of numbers"


class RequestFile(BaseModel, strict=True):
    """A file in JSON. Its first bytes tell its type, not its `contentType`."""

    data: Any = None


class RequestMessage(BaseModel, strict=True):
    """A message of a request."""

    role: Literal["user", "assistant", "system"]
    content: str | None = None
    files: Annotated[list[RequestFile], FAST] | None = None


def read_images(
    messages: Sequence[RequestMessage], parts: Mapping[str, bytes]
) -> Mapping[int, Sequence[str]]:
    """Return the data URLs of the images by the index of their message, in their own order.

    Form parts of other names are ignored, as unknown keys are.
    Raises BadRequest that names the file: no such message, not the user's, no image, too many.
    """
    urls = defaultdict[int, list[str]](list)
    files = [(index, file) for index, each in enumerate(messages) for file in each.files or ()]
    if len(files) > MAX_FILES:
        last = files[MAX_FILES][0]
        raise BadRequest(f"messages[{last}].files: a request has {MAX_FILES} files at most")
    for index, file in files:
        name = f"messages[{index}].files[{len(urls[index])}]"
        _check_role(name, messages[index])
        urls[index].append(_data_url(name, _decode(file.data), NO_JSON_IMAGE))
    names = [name for name in parts if name.startswith("messages")]
    for index, _, name in sorted((*_place(name, len(messages)), name) for name in names):
        _check_role(name, messages[index])
        urls[index].append(_data_url(name, parts[name], NO_IMAGE))
    return urls


def _place(name: str, count: int) -> tuple[int, int]:
    part = PART.fullmatch(name)
    if part is None or int(part[1]) >= count:
        raise BadRequest(f"{name}: there is no such message")
    return int(part[1]), int(part[2])


def _check_role(name: str, message: RequestMessage) -> None:
    if message.role != "user":
        raise BadRequest(f"{name}: only a message of the user can have files")


def _data_url(name: str, data: bytes, error: str) -> str:
    url = to_data_url(data)
    if url is None:
        raise BadRequest(f"{name}: {error}")
    return url


def _decode(data: Any) -> bytes:
    """Return the bytes of base64, of a data URL or of an array; none for anything else."""
    try:
        if isinstance(data, str):
            return base64.b64decode(data.rpartition(";base64,")[2], validate=True)
        return bytes(_array(data))
    except (TypeError, ValueError):
        return b""


def _array(data: Any) -> Sequence[Any]:
    """Return the elements of an array, in each form that JavaScript gives it in JSON.

    A typed array is an object with its indices as keys, and Node's Buffer has them in `data`.
    """
    if isinstance(data, dict) and data.get("type") == "Buffer":
        data = data.get("data")
    if isinstance(data, dict) and all(map(eq, data, map(str, count()))):
        return list(data.values())
    return data if isinstance(data, list) else ()
