"""Parses a request of the AOG v0.2 chat service, with every form that content may have.

"Common data types", "Message", "Tools" and "Common fields of a request body" of the document.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from shared.domain import messages as chat_messages
from shared.domain.errors import BadRequest
from shared.domain.messages import MAX_MESSAGES, NOT_JSON_SAFE, Message, is_json_safe
from shared.domain.overrides import ModelName, Overrides, Policy, WholeNumber
from shared.domain.request import ChatRequest, GenerationOptions
from shared.http.body import Body, require_object, validate
from shared.http.call import Json
from shared.protocols import message_json
from shared.protocols.message_json import FAST, RequestToolCall, ToolChoice

POLICIES = get_args(Policy)


class BadPolicy(BadRequest):
    """The hybrid_policy is none of the three."""


# Forms that are checked by hand.
PART = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"type": {"enum": ["text", "image_url", "image"]}},
            "required": ["type"],
        },
    ]
}
CONTENT = {"anyOf": [PART, {"type": "array", "items": PART}, {"type": "null"}]}
STOP = {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}]}


class _Function(BaseModel, strict=True):
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(BaseModel, strict=True):
    type: Literal["function"]
    function: _Function


class _ToolCall(RequestToolCall):
    type: Literal["function"]


class _Message(BaseModel, strict=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[Any, WithJsonSchema(CONTENT)] = None
    name: str | None = None
    images: Annotated[list[str], FAST] | None = None
    tool_calls: Annotated[list[_ToolCall], FAST] | None = None
    tool_call_id: str | None = None


def _chat_model(model: Any) -> Any:
    """ "A JSON object, to name the model of each service that is used": ours is `chat`."""
    return model.get("chat") if isinstance(model, Mapping) else model


class _Fields(BaseModel, strict=True):
    """The known fields. null means "missing", unknown fields go to the provider."""

    messages: list[_Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    tools: Annotated[list[_Tool], Field(fail_fast=True, max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    model: Annotated[
        ModelName | None,
        BeforeValidator(
            _chat_model, json_schema_input_type=ModelName | dict[str, ModelName | None] | None
        ),
    ] = None
    stream: bool | None = None
    retrieval: bool | None = None
    seed: WholeNumber | None = Field(default=None, ge=-(2**63), lt=2**63)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)
    # These are checked by hand.
    stop: Annotated[Any, WithJsonSchema(STOP)] = None
    keep_alive: Annotated[Any, WithJsonSchema({"type": ["string", "number", "null"]})] = None
    hybrid_policy: Annotated[Any, WithJsonSchema({"enum": [*POLICIES, None]})] = None
    remote_service_provider: Annotated[
        Any, WithJsonSchema({"type": ["string", "object", "null"]})
    ] = None


# Fields that are not parameters of the model: the provider does not get them as they are.
NO_PARAMETERS = {
    *("messages", "tools", "model", "stream", "seed", "temperature"),
    *("hybrid_policy", "remote_service_provider"),
}


def parse(body: Body) -> ChatRequest:
    """Parse a request. Raises BadRequest that names the field at fault, BadPolicy."""
    body_json = require_object(body.json)
    policy = _parse_policy(body_json.get("hybrid_policy"))
    fields = validate(_Fields, body_json)
    _check_json_safe(body_json)
    parameters = _parse_parameters(body_json)
    message_json.check_tools(body)
    messages = _parse_messages(fields.messages, body_json["messages"])
    overrides = Overrides(
        temperature=fields.temperature,
        seed=fields.seed,
        hybrid_policy=policy,
        model=fields.model or None,
    )
    return ChatRequest(
        messages,
        overrides,
        grounding="none" if fields.retrieval is False else "required",
        generation=GenerationOptions(tuple(body_json.get("tools") or ()), parameters),
        remote=_parse_remote(body_json.get("remote_service_provider")),
    )


def _parse_policy(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in POLICIES):
        return value
    raise BadPolicy(f"hybrid_policy: must be one of {', '.join(POLICIES)}")


def _check_json_safe(body_json: Json) -> None:
    """Raise BadRequest for a field, other than the messages, that no JSON can have."""
    for key, value in body_json.items():
        if key != "messages" and not is_json_safe(value):
            raise BadRequest(f"{key:.60}: {NOT_JSON_SAFE}")


def _parse_parameters(body_json: Json) -> Json:
    """Return the parameters for the model, unknown ones too. Raises BadRequest."""
    parameters = {
        key: value
        for key, value in body_json.items()
        if key not in NO_PARAMETERS and value is not None
    }
    stop, keep_alive = parameters.get("stop", ""), parameters.get("keep_alive", "")
    stops = stop if isinstance(stop, list) else [stop]
    if len(stops) > 16 or not all(isinstance(each, str) for each in stops):
        raise BadRequest("stop: must be a string, or a list of 16 at most")
    if not isinstance(keep_alive, str | int | float) or isinstance(keep_alive, bool):
        raise BadRequest('keep_alive: must be a time such as "5m", or a number of seconds')
    return parameters


def _parse_remote(value: Any) -> str | Mapping[str, Any] | None:
    if value is None or isinstance(value, str | dict):
        return None if value == "" else value
    raise BadRequest("remote_service_provider: must be a name, or an object")


def _parse_messages(messages: list[_Message], raw: list[Json]) -> tuple[Message, ...]:
    parsed = tuple(
        _parse_message(f"messages[{index}]", message, raw[index])
        for index, message in enumerate(messages)
    )
    if not any(message.role == "user" and message.content.strip() for message in parsed):
        raise BadRequest("messages: at least one must be the user's, with a text")
    return parsed


def _parse_message(path: str, message: _Message, raw: Json) -> Message:
    if message.role == "tool" and not message.tool_call_id:
        raise BadRequest(f"{path}.tool_call_id: is required in a message of the role tool")
    _check_content(f"{path}.content", message)
    for index, image in enumerate(message.images or ()):
        _check_base64(f"{path}.images[{index}]", image)
    if not is_json_safe(raw):
        raise BadRequest(f"{path}: {NOT_JSON_SAFE}")
    parts = list(chat_messages.iterate_parts(raw))
    texts = [chat_messages.part_text(part) for part in parts]
    urls = [chat_messages.part_image_url(part) for part in parts]
    return Message(
        role=message.role,
        content="\n".join(text for text in texts if text),
        images=tuple(url for url in urls if url is not None),
        tool_calls=message_json.parse_tool_calls(message.tool_calls),
        tool_call_id=message.tool_call_id,
        raw=raw,
    )


def _check_content(path: str, message: _Message) -> None:
    """Raise BadRequest for content of an unknown form, and where there must be some."""
    content = message.content
    if content is None or content == []:
        if not (message.role == "assistant" and message.tool_calls):
            raise BadRequest(f"{path}: is required")
    elif isinstance(content, list):
        for index, part in enumerate(content):
            _check_part(f"{path}[{index}]", part)
    else:
        _check_part(path, content)


def _check_part(path: str, part: Any) -> None:
    """Check one of the forms of "Content"; `image_file` is on that document's roadmap only."""
    match part:
        case str() | {"type": "text", "text": str() | {"value": str()}}:
            return
        case {"type": "text"}:
            raise BadRequest(f"{path}.text: must be a string, or an object with a value")
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            _check_url(f"{path}.image_url.url", url)
        case {"type": "image_url"}:
            raise BadRequest(f"{path}.image_url: must be an object with a url")
        case {"type": "image"}:
            _check_base64(f"{path}.image", part.get("image"))
        case {"type": "image_file"}:
            raise BadRequest(f"{path}: image_file is not supported: use image or image_url")
        case dict():
            raise BadRequest(f"{path}.type: must be one of text, image_url, image")
        case _:
            raise BadRequest(f"{path}: must be a string, an object, or a list of these")


def _check_url(path: str, url: str) -> None:
    try:
        chat_messages.check_image_url(url)
    except ValueError as error:
        raise BadRequest(f"{path}: {error}") from None


def _check_base64(path: str, image: Any) -> None:
    try:
        if isinstance(image, str) and base64.b64decode(image, validate=True):
            return
    except ValueError:
        pass
    raise BadRequest(f"{path}: must be an image in base64")
