"""Parses the requests of the Responses API, with their tools.

Functions go to the model. `file_search` names what this app does anyway: its options become those
of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.domain.overrides import MAX_SEARCH_TEXT, MAX_TOP, ModelName, Overrides, WholeNumber
from shared.domain.request import ChatRequest, GenerationOptions
from shared.http.body import Body, allow_nulls
from shared.http.call import Json
from shared.protocols.message_json import FAST, check_tools
from shared.protocols.openai.request import require_json_safe
from shared.protocols.openai.responses.errors import UNSUPPORTED, ParameterError
from shared.protocols.openai.responses.items import (
    INPUT,
    Item,
    Reference,
    parse_items,
    text_message,
    validate,
)

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
MAX_TOOLS = 128
NOT_HERE = "is not available here: the tools are function and file_search"
ONE_INDEX = "must be one name, whichever: there is one index"

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]


class _Text(BaseModel, strict=True):
    format: Any = None
    verbosity: str | None = Field(default=None, max_length=20)


class _Reasoning(BaseModel, strict=True):
    effort: str | None = Field(default=None, max_length=20)


def _describe_input(schema: dict[str, Any]) -> None:
    """Add `input`, which is parsed by hand, to a JSON schema."""
    allow_nulls(schema)
    schema["properties"]["input"] = INPUT
    schema["required"] = ["input"]


class _Fields(BaseModel, strict=True):
    """The known fields, but `input`. Unknown fields are ignored."""

    model_config = ConfigDict(json_schema_extra=_describe_input)

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


class _Function(BaseModel, strict=True):
    name: str = Field(min_length=1)


class _Filter(BaseModel, strict=True):
    type: Literal["eq", "ne"]
    key: Literal["category"]
    value: Annotated[str, Field(min_length=1, max_length=MAX_SEARCH_TEXT)]


class _FileSearch(BaseModel, strict=True):
    vector_store_ids: list[str] = Field(max_length=100)
    max_num_results: WholeNumber | None = Field(default=None, ge=1, le=MAX_TOP)
    filters: Any = None


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request."""

    functions: tuple[Json, ...]  # in the form of chat completions
    search: Mapping[str, Any] | None  # the overrides of the search, if it is a tool


class _Format(BaseModel, strict=True):
    type: Literal["text", "json_object", "json_schema"]


@dataclass(frozen=True, slots=True)
class ResponseState:
    """What a response needs of its request."""

    # Of `input`: they become messages when their references are resolved.
    items: tuple[Item | Reference, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)  # the parameters that a response repeats
    searches: bool = False  # whether the search is a tool
    results: bool = False  # whether the response shows the passages of the search
    previous: str | None = None  # the id of the response that this one continues
    # Both are set when the answer begins.
    store: bool = True
    id: str = ""


def parse(body: Body) -> ChatRequest:
    """Parse a request. Its messages are its instructions alone: see `ResponseState.items`.

    Raises BadRequest that names the parameter at fault.
    """
    fields = _parse_fields(body)
    items = parse_items(body.json.get("input"))
    tools = parse_tools(fields.tools)
    overrides = {
        "temperature": fields.temperature,
        "model": fields.model or None,
        **(tools.search or {}),
    }
    state = ResponseState(
        items,
        _echo(fields),
        tools.search is not None,
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
    fields = validate(_Fields, value)
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
    text = validate(_Text, fields.text, "text")
    choice = fields.tool_choice
    parameters = {
        "top_p": fields.top_p,
        "max_tokens": fields.max_output_tokens,
        "parallel_tool_calls": fields.parallel_tool_calls if tools.functions else None,
        "tool_choice": None if choice is None else parse_choice(choice, tools),
        "response_format": None if text.format is None else parse_format(text.format),
        "verbosity": text.verbosity,
        "reasoning_effort": validate(_Reasoning, fields.reasoning, "reasoning").effort,
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


def parse_tools(tools: Sequence[Any]) -> Tools:
    """Parse `tools`. Raises ParameterError."""
    if len(tools) > MAX_TOOLS:
        raise ParameterError("tools", f"must have {MAX_TOOLS} entries at most")
    functions: list[Json] = []
    search: dict[str, Any] | None = None
    for place, tool in enumerate(tools):
        path = f"tools[{place}]"
        if not isinstance(tool, dict):
            raise ParameterError(path, "must be an object")
        if tool.get("type") == "function":
            functions.append(_parse_function(path, tool))
        elif tool.get("type") == "file_search" and search is None:
            search = _parse_search(path, tool)
        else:
            raise ParameterError(f"{path}.type", NOT_HERE, UNSUPPORTED)
    return Tools(tuple(functions), search)


def _parse_function(path: str, tool: Json) -> Json:
    validate(_Function, tool, path)
    names = ("name", "description", "parameters", "strict")
    function = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _parse_search(path: str, tool: Json) -> dict[str, Any]:
    """Return the overrides of the search."""
    search = validate(_FileSearch, tool, path)
    if len(search.vector_store_ids) != 1:
        raise ParameterError(f"{path}.vector_store_ids", ONE_INDEX)
    overrides: dict[str, Any] = {"top": search.max_num_results}
    if search.filters is not None:
        condition = validate(_Filter, search.filters, f"{path}.filters")
        name = "include_category" if condition.type == "eq" else "exclude_category"
        overrides[name] = condition.value
    return {name: value for name, value in overrides.items() if value is not None}


def parse_choice(choice: Any, tools: Tools) -> Any:
    """Return `tool_choice` in the form of chat completions; None where the search meets it.

    Raises ParameterError.
    """
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return choice if tools.functions else None
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "file_search" and tools.search is not None:
        return None
    if kind == "function":
        name = validate(_Function, choice, "tool_choice").name
        return {"type": "function", "function": {"name": name}}
    raise ParameterError("tool_choice", "must be auto, none, required or a tool", UNSUPPORTED)


def parse_format(value: Any) -> Json | None:
    """Return `text.format` in the form of chat completions; None for text."""
    kind = validate(_Format, value, "text.format").type
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    names = ("name", "description", "schema", "strict")
    schema = {name: value[name] for name in names if value.get(name) is not None}
    return {"type": "json_schema", "json_schema": schema}
