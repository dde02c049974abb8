"""A request of the AOG v0.2 chat service, read from JSON: every form that content may have.

"Common data types", "Message", "Tools" and "Common fields of a request body" of the document.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.chat.errors import BadRequest, describe_errors
from shared.chat.messages import (
    NOT_JSON_SAFE,
    Message,
    check_image_url,
    is_json_safe,
    iterate_parts,
    part_image_url,
    part_text,
)
from shared.chat.overrides import ModelName, Overrides, Policy, WholeNumber
from shared.chat.request import ChatRequest, GenerationOptions
from shared.http.body import Body
from shared.protocols import tool_calls as tools
from shared.protocols.tool_calls import FAST, FunctionCall

POLICIES = get_args(Policy)


class BadPolicy(BadRequest):
    """A hybrid_policy that is none of the three."""


class _Function(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(BaseModel):
    model_config = ConfigDict(strict=True)
    type: Literal["function"]
    function: _Function


class _Call(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str = Field(min_length=1)
    type: Literal["function"]
    function: FunctionCall


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)
    role: Literal["system", "user", "assistant", "tool"]
    content: Any = None
    name: str | None = None
    images: Annotated[list[str], FAST] | None = None
    tool_calls: Annotated[list[_Call], FAST] | None = None
    tool_call_id: str | None = None


def _chat(model: Any) -> Any:
    """ "A JSON object, to name the model of each service that is used": ours is `chat`."""
    return model.get("chat") if isinstance(model, Mapping) else model


class _Frame(BaseModel):
    """The keys that are known. null is "unset", unknown keys are for whoever knows them."""

    model_config = ConfigDict(strict=True)
    messages: list[_Message] = Field(min_length=1, fail_fast=True)
    tools: Annotated[list[_Tool], Field(fail_fast=True, max_length=128)] | None = None
    model: Annotated[ModelName | None, BeforeValidator(_chat)] = None
    stream: bool | None = None
    retrieval: bool | None = None
    seed: WholeNumber | None = Field(default=None, ge=-(2**63), lt=2**63)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)


# Read by name, and not left to whatever the provider takes.
READ_BY_NAME = {
    *("messages", "tools", "model", "stream", "seed", "temperature"),
    *("hybrid_policy", "remote_service_provider"),
}


def parse(body: Body) -> ChatRequest:
    """Read a request. Raises BadRequest that names what is wrong, BadPolicy."""
    body_json = body.json
    if not isinstance(body_json, dict):
        raise BadRequest("The body must be a JSON object.")
    policy = _policy(body_json.get("hybrid_policy"))
    try:
        frame = _Frame.model_validate(body_json)
    except ValidationError as failure:
        raise BadRequest(describe_errors(failure, lambda path: path)) from None
    options = {
        key: it for key, it in body_json.items() if key not in READ_BY_NAME and it is not None
    }
    for key, value in body_json.items():
        if key != "messages" and not is_json_safe(value):
            raise BadRequest(f"{key:.60}: {NOT_JSON_SAFE}")
    _check_options(options)
    if tools.exceed_limit(body_json.get("tools"), body):
        raise BadRequest(f"tools: {tools.TOO_LARGE}")
    messages = tuple(
        _message(f"messages[{place}]", frame.messages[place], raw)
        for place, raw in enumerate(body_json["messages"])
    )
    if not any(message.role == "user" and message.content.strip() for message in messages):
        raise BadRequest("messages: at least one must be the user's, with a text")
    return ChatRequest(
        messages,
        Overrides(
            temperature=frame.temperature,
            seed=frame.seed,
            hybrid_policy=policy,
            model=frame.model or None,
        ),
        grounding="none" if frame.retrieval is False else "required",
        generation=GenerationOptions(tuple(body_json.get("tools") or ()), options),
        remote=_remote(body_json.get("remote_service_provider")),
    )


def _policy(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in POLICIES):
        return value
    raise BadPolicy(f"hybrid_policy: must be one of {', '.join(POLICIES)}")


def _remote(value: Any) -> str | Mapping[str, Any] | None:
    if value is None or isinstance(value, str | dict):
        return None if value == "" else value
    raise BadRequest("remote_service_provider: must be a name, or an object")


def _check_options(options: Mapping[str, Any]) -> None:
    stop, keep = options.get("stop", ""), options.get("keep_alive", "")
    stops = stop if isinstance(stop, list) else [stop]
    if len(stops) > 16 or not all(isinstance(each, str) for each in stops):
        raise BadRequest("stop: must be a string, or a list of 16 at most")
    if not isinstance(keep, str | int | float) or isinstance(keep, bool):
        raise BadRequest('keep_alive: must be a time such as "5m", or a number of seconds')


def _message(path: str, read: _Message, raw: Mapping[str, Any]) -> Message:
    if read.role == "tool" and not read.tool_call_id:
        raise BadRequest(f"{path}.tool_call_id: is required in a message of the role tool")
    content = read.content
    if content is None or content == []:
        if not (read.role == "assistant" and read.tool_calls):
            raise BadRequest(f"{path}.content: is required")
    else:
        _check_content(f"{path}.content", content)
    for place, image in enumerate(read.images or ()):
        _check_base64(f"{path}.images[{place}]", image)
    if not is_json_safe(raw):
        raise BadRequest(f"{path}: {NOT_JSON_SAFE}")
    parts = list(iterate_parts(raw))
    texts = (text for part in parts if (text := part_text(part)))
    return Message(
        role=read.role,
        content="\n".join(texts),
        images=tuple(url for part in parts if (url := part_image_url(part)) is not None),
        tool_calls=tuple(tools.read(read.tool_calls)),
        tool_call_id=read.tool_call_id,
        raw=raw,
    )


def _check_content(path: str, content: Any) -> None:
    parts = content if isinstance(content, list) else [content]
    for place, part in enumerate(parts):
        where = f"{path}[{place}]" if isinstance(content, list) else path
        if not isinstance(part, str):
            _check_part(where, part)


def _check_part(path: str, part: Any) -> None:
    """One of the forms of "Content"; `image_file` is on that document's roadmap only."""
    if not isinstance(part, dict):
        raise BadRequest(f"{path}: must be a string, an object, or a list of these")
    match part.get("type"):
        case "text":
            value = part.get("text")
            text = value.get("value") if isinstance(value, dict) else value
            if not isinstance(text, str):
                raise BadRequest(f"{path}.text: must be a string, or an object with a value")
        case "image_url":
            image = part.get("image_url")
            _check_url(f"{path}.image_url", image.get("url") if isinstance(image, dict) else None)
        case "image":
            _check_base64(f"{path}.image", part.get("image"))
        case "image_file":
            raise BadRequest(f"{path}: image_file is not supported: use image or image_url")
        case _:
            raise BadRequest(f"{path}.type: must be one of text, image_url, image")


def _check_url(path: str, url: Any) -> None:
    if not isinstance(url, str):
        raise BadRequest(f"{path}: must be an object with a url")
    try:
        check_image_url(url)
    except ValueError as error:
        raise BadRequest(f"{path}.url: {error}") from None


def _check_base64(path: str, image: Any) -> None:
    try:
        if isinstance(image, str) and base64.b64decode(image, validate=True):
            return
    except (binascii.Error, ValueError):
        pass
    raise BadRequest(f"{path}: must be an image in base64")
