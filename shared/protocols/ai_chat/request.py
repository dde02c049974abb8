"""Parses requests of the chat protocol. Errors name the path of the field at fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from shared.chat.errors import BadRequest, describe_errors
from shared.chat.messages import NOT_JSON_SAFE, Message, is_json_safe
from shared.chat.overrides import Overrides, is_set
from shared.chat.request import ChatRequest
from shared.http.body import Body
from shared.protocols.ai_chat.images import RequestMessage, read_images
from shared.protocols.context_json import override_path


class _Context(BaseModel, strict=True):
    overrides: dict[str, Any] | None = None


class _Fields(BaseModel, strict=True):
    """The keys of all three versions. Unknown keys are ignored everywhere."""

    # Fail fast: an error for each of a million wrong elements would take seconds and gigabytes.
    messages: list[RequestMessage] = Field(min_length=1, fail_fast=True)
    context: _Context | None = None


def parse(body: Body, state_key: str, flat: bool = False) -> ChatRequest:
    """Read a request. Raises BadRequest that names each key at fault.

    `flat`: overrides may stand right under `context`.
    """
    if not isinstance(body.json, dict):
        raise BadRequest("The body must be a JSON object.")
    try:
        fields = _Fields.model_validate(body.json)
    except ValidationError as failure:
        raise BadRequest(describe_errors(failure, lambda path: path)) from None
    messages = _messages(fields, body.files)
    state = body.json.get(state_key)
    if not is_json_safe(state):
        raise BadRequest(f"{state_key}: {NOT_JSON_SAFE}")
    return ChatRequest(messages, _overrides(body.json, flat), state)


def parse_rag_chat(body: Body, last_only: bool = False) -> ChatRequest:
    """Read a request of the oldest version. Raises BadRequest.

    `last_only`: earlier messages do not count.
    """
    request = parse(body, "session_state", flat=True)
    if not isinstance(body.json.get("stream"), bool | None):
        raise BadRequest("stream: must be true or false")
    return replace(request, messages=request.messages[-1:]) if last_only else request


def _overrides(body: Mapping[str, Any], flat: bool) -> Overrides:
    context = body.get("context") or {}
    inner = context.get("overrides") or {}
    # "In the 004 dialect known clients put the overrides straight under `context`." The `thoughts`
    # there are those of an earlier answer.
    outer = {key: value for key, value in context.items() if key != "thoughts"}
    values = {**outer, **{k: v for k, v in inner.items() if is_set(v)}} if flat else inner
    try:
        return Overrides.model_validate(values)
    except ValidationError as failure:
        message = describe_errors(failure, lambda path: override_path(path, body, flat))
        raise BadRequest(message) from None


def _messages(fields: _Fields, files: Mapping[str, bytes]) -> tuple[Message, ...]:
    images = read_images(fields.messages, files)
    messages = [
        Message(message.role, message.content or "", tuple(images.get(index, ())))
        for index, message in enumerate(fields.messages)
    ]
    last = f"messages[{len(messages) - 1}]"
    if messages[-1].role != "user":
        raise BadRequest(f"{last}.role: the last message must be the user's")
    if not messages[-1].content.strip():
        raise BadRequest(f"{last}.content: must not be empty")
    return tuple(messages)
