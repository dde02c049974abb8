"""Parses requests of the chat protocol. Errors name the path of the field at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from shared.domain.errors import BadRequest
from shared.domain.messages import MAX_MESSAGES, NOT_JSON_SAFE, Message, is_json_safe
from shared.domain.overrides import Overrides, is_set
from shared.domain.request import ChatRequest
from shared.http.body import Body, InvalidField, join_messages, require_object, validate
from shared.protocols.ai_chat.images import RequestMessage, read_images
from shared.protocols.context_json import override_path


class _Context(BaseModel, strict=True):
    overrides: dict[str, Any] | None = None


class CommonFields(BaseModel, strict=True):
    """The keys of all versions. Unknown keys are ignored everywhere."""

    context: _Context | None = None


class _Fields(CommonFields, strict=True):
    # Fail fast: an error for each of a million wrong elements would take seconds and gigabytes.
    messages: list[RequestMessage] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)


def parse(body: Body, state_key: str, flat: bool = False) -> ChatRequest:
    """Read a request. Raises BadRequest that names each key at fault.

    `flat`: overrides may stand right under `context`.
    """
    fields = validate(_Fields, require_object(body.json))
    return make_request(_messages(fields, body.files), body.json, state_key, flat)


def parse_rag_chat(body: Body, last_only: bool = False) -> ChatRequest:
    """Read a request of the oldest version. Raises BadRequest.

    `last_only`: earlier messages do not count.
    """
    request = parse(body, "session_state", flat=True)
    if not isinstance(body.json.get("stream"), bool | None):
        raise BadRequest("stream: must be true or false")
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
