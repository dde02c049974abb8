"""Which names has an index for its fields? What `AZURE_SEARCH_FIELDS` says of it."""

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
NEEDED = ("id", "content", "sourcepage", "sourcefile")
PRESET = "on-your-data"
# Those of an index that the tools of "Azure OpenAI On Your Data" made. It says nothing of who may
# see what, and several of its passages share a filepath.
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


def _read(value: Any) -> Any:
    """The names, empty for what there is not: null in JSON."""
    if not isinstance(value, str):
        return value
    try:
        names = dict(ON_YOUR_DATA) if value == PRESET else from_json(value)
    except ValueError:
        raise ValueError(f"must be JSON, or {PRESET}") from None
    if not isinstance(names, dict):
        return names
    for name, given in names.items():
        if given == "" or (given is None and name in NEEDED):
            raise ValueError(f"must have a name for {name:.20}")
    return {name: "" if given is None else given for name, given in names.items()}


FieldNames = Annotated[dict[FieldName, str], BeforeValidator(_read)]
