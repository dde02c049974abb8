"""Parses `AZURE_SEARCH_FIELDS`, the names of an index's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic_core import from_json

FieldName = Literal[
    "id",
    "content",
    "sourcepage",
    "sourcefile",
    "category",
    "oids",
    "groups",
    "embedding",
    "image",
    "title",
    "url",
    "chunk",
]
REQUIRED = ("id", "content", "sourcepage", "sourcefile")
PRESET = "on-your-data"
# Fields of an index that the tools of "Azure OpenAI On Your Data" create. It has no access control,
# and several of its passages share a filepath.
ON_YOUR_DATA: Mapping[str, str | None] = {
    "sourcepage": "filepath",
    "sourcefile": "filepath",
    "category": None,
    "oids": None,
    "groups": None,
    "embedding": "contentVector",
    "image": None,
    "title": "title",
    "url": "url",
    "chunk": "chunk_id",
}


def _parse(value: Any) -> Any:
    """Parse the setting; a field that is null in JSON becomes an empty name."""
    if not isinstance(value, str):
        return value
    try:
        names = dict(ON_YOUR_DATA) if value == PRESET else from_json(value)
    except ValueError:
        raise ValueError(f"must be JSON, or {PRESET}") from None
    if not isinstance(names, dict):
        return names
    for field, name in names.items():
        if name == "" or (name is None and field in REQUIRED):
            raise ValueError(f"must have a name for {field:.20}")
    return {field: "" if name is None else name for field, name in names.items()}


FieldNames = Annotated[dict[FieldName, str], BeforeValidator(_parse)]
