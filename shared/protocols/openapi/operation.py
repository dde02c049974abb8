"""What the OpenAPI document says of one method of a route. Each protocol describes its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from shared.http.call import JSON

Schema = dict[str, Any]
"""A JSON Schema (2020-12). A model in place of a schema stands for its own."""

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
# Statuses of errors, by what a route does, beside those of `EVERY_ROUTE`.
EVERY_ROUTE = (400, 401, 403, 500, 503, 504)
WITH_BODY = (408, 413, 415)
WITH_ANSWER = (*WITH_BODY, 404, 429, 501)  # of a model


def object_schema(**properties: Any) -> Schema:
    """Return the schema of an object that must have these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


@dataclass(frozen=True, slots=True)
class Examples:
    """The requests and answers in a file of golden cases that have this route."""

    file: Path
    route: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a route."""

    tag: str  # the protocol
    summary: str
    description: str = ""
    request: type[BaseModel] | Schema | None = None  # the body, if there is any
    request_type: str = JSON  # the media type of the body
    body_required: bool = True
    form: bool = False  # whether the body may be a form, too: the JSON in a part, and files
    query: Mapping[str, Schema] = field(default_factory=dict)
    media_types: Sequence[str] = (JSON,)  # of a successful response; none: it has no body
    answer: Schema = field(default_factory=lambda: OBJECT)  # the JSON of a successful response
    statuses: Mapping[int, str] = field(default_factory=lambda: {200: "Success."})
    errors: Sequence[int] = ()
    error: Schema = field(default_factory=dict)  # the body of an error
    error_media_type: str = JSON
    app_key: bool = False  # whether the key is that of the app, CHAT_API_KEY
    examples: Examples | None = None
