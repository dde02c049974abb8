"""The components of the OpenAPI document: the schemas of models, the responses of errors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from shared.http.call import Json
from shared.protocols.openapi.operation import Operation, Schema

STATUSES = {
    400: "Not JSON; a wrong type or value; rejected by the content filter; too long for the model.",
    401: "Without the key, or without the sign-in that the request needs.",
    403: "Sent by a page of another origin, or by a user without the app role.",
    404: "It does not exist, or not for this user.",
    406: "`Accept` excludes JSON.",
    408: "The body did not arrive in time.",
    413: "The body is larger than the limit.",
    415: "Another content type than JSON, or another encoding than gzip.",
    416: "The range begins after the end of the document.",
    429: "The model or the search is at its limit, or one person has half of the answers in "
    "progress. `Retry-After` has the seconds to wait.",
    500: "An unexpected failure; the log has its stack trace.",
    501: "Not supported, or not in this deployment.",
    502: "The provider failed.",
    503: "A service refused, failed or closed the connection, or this instance has too many "
    "answers in progress (both with `Retry-After`); or settings are wrong.",
    504: "The time limit of the app.",
}
BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}


class _SchemaWriter(GenerateJsonSchema):
    """Writes the schema of a model, without a title for each field: it repeats the name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate_inner(self, schema: Any) -> Any:
        """Return a schema with the words of JSON Schema: limits around a validator keep theirs."""
        return {
            BOUNDS.get(key, key): value for key, value in super().generate_inner(schema).items()
        }

    def normalize_name(self, name: str) -> str:
        return _name(super().normalize_name(name))


@dataclass(slots=True)
class Components:
    """What several operations refer to, by name."""

    schemas: dict[str, Schema] = field(default_factory=dict)
    responses: dict[str, Json] = field(default_factory=dict)

    def add_models(self, tag: str, schema: Any) -> Any:
        """Return a schema with references in place of its models, whose schemas are added."""
        if isinstance(schema, dict):
            return {key: self.add_models(tag, value) for key, value in schema.items()}
        if isinstance(schema, list):
            return [self.add_models(tag, each) for each in schema]
        is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
        return self._add_model(tag, schema) if is_model else schema

    def _add_model(self, tag: str, model: type[BaseModel]) -> Schema:
        """Add the schema of a model and those that it refers to. Return a reference to it."""
        prefix = _prefix(tag)
        schema = model.model_json_schema(
            ref_template=f"#/components/schemas/{prefix}.{{model}}", schema_generator=_SchemaWriter
        )
        root = _name(model.__name__)
        for name, definition in {**schema.pop("$defs", {}), root: schema}.items():
            self.schemas[f"{prefix}.{name}"] = {**definition, "title": name}
        return {"$ref": f"#/components/schemas/{prefix}.{root}"}

    def add_error(self, operation: Operation, status: int) -> Json:
        """Add the response of an error. Return a reference to it."""
        name = f"{_prefix(operation.tag)}.{status}"
        self.responses[name] = {
            "description": STATUSES[status],
            "content": {operation.error_media_type: {"schema": operation.error}},
        }
        return {"$ref": f"#/components/responses/{name}"}


def _prefix(tag: str) -> str:
    """Return what the names of a protocol's components begin with."""
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"\w+", tag))


def _name(model: str) -> str:
    """Return the name of a model's schema: `_Fields` is the model of a whole request."""
    return model.removeprefix("_").replace("Fields", "Request")
