"""Parses the requests of OpenAI's and Azure OpenAI's chat completions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from shared.domain.errors import BadRequest
from shared.domain.messages import (
    MAX_MESSAGES,
    NOT_JSON_SAFE,
    Message,
    Role,
    check_image_url,
    is_json_safe,
    tool_call_json,
)
from shared.domain.overrides import ModelName, Overrides, WholeNumber
from shared.domain.request import ChatRequest, GenerationOptions
from shared.http.body import Body, InvalidField, require_object, validate
from shared.http.call import Json
from shared.protocols import message_json
from shared.protocols.message_json import FAST, ContentPart, RequestToolCall, ToolChoice
from shared.protocols.openai.data_sources import AzureSearchSource, DataSource, apply_data_source
from shared.protocols.openai.file_parts import InputFile, parse_file, split_files

# Parameters that are sent to the model unchanged, if it supports them.
PARAMETERS = (
    *("top_p", "stop", "tool_choice", "parallel_tool_calls", "response_format"),
    *("frequency_penalty", "presence_penalty", "reasoning_effort"),
)
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
ORPHANS_DROPPED = "tool messages without a tool_call_id were left out: they answer no call."
CONTENT = re.compile(r"messages\[\d+\]\.content\b")
CITATION = re.compile(r" ?\[doc\d{1,3}\]", re.ASCII)
LINK_DEFINITIONS = re.compile(r"(?:\[doc\d{1,3}\]: <[^\s<>]*>\n?)+", re.ASCII)


class _Url(BaseModel, strict=True):
    url: Annotated[str, AfterValidator(check_image_url)]
    detail: str | None = Field(default=None, max_length=20)


class _Part(ContentPart):
    type: Literal["text", "image_url", "refusal", "file"]
    image_url: _Url | None = None
    file: InputFile | None = None


def _to_parts(content: Any) -> Any:
    return [message_json.format_text(content)] if isinstance(content, str) else content


class _Message(BaseModel, strict=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[
        Annotated[list[_Part], FAST] | None,
        BeforeValidator(_to_parts, json_schema_input_type=str | list[_Part] | None),
    ] = None
    tool_calls: Annotated[list[RequestToolCall], FAST] | None = None
    tool_call_id: str | None = None
    name: str | None = Field(default=None, max_length=200)


class _Function(BaseModel, strict=True):
    name: str = Field(min_length=1)


class _Tool(BaseModel, strict=True):
    type: Literal["function"]
    function: _Function


def _describe_parameters(schema: dict[str, Any]) -> None:
    """Add the parameters that the model's server checks to a JSON schema."""
    for name in PARAMETERS:
        schema["properties"].setdefault(
            name, {"description": "Sent to the model unchanged, if it supports it."}
        )


class _StreamOptions(BaseModel, strict=True):
    include_usage: bool | None = None


