"""Writes the OpenAPI document (3.1) of the routes that the app has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shared.http.call import EVENTS, JSON, Json
from shared.protocols.exchange import Route, function_name
from shared.protocols.openapi.components import Components
from shared.protocols.openapi.operation import EVERY_ROUTE, OBJECT, STRING, Operation, Schema
from shared.protocols.openapi.security import OpenApiConfig, describe_used, list_schemes

TITLE = "Serverless RAG chat"
DESCRIPTION = (
    "Answers questions from documents, with citations, by the protocols that the tags name. "
    "Unknown fields of a request are ignored unless its schema says otherwise. 400 also stands "
    "for what no schema can say: the message of the error names the field at fault. A path answers "
    "another method with 405; HEAD is not listed. Every response has `x-request-id`, by which the "
    "log has the request."
)
FORM_FILES = {
    "type": "string",
    "contentMediaType": "application/octet-stream",
    "description": "An image (png, jpeg, gif, webp), in a part named `messages[i].files[j]`.",
}


def write_document(routes: Iterable[Route], config: OpenApiConfig) -> Json:
    """Write the document of all routes that describe an operation."""
    components = Components()
    paths: dict[str, Json] = {}
    tags: dict[str, None] = {}
    for route in routes:
        tags |= dict.fromkeys(each.tag for each in route.operations.values())
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
        "tags": [{"name": name} for name in tags],
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": components.responses,
            "securitySchemes": describe_used(paths),
        },
    }


def _write_operation(
    route: Route, method: str, operation: Operation, components: Components, config: OpenApiConfig
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
    written["security"] = [{name: []} for name in list_schemes(route, operation, config)]
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


def _request_body(operation: Operation, components: Components, cases: Sequence[Json]) -> Json:
    schema = components.add_models(operation.tag, operation.request)
    content: Json = {operation.request_type: {"schema": schema}}
    if cases:
        content[JSON]["examples"] = {_key(case): {"value": case["request"]} for case in cases}
    if operation.form:
        document = {**STRING, "contentMediaType": JSON, "contentSchema": schema}
        form = {**OBJECT, "properties": {"json": document}, "required": ["json"]}
        content["multipart/form-data"] = {"schema": {**form, "additionalProperties": FORM_FILES}}
    return {"required": operation.body_required, "content": content}


def _key(case: Json) -> str:
    return re.sub(r"\W+", "-", case["name"]).strip("-")


def _responses(operation: Operation, components: Components, cases: Sequence[Json]) -> Json:
    responses: Json = {
        str(status): {"description": text} for status, text in operation.statuses.items()
    }
    success = responses[str(min(operation.statuses))]
    if operation.media_types:
        success["content"] = {
            kind: _content(kind, operation.answer, cases) for kind in operation.media_types
        }
    for status in sorted({*EVERY_ROUTE, *operation.errors} - operation.statuses.keys()):
        responses[str(status)] = components.add_error(operation, status)
    return responses


def _content(media_type: str, answer: Schema, cases: Sequence[Json]) -> Json:
    """Return the content of a response: JSON, or lines of text with an object each."""
    key = {JSON: "answer", EVENTS: "events"}.get(media_type, "lines")
    examples = {_key(case): {"value": _write_example(case, key)} for case in cases if key in case}
    schema = {"schema": answer} if media_type == JSON else {}
    return {**schema, **({"examples": examples} if examples else {})}


def _write_example(case: Json, key: str) -> Any:
    if key == "answer":
        return case[key]
    lines = [json.dumps(line, ensure_ascii=False) for line in case[key]]
    if key == "lines":
        return "".join(f"{line}\n" for line in lines)
    ends = ["[DONE]"] if case.get("done") else []
    return "".join(f"data: {line}\n\n" for line in (*lines, *ends))
