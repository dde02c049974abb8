"""Parses the requests of the Responses API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field

from shared.domain.overrides import ModelName, Overrides, WholeNumber
from shared.domain.request import ChatRequest, GenerationOptions
from shared.http.body import Body
from shared.protocols.message_json import FAST, check_tools
from shared.protocols.openai.request import require_json_safe
from shared.protocols.openai.responses import tools as tool_options
from shared.protocols.openai.responses.errors import UNSUPPORTED, ParameterError
from shared.protocols.openai.responses.items import (
    Item,
    Reference,
    parse_items,
    text_message,
    validate,
)
from shared.protocols.openai.responses.tools import Tools

RESULTS = "file_search_call.results"  # of `include`: the passages
NO_CONVERSATIONS = "is not available here: use previous_response_id"
# Refused if they have a value other than null, false or empty, with the reason.
REFUSED: Mapping[str, str] = {
    "background": "is not available here: leave it out",
    "prompt": "is not available here: send instructions",
    "top_logprobs": "is not available here",
    "conversation": NO_CONVERSATIONS,
}
LOGPROBS = "message.output_text.logprobs"

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]


class _Text(BaseModel, strict=True):
    format: Any = None
    verbosity: str | None = Field(default=None, max_length=20)


class _Reasoning(BaseModel, strict=True):
    effort: str | None = Field(default=None, max_length=20)


class _Fields(BaseModel, strict=True):
    """The known fields, but `input`. Unknown fields are ignored."""

    model: ModelName | None = None
    instructions: str | None = None
    tools: Annotated[list[Any], FAST] = []
    tool_choice: Any = None
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_output_tokens: WholeNumber | None = Field(default=None, ge=1, lt=2**31)
    parallel_tool_calls: bool | None = None
    text: dict[str, Any] = {}
    reasoning: dict[str, Any] = {}
    metadata: Metadata = {}
    store: bool = True
    previous_response_id: str | None = Field(default=None, max_length=200)
    include: Annotated[list[str], Field(max_length=20)] = []


@dataclass(frozen=True, slots=True)
class ResponseState:
    """What a response needs of its request.

    `echo` are the parameters that a response repeats, `searches` whether the search is a tool,
    `results` whether it shows its passages. `items` are the items of `input`, which become messages
    when their references are resolved. `id` and `store` are set when the answer begins.
    """

    items: tuple[Item | Reference, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)
    searches: bool = False
    results: bool = False
    previous: str | None = None
    store: bool = True
    id: str = ""


def parse(body: Body) -> ChatRequest:
    """Parse a request. Its messages are its instructions alone: see `ResponseState.items`.

    Raises BadRequest that names the parameter at fault.
    """
    fields = _parse_fields(body)
    items = parse_items(body.json.get("input"))
    tools = tool_options.parse_tools(fields.tools)
    overrides = {
        "temperature": fields.temperature,
        "model": fields.model or None,
        **dict(tools.overrides),
    }
    state = ResponseState(
        items,
        _echo(fields),
        tools.searches,
        RESULTS in fields.include,
        fields.previous_response_id,
        fields.store,
    )
    instructions = fields.instructions or ""
    return ChatRequest(
        (text_message("system", instructions),) if instructions.strip() else (),
        Overrides(**overrides),
        state,
        generation=GenerationOptions(tools.functions, _parameters(fields, tools)),
    )


def _parse_fields(body: Body) -> _Fields:
    """Parse the known fields. Raises BadRequest."""
    value = require_json_safe(body.json)
    fields = validate(_Fields, "", value)
    _check_refused(value, fields.include)
    check_tools(body)
    return fields


def _check_refused(value: Mapping[str, Any], include: Sequence[str]) -> None:
    for name, reason in REFUSED.items():
        if value.get(name):
            raise ParameterError(name, reason, UNSUPPORTED)
    if LOGPROBS in include:
        place = f"include[{include.index(LOGPROBS)}]"
        raise ParameterError(place, "is not available here", UNSUPPORTED)


def _parameters(fields: _Fields, tools: Tools) -> dict[str, Any]:
    """Return the parameters for the model, by their names in chat completions."""
    text = validate(_Text, "text", fields.text)
    choice = fields.tool_choice
    parameters = {
        "top_p": fields.top_p,
        "max_tokens": fields.max_output_tokens,
        "parallel_tool_calls": fields.parallel_tool_calls if tools.functions else None,
        "tool_choice": None if choice is None else tool_options.parse_choice(choice, tools),
        "response_format": None if text.format is None else tool_options.parse_format(text.format),
        "verbosity": text.verbosity,
        "reasoning_effort": validate(_Reasoning, "reasoning", fields.reasoning).effort,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def _echo(fields: _Fields) -> dict[str, Any]:
    """Return the parameters that a response repeats, with OpenAI's defaults."""
    effort = fields.reasoning.get("effort")
    parallel = fields.parallel_tool_calls
    return {
        "background": False,
        "instructions": fields.instructions,
        "max_output_tokens": fields.max_output_tokens,
        "metadata": fields.metadata,
        "parallel_tool_calls": True if parallel is None else parallel,
        "previous_response_id": fields.previous_response_id,
        "reasoning": {"effort": effort, "summary": None},
        "temperature": fields.temperature,
        "text": {"format": {"type": "text"}} | fields.text,
        "tool_choice": "auto" if fields.tool_choice is None else fields.tool_choice,
        "tools": fields.tools,
        "top_p": fields.top_p,
        "truncation": "auto",
    }