class _Fields(BaseModel, strict=True):
    """The known fields. null means "missing" everywhere, unknown fields are ignored."""

    model_config = ConfigDict(json_schema_extra=_describe_parameters)

    messages: list[_Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    model: ModelName | None = None
    tools: Annotated[list[_Tool], Field(fail_fast=True, max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: WholeNumber | None = Field(default=None, ge=-(2**63), lt=2**63)
    max_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)
    max_completion_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)
    n: WholeNumber | None = Field(default=None, ge=1, description="Only 1: there is one answer.")
    logprobs: bool | None = Field(default=None, description="Only false.")
    data_sources: Annotated[list[AzureSearchSource], Field(max_length=1)] | None = None


@dataclass(frozen=True, slots=True)
class RequestState:
    """What the routes and a response need of the request."""

    include_usage: bool  # whether a stream ends with the usage
    include_contexts: Sequence[str] = ("citations", "intent")  # keys of the `context`
    data_source: DataSource | None = None  # is checked by the deployment
    links_citations: bool = False  # whether each citation in the text is a link, in Markdown


class FieldError(BadRequest):
    """An error of one field, whose `field` is its path in the client's request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, field=field)


def parse(body: Body) -> ChatRequest:
    """Parse a request. Raises BadRequest that names the field at fault."""
    body_json = require_json_safe(body.json)
    fields = validate(_Fields, body_json, fail=_field_error)
    _check(fields, body_json)
    message_json.check_tools(body)
    messages = tuple(
        _parse_message(f"messages[{i}]", each, body_json["messages"][i])
        for i, each in enumerate(fields.messages)
    )
    _check_last(messages)
    answerable = tuple(each for each in messages if not _is_orphan_tool_message(each))
    overrides = Overrides(
        temperature=fields.temperature, seed=fields.seed, model=fields.model or None
    )
    request = ChatRequest(
        answerable,
        overrides,
        RequestState(bool(fields.stream_options and fields.stream_options.include_usage)),
        generation=_generation_options(fields, body_json),
        notes=() if len(answerable) == len(messages) else (ORPHANS_DROPPED,),
    )
    if fields.data_sources:
        request = apply_data_source(request, fields.data_sources[0])
    return request


def require_json_safe(value: Any) -> dict[str, Any]:
    """Return a body that is an object and can be encoded again. Raises BadRequest."""
    body_json = require_object(value)
    for key, field in body_json.items():
        if not is_json_safe(field):
            raise FieldError(f"{key:.60}", NOT_JSON_SAFE)
    return body_json


def _field_error(fields: Sequence[InvalidField]) -> FieldError:
    content = CONTENT.match(fields[0].path)
    # Of the wrong fields of a part, the last one is named.
    last = [each for each in fields if content and each.path.startswith(content[0])]
    field = (last or fields[:1])[-1]
    return FieldError(field.path, field.message)


def _check(fields: _Fields, body_json: Mapping[str, Any]) -> None:
    if (fields.n or 1) > 1:
        raise FieldError("n", "must be 1: there is one answer")
    if fields.logprobs or body_json.get("top_logprobs"):
        raise FieldError("logprobs", "are not given here")
    if body_json.get("functions"):
        raise FieldError("functions", "are not read here: offer them as tools")
    if body_json.get("dataSources"):  # a filter in it must not be left out
        raise FieldError("dataSources", "are not read here: send data_sources, as since 2024")


def _is_orphan_tool_message(message: Message) -> bool:
    """Return whether it is a tool's message that answers no call: models reject it.

    The sample app of On Your Data sends the `context` of its earlier answers in such messages.
    """
    raw = message.raw or {}
    return message.role == "tool" and not message.tool_call_id and "name" not in raw


def _check_last(messages: tuple[Message, ...]) -> None:
    if not any(message.role == "user" and message.content.strip() for message in messages):
        raise FieldError("messages", "at least one must be the user's, with a text")
    last = f"messages[{len(messages) - 1}]"
    if messages[-1].role not in ("user", "tool"):
        raise FieldError(f"{last}.role", "the last one is the user's or a tool's")
    if _is_orphan_tool_message(messages[-1]):
        raise FieldError(f"{last}.tool_call_id", "is required")


def _generation_options(fields: _Fields, body_json: Mapping[str, Any]) -> GenerationOptions:
    parameters = {key: body_json[key] for key in PARAMETERS if body_json.get(key) is not None}
    if max_tokens := fields.max_completion_tokens or fields.max_tokens:
        parameters["max_tokens"] = max_tokens
    return GenerationOptions(tuple(body_json.get("tools") or ()), parameters)


def _parse_message(path: str, message: _Message, sent: Json) -> Message:
    """Return a message, as it was `sent`. Only its known fields go to the model."""
    role = ROLES[message.role]
    parts = [
        _parse_part(f"{path}.content[{i}]", part) for i, part in enumerate(message.content or ())
    ]
    parts, files = split_files(role, parts)
    if role == "assistant":
        parts = [_without_citations(part) for part in parts]
    calls = message_json.parse_tool_calls(message.tool_calls)
    is_text = isinstance(sent.get("content"), str)
    content = parts[0]["text"] if is_text else parts or None
    raw = {
        "content": content if content is not None or calls else "",
        "name": message.name,
        "tool_calls": [tool_call_json(call) for call in calls] or None,
        "tool_call_id": message.tool_call_id,
    }
    present = {key: value for key, value in raw.items() if value is not None}
    return Message(
        role=role,
        content=message_json.join_texts(parts),
        images=message_json.image_urls(parts),
        files=files,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
        raw={"role": role, **present},
    )


def _parse_part(path: str, part: _Part) -> Json:
    if part.type == "file":
        return parse_file(f"{path}.file", part.file or InputFile())
    return message_json.parse_part(path, part, FieldError)


def _without_citations(part: Json) -> Json:
    """Return a part of an earlier answer without its `[docN]`, which number other sources.

    Their links, which `CITATION_LINKS` adds, go with them.
    """
    text = part.get("text")
    if text is None:
        return part
    before, _, last = text.rpartition("\n\n")
    text = before if LINK_DEFINITIONS.fullmatch(last) else text
    return {**part, "text": CITATION.sub("", text)}
