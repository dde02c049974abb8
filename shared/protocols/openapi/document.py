"""Writes the OpenAPI document (3.1) of the routes that the app has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from shared.http.call import EVENTS, JSON, Json
from shared.protocols.exchange import Route, function_name
from shared.protocols.openapi.operation import EVERY_ROUTE, OBJECT, STRING, Operation, Schema

TITLE = "Serverless RAG chat"
DESCRIPTION = (
    "Answers questions from documents, with citations, by the protocols that the tags name. "
    "Unknown fields of a request are ignored unless its schema says otherwise. 400 also stands "
    "for what no schema can say: the message of the error names the field at fault. A path answers "
    "another method with 405. GET routes answer HEAD. Every response has `x-request-id`, by which "
    "the log has the request."
)
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
FORM_FILES = {
    "type": "string",
    "contentMediaType": "application/octet-stream",
    "description": "An image (png, jpeg, gif, webp), in a part named `messages[i].files[j]`.",
}
FUNCTION_KEY, APP_KEY, BEARER, SIGN_IN = "functionKey", "appKey", "appKeyAsBearer", "signIn"
SCHEMES: Mapping[str, Json] = {
    FUNCTION_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "x-functions-key",
        "description": "A function key of the app; the master key changes what holds for all.",
    },
    APP_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "api-key",
        "description": "The setting CHAT_API_KEY.",
    },
    BEARER: {"type": "http", "scheme": "bearer", "description": "The setting CHAT_API_KEY."},
    SIGN_IN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of Microsoft Entra ID for this app; in a browser the cookie of "
        "/.auth/login/aad.",
    },
}


@dataclass(frozen=True, slots=True)
class OpenApiConfig:
    """Whether the deployment has the document, its address, and what it asks of its callers."""

    enabled: bool = True
    base_url: str = ""  # empty if unknown
    function_keys: bool = False
    app_key: bool = False
    sign_in: bool = False


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
class _Components:
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


def write_document(routes: Mapping[str, Route], config: OpenApiConfig) -> Json:
    """Write the document of all routes that describe an operation."""
    components = _Components()
    paths: dict[str, Json] = {}
    for route in routes.values():
        operations = {
            method.lower(): _write_operation(route, method, operation, components, config)
            for method, operation in route.operations.items()
        }
        if operations:
            paths[re.sub(r"\{\*", "{", route.path)] = operations
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": "0.1.0", "description": DESCRIPTION},
        "servers": [{"url": config.base_url or "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(_list_tags(routes))],
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": components.responses,
            "securitySchemes": _used_schemes(paths),
        },
    }


def _list_tags(routes: Mapping[str, Route]) -> Iterator[str]:
    return (each.tag for route in routes.values() for each in route.operations.values())


def _write_operation(
    route: Route, method: str, operation: Operation, components: _Components, config: OpenApiConfig
) -> Json:
    cases = _read_cases(operation)
    written: Json = {
        "operationId": f"{method.lower()}_{function_name(route.path)}",
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.description:
        written["description"] = operation.description
    written["parameters"] = [*_parameters(route, operation)]
    if operation.request:
        written["requestBody"] = _request_body(operation, components, cases)
    written["responses"] = _responses(operation, components, cases)
    written["security"] = [{name: []} for name in _schemes(route, operation, config)]
    return written


def _read_cases(operation: Operation) -> Sequence[Json]:
    """Return the golden cases that are the examples of an operation."""
    examples = operation.examples
    if examples is None:
        return ()
    cases: list[Json] = json.loads(examples.file.read_text("utf-8"))
    return [case for case in cases if case["route"] == examples.route]


def _parameters(route: Route, operation: Operation) -> Iterator[Json]:
    for name in re.findall(r"\{\*?(\w+)\}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {**STRING, "minLength": 1}}
    for name, schema in operation.query.items():
        yield {"name": name, "in": "query", "schema": schema}


def _request_body(operation: Operation, components: _Components, cases: Sequence[Json]) -> Json:
    schema = components.add_models(operation.tag, operation.request)
    content: Json = {JSON: {"schema": schema}}
    if cases:
        content[JSON]["examples"] = {_key(case): {"value": case["request"]} for case in cases}
    if operation.form:
        document = {**STRING, "contentMediaType": JSON, "contentSchema": schema}
        form = {**OBJECT, "properties": {"json": document}, "required": ["json"]}
        content["multipart/form-data"] = {"schema": {**form, "additionalProperties": FORM_FILES}}
    return {"required": operation.body_required, "content": content}


def _key(case: Json) -> str:
    return re.sub(r"\W+", "-", case["name"]).strip("-")


def _responses(operation: Operation, components: _Components, cases: Sequence[Json]) -> Json:
    responses: Json = {
        str(status): {"description": text} for status, text in operation.statuses.items()
    }
    success = responses[str(min(operation.statuses))]
    if operation.media_types:
        success["content"] = {kind: _content(kind, cases) for kind in operation.media_types}
    for status in sorted({*EVERY_ROUTE, *operation.errors} - operation.statuses.keys()):
        responses[str(status)] = components.add_error(operation, status)
    return responses


def _content(media_type: str, cases: Sequence[Json]) -> Json:
    """Return the content of a response: an object, or lines of text with one each."""
    key = {JSON: "answer", EVENTS: "events"}.get(media_type, "lines")
    examples = {_key(case): {"value": _write_example(case, key)} for case in cases if key in case}
    schema = {"schema": OBJECT} if media_type == JSON else {}
    return {**schema, **({"examples": examples} if examples else {})}


def _write_example(case: Json, key: str) -> Any:
    if key == "answer":
        return case[key]
    lines = [json.dumps(line, ensure_ascii=False) for line in case[key]]
    if key == "lines":
        return "".join(f"{line}\n" for line in lines)
    ends = ["[DONE]"] if case.get("done") else []
    return "".join(f"data: {line}\n\n" for line in (*lines, *ends))


def _schemes(route: Route, operation: Operation, config: OpenApiConfig) -> Sequence[str]:
    """Return the security schemes of which a call needs one; none if it needs no key."""
    sign_in = [SIGN_IN] if config.sign_in else []
    if operation.app_key:
        return [*([APP_KEY, BEARER] if config.app_key else []), *sign_in]
    if route.auth == "anonymous":
        return []
    return [FUNCTION_KEY] if config.function_keys else sign_in


def _used_schemes(paths: Mapping[str, Json]) -> Json:
    used = {
        name
        for methods in paths.values()
        for operation in methods.values()
        for requirement in operation["security"]
        for name in requirement
    }
    return {name: scheme for name, scheme in SCHEMES.items() if name in used}
