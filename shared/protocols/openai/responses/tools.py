"""`tools`, `tool_choice` and `text.format` of a request.

Functions go to the model. `file_search` names what this app does anyway: its options become those
of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from shared.domain.overrides import MAX_SEARCH_TEXT, WholeNumber
from shared.http.json_encoding import Json
from shared.protocols.openai.responses.errors import UNSUPPORTED, ParameterError
from shared.protocols.openai.responses.items import validate

MAX_TOOLS = 128
NOT_HERE = "is not available here: the tools are function and file_search"
ONE_INDEX = "must be one name, whichever: there is one index"


class _Function(BaseModel, strict=True):
    name: str = Field(min_length=1)


class _Filter(BaseModel, strict=True):
    type: Literal["eq", "ne"]
    key: Literal["category"]
    value: Annotated[str, Field(min_length=1, max_length=MAX_SEARCH_TEXT)]


class _FileSearch(BaseModel, strict=True):
    vector_store_ids: list[str] = Field(max_length=100)
    max_num_results: WholeNumber | None = Field(default=None, ge=1, le=50)
    filters: Any = None


@dataclass(frozen=True, slots=True)
class Tools:
    """The functions, in the form of chat completions, and the search if it is a tool."""

    functions: tuple[Json, ...] = ()
    searches: bool = False
    overrides: tuple[tuple[str, Any], ...] = ()


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
    overrides = tuple((search or {}).items())
    return Tools(tuple(functions), search is not None, overrides)


def _parse_function(path: str, tool: Json) -> Json:
    validate(_Function, path, tool)
    names = ("name", "description", "parameters", "strict")
    function = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _parse_search(path: str, tool: Json) -> dict[str, Any]:
    """Return the overrides of the search."""
    search = validate(_FileSearch, path, tool)
    if len(search.vector_store_ids) != 1:
        raise ParameterError(f"{path}.vector_store_ids", ONE_INDEX)
    overrides: dict[str, Any] = {"top": search.max_num_results}
    if search.filters is not None:
        condition = validate(_Filter, f"{path}.filters", search.filters)
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
    if kind == "file_search" and tools.searches:
        return None
    if kind == "function":
        name = validate(_Function, "tool_choice", choice).name
        return {"type": "function", "function": {"name": name}}
    raise ParameterError("tool_choice", "must be auto, none, required or a tool", UNSUPPORTED)


def parse_format(value: Any) -> Json | None:
    """Return `text.format` in the form of chat completions; None for text."""
    kind = validate(_Format, "text.format", value).type
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    names = ("name", "description", "schema", "strict")
    schema = {name: value[name] for name in names if value.get(name) is not None}
    return {"type": "json_schema", "json_schema": schema}


class _Format(BaseModel, strict=True):
    type: Literal["text", "json_object", "json_schema"]
