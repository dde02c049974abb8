"""A chat completion's request, as OpenAI's and Azure OpenAI's clients send it, read from JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from shared.chat.content_parts import NOT_JSON_SAFE, check_image_url, is_json_safe, tool_call_json
from shared.chat.errors import BadRequest
from shared.chat.messages import Message, Role
from shared.chat.overrides import ModelName, Overrides, WholeNumber
from shared.chat.request import ChatRequest, GenerationOptions, SearchOptions
from shared.chat.validation_messages import describe_error
from shared.http.body import Body
from shared.http.json_encoding import Json
from shared.protocols import tool_calls as tools
from shared.protocols.openai.data_sources import CONTEXTS, AzureSearchSource
from shared.protocols.tool_calls import FAST, FunctionCall

# What goes to the model as it is, where the model takes it.
OPTIONS = (
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
ANSWER_NOTHING = "tool messages without a tool_call_id were left out: they answer no call."
NUMBERED = re.compile(r" ?\[doc\d{1,3}\]", re.ASCII)


def _address(url: str) -> str:
    check_image_url(url)
    return url


class _Url(BaseModel):
    model_config = ConfigDict(strict=True)
    url: Annotated[str, AfterValidator(_address)]
    detail: str | None = Field(default=None, max_length=20)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)
    type: Literal["text", "image_url", "refusal"]
    text: str | None = None
    refusal: str | None = None
    image_url: _Url | None = None


class _Call(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str = Field(min_length=1)
    type: Literal["function"] | None = None
    function: FunctionCall


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[_Part], FAST] | None = None
    tool_calls: Annotated[list[_Call], FAST] | None = None
    tool_call_id: str | None = None
    name: str | None = Field(default=None, max_length=200)


class _Function(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str = Field(min_length=1)


class _Tool(BaseModel):
    model_config = ConfigDict(strict=True)
    type: Literal["function"]
    function: _Function


class _StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True)
    include_usage: bool | None = None


class _Frame(BaseModel):
    """The fields that are known. null is "missing" everywhere, unknown fields are ignored."""

    model_config = ConfigDict(strict=True)
    messages: list[_Message] = Field(min_length=1, fail_fast=True)
    model: ModelName | None = None
    tools: Annotated[list[_Tool], Field(fail_fast=True, max_length=128)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: WholeNumber | None = Field(default=None, ge=-(2**63), lt=2**63)
    max_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)
    max_completion_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)
    n: WholeNumber | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    data_sources: Annotated[list[AzureSearchSource], Field(max_length=1)] | None = None


class Misread(BadRequest):
    """A request that is wrong at one field, named as its client wrote it."""


def refused(field: str, message: str) -> BadRequest:
    """What is wrong with a field."""
    return Misread(message, field=field)


def parse(body: Body) -> ChatRequest:
    """Read a request. Raises BadRequest that names the field at fault."""
    given = body.json
    if not isinstance(given, dict):
        raise BadRequest("The body must be a JSON object.")
    for key, value in given.items():
        if not is_json_safe(value):
            raise refused(f"{key:.60}", NOT_JSON_SAFE)
    frame = _frame(given)
    _check(frame, given)
    if tools.exceed_limit(given.get("tools"), body):
        raise refused("tools", tools.TOO_LARGE)
    messages = tuple(_message(f"messages[{i}]", each) for i, each in enumerate(frame.messages))
    _check_last(messages)
    answering = tuple(each for each in messages if not _answers_nothing(each))
    overrides = Overrides(temperature=frame.temperature, seed=frame.seed, model=frame.model or None)
    usage = bool(frame.stream_options and frame.stream_options.include_usage)
    asked = ChatRequest(
        answering,
        overrides,
        state={"include_usage": usage, "include_contexts": CONTEXTS},
        generation=GenerationOptions(tuple(given.get("tools") or ()), _options(frame, given)),
        notes=() if len(answering) == len(messages) else (ANSWER_NOTHING,),
    )
    return _searching(asked, frame.data_sources[0]) if frame.data_sources else asked


def _searching(asked: ChatRequest, source: AzureSearchSource) -> ChatRequest:
    """The request with its data source."""
    given = source.parameters
    return replace(
        asked,
        messages=(*source.instructions, *asked.messages),
        overrides=asked.overrides.model_copy(update=source.overrides),
        state={**asked.state, "include_contexts": given.include_contexts},
        search=SearchOptions(source.source, given.in_scope),
    )


def _frame(given: Mapping[str, Any]) -> _Frame:
    try:
        return _Frame.model_validate(given)
    except ValidationError as failure:
        first, *more = failure.errors(include_url=False, include_input=False)
        *place, branch = first["loc"]
        # Of a content that fits no branch the last one is told, which is the longer one.
        same = [each for each in more if branch == "str" and [*each["loc"]][: len(place)] == place]
        error = (same or [first])[-1]
        raise refused(_path(error["loc"]), describe_error(error)) from None


def _path(location: tuple[int | str, ...]) -> str:
    """Where it lies: the branches of a union, which pydantic names, are no part of it."""
    known = (part for part in location if isinstance(part, int) or re.fullmatch("[a-z_]+", part))
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in known if part != "str"
    )
    return "".join(parts).removeprefix(".")


def _check(frame: _Frame, given: Mapping[str, Any]) -> None:
    if (frame.n or 1) > 1:
        raise refused("n", "must be 1: there is one answer")
    if frame.logprobs or given.get("top_logprobs"):
        raise refused("logprobs", "are not given here")
    if given.get("functions"):
        raise refused("functions", "are not read here: offer them as tools")
    if given.get("dataSources"):  # a filter in it must not be left out
        raise refused("dataSources", "are not read here: send data_sources, as since 2024")


def _answers_nothing(said: Message) -> bool:
    """Whether it is a tool's message that answers no call, as no model takes it.

    The sample app of On Your Data sends the `context` of its earlier answers so.
    """
    told = said.raw or {}
    return said.role == "tool" and not said.tool_call_id and "name" not in told


def _check_last(messages: tuple[Message, ...]) -> None:
    if not any(said.role == "user" and said.content.strip() for said in messages):
        raise refused("messages", "at least one must be the user's, with a text")
    last = f"messages[{len(messages) - 1}]"
    if messages[-1].role not in ("user", "tool"):
        raise refused(f"{last}.role", "the last one is the user's or a tool's")
    if _answers_nothing(messages[-1]):
        raise refused(f"{last}.tool_call_id", "is required")


def _options(frame: _Frame, given: Mapping[str, Any]) -> dict[str, Any]:
    most = frame.max_completion_tokens or frame.max_tokens
    options = {key: given[key] for key in OPTIONS if given.get(key) is not None}
    return options | ({"max_tokens": most} if most else {})


def _message(path: str, read: _Message) -> Message:
    """A message. What goes on of it is what is known: no other field of a client's does."""
    role = ROLES[read.role]
    parts = list(_parts(path, read.content))
    if role == "assistant":
        parts = [_unnumbered(part) for part in parts]
    calls = tuple(tools.read(read.tool_calls))
    alone = isinstance(read.content, str)
    content = parts[0]["text"] if alone else parts or None
    fields = {
        "content": content if content is not None or calls else "",
        "name": read.name,
        "tool_calls": [tool_call_json(call) for call in calls] or None,
        "tool_call_id": read.tool_call_id,
    }
    known = {key: value for key, value in fields.items() if value is not None}
    return Message(
        role=role,
        content="\n".join(part["text"] for part in parts if part["type"] == "text"),
        images=tuple(part["image_url"]["url"] for part in parts if part["type"] == "image_url"),
        tool_calls=calls,
        tool_call_id=read.tool_call_id,
        raw={"role": role, **known},
    )


def _unnumbered(part: Json) -> Json:
    """A part of an earlier answer without its `[docN]`: they count among the sources of then."""
    text = part.get("text")
    return part if text is None else {**part, "text": NUMBERED.sub("", text)}


def _parts(path: str, content: str | list[_Part] | None) -> Iterator[Json]:
    """The parts of a content, in their order: what was refused is text, too."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    for place, part in enumerate(content if isinstance(content, list) else ()):
        if part.type == "image_url":
            if part.image_url is None:
                raise refused(f"{path}.content[{place}].image_url", "is required")
            yield {"type": "image_url", "image_url": part.image_url.model_dump(exclude_none=True)}
            continue
        text = part.text if part.type == "text" else part.refusal
        if text is None:
            raise refused(f"{path}.content[{place}].{part.type}", "is required")
        yield {"type": "text", "text": text}
