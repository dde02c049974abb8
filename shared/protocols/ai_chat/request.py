"""Parses requests of the chat protocol. Errors name the path of the field at fault."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from operator import eq
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from shared.domain.errors import BadRequest
from shared.domain.messages import MAX_MESSAGES, NOT_JSON_SAFE, Message, is_json_safe, to_data_url
from shared.domain.overrides import Overrides, OverridesJson, is_set
from shared.domain.request import ChatRequest
from shared.http.body import Body, InvalidField, join_messages, require_object, validate
from shared.protocols.context_json import override_path
from shared.protocols.message_json import FAST

PART = re.compile(r"messages\[(\d{1,6})\]\.files\[(\d{1,6})\]")
MAX_FILES = 200  # in the JSON of a request: as many as a form has parts
NO_IMAGE = "must be an image (png, jpeg, gif or webp)"
NO_JSON_IMAGE = f"{NO_IMAGE}, with its bytes in data, as base64 or as an array of numbers"


class RequestFile(BaseModel, strict=True):
    """A file in JSON. Its first bytes tell its type, not its `contentType`."""

    data: Any = Field(
        default=None,
        description="An image, as base64, a data URL, an array of numbers, or JavaScript's form "
        "of one.",
    )


class RequestMessage(BaseModel, strict=True):
    """A message of a request."""

    role: Literal["user", "assistant", "system"]
    content: str | None = None
    files: Annotated[list[RequestFile], FAST] | None = None


class _RequestContext(BaseModel, strict=True):
    overrides: OverridesJson | None = None


State = Annotated[
    Any, Field(description="Comes back unchanged. `conversation_id` in it names a stored chat.")
]


class CommonFields(BaseModel, strict=True):
    """The keys of all versions. Unknown keys are ignored everywhere."""

    context: _RequestContext | None = None
    session_state: State = None


class _Fields(CommonFields, strict=True):
    # Fail fast: an error for each of a million wrong elements would take seconds and gigabytes.
    messages: list[RequestMessage] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    sessionState: State = None


class _StreamFields(_Fields, strict=True):
    stream: bool | None = None


def parse(
    body: Body, state_key: str, flat: bool = False, model: type[_Fields] = _Fields
) -> ChatRequest:
    """Read a request. Raises BadRequest that names each key at fault.

    `flat`: overrides may stand right under `context`.
    """
    fields = validate(model, require_object(body.json))
    return make_request(_messages(fields, body.files), body.json, state_key, flat)


def parse_rag_chat(body: Body, last_only: bool = False) -> ChatRequest:
    """Read a request of the oldest version. Raises BadRequest.

    `last_only`: earlier messages do not count.
    """
    request = parse(body, "session_state", flat=True, model=_StreamFields)
    return replace(request, messages=request.messages[-1:]) if last_only else request


def make_request(
    messages: tuple[Message, ...], body: Mapping[str, Any], state_key: str, flat: bool = False
) -> ChatRequest:
    """Return a request with the overrides and the state of its body. Raises BadRequest."""
    state = body.get(state_key)
    if not is_json_safe(state):
        raise BadRequest(f"{state_key}: {NOT_JSON_SAFE}")
    return ChatRequest(messages, _overrides(body, flat), state)


def check_question(path: str, message: Message) -> None:
    """Raise BadRequest unless the last message, at `path`, is a question of the user's."""
    if message.role != "user":
        raise BadRequest(f"{path}.role: the last message must be the user's")
    if not message.content.strip():
        raise BadRequest(f"{path}.content: must not be empty")


def _overrides(body: Mapping[str, Any], flat: bool) -> Overrides:
    context = body.get("context") or {}
    inner = context.get("overrides") or {}
    # "In the 004 dialect known clients put the overrides straight under `context`." The `thoughts`
    # there are those of an earlier answer.
    outer = {key: value for key, value in context.items() if key != "thoughts"}
    values = {**outer, **{k: v for k, v in inner.items() if is_set(v)}} if flat else inner

    def fail(fields: Sequence[InvalidField]) -> BadRequest:
        return join_messages(
            [replace(each, path=override_path(each.path, body, flat)) for each in fields]
        )

    return validate(Overrides, values, fail=fail)


def _messages(fields: _Fields, files: Mapping[str, bytes]) -> tuple[Message, ...]:
    images = read_images(fields.messages, files)
    messages = [
        Message(message.role, message.content or "", tuple(images.get(index, ())))
        for index, message in enumerate(fields.messages)
    ]
    check_question(f"messages[{len(messages) - 1}]", messages[-1])
    return tuple(messages)


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
