"""GET /api/openapi.json says what this app has, and only where it may."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from shared.app import ROUTES, handle_call
from shared.bootstrap.build import start
from shared.domain import errors
from shared.domain.overrides import INTERNAL_FIELDS, Overrides
from shared.http.call import Call
from shared.protocols.exchange import EVERY_METHOD
from shared.protocols.openapi.components import STATUSES
from tests.support.calls import call, read, run_calls
from tests.support.fakes import FAKES
from tests.support.servers import ROOT

DOCUMENT = call("/api/openapi.json", method="GET")
AZURE = {"CONTAINER_NAME": "x", "WEBSITE_HOSTNAME": "app.example.net"}
SIGN_IN = {"WEBSITE_AUTH_ENABLED": "true", "WEBSITE_SITE_NAME": "x", "CALLERS": "signed-in"}
# These only refuse: parts of a protocol that there are not, and paths of others.
REFUSALS = re.compile(r".*\{\*path\}|.*/(traces|cancel)|/_plugins/.*/_search")


@pytest.fixture(scope="module")
def document() -> Any:
    (reply,) = run_calls(FAKES, DOCUMENT)
    assert reply.status == 200
    return reply.json


def get_document(**settings: str) -> Any:
    (reply,) = run_calls({**FAKES, **settings}, DOCUMENT)
    return reply.json


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_all_routes_are_in_the_document_but_those_that_only_refuse(document: Any) -> None:
    paths = {path.replace("{*", "{") for path in ROUTES if not REFUSALS.fullmatch(path)}

    assert document["paths"].keys() == paths


def test_all_methods_are_in_the_document_but_those_that_only_refuse() -> None:
    missing = {
        f"{method} {path}"
        for path, route in ROUTES.items()
        if route.operations and route.methods != EVERY_METHOD
        for method in set(route.methods) - route.operations.keys() - {"HEAD"}
    }

    assert [each for each in missing if not re.fullmatch(r"POST /.*/responses/\{id\}", each)] == []


def test_every_name_that_is_referred_to_is_defined(document: Any) -> None:
    references = set(re.findall(r'"#/components/(\w+)/([\w.]+)"', json.dumps(document)))
    defined = {
        (kind, name) for kind in ("schemas", "responses") for name in document["components"][kind]
    }

    assert references == defined


def test_no_two_models_share_a_name() -> None:
    models = {
        (operation.tag, model)
        for route in ROUTES.values()
        for operation in route.operations.values()
        for model in list_models(operation.request)
    }

    assert max(Counter((tag, model.__name__.strip("_")) for tag, model in models).values()) == 1


def list_models(schema: Any) -> Iterator[type[BaseModel]]:
    if isinstance(schema, dict | list):
        for each in schema.values() if isinstance(schema, dict) else schema:
            yield from list_models(each)
    elif isinstance(schema, type):
        yield schema


def test_every_operation_has_its_own_id(document: Any) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]

    assert len(ids) == len(set(ids)) > 10


def test_400_is_documented_everywhere(document: Any) -> None:
    assert [name for name, each in operations(document) if "400" not in each["responses"]] == []


def test_examples_are_what_the_schemas_allow(document: Any) -> None:
    checked = 0
    for name, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            validator = Draft202012Validator(
                {**content["schema"], "components": document["components"]}
            )
            for example in content.get("examples", {}).values():
                assert [*validator.iter_errors(example["value"])] == [], name
                checked += 1

    assert checked >= 4


def test_override_is_described_with_what_unsets_it(document: Any) -> None:
    schema = document["components"]["schemas"]["AIChatProtocol.Overrides"]["properties"]

    assert schema.keys() == Overrides.model_fields.keys() - {*INTERNAL_FIELDS}
    assert [name for name, each in schema.items() if not each.get("description")] == []
    assert schema["top"]["anyOf"] == [
        {"type": "integer", "minimum": 1, "maximum": 50},
        {"type": "null"},
        {"const": ""},
    ]


def test_status_of_every_error_is_described() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    statuses = {kind.status for kind in kinds if issubclass(kind, errors.ChatError)}

    assert statuses - {405} <= STATUSES.keys()


def test_docs_name_schemas_of_the_document(document: Any) -> None:
    text = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    named = set(re.findall(r"schema `([\w.]+)`", text))

    assert named
    assert named <= document["components"]["schemas"].keys()


def test_document_can_be_turned_off() -> None:
    (reply,) = run_calls({**FAKES, "OPENAPI": "off"}, DOCUMENT)

    assert (reply.status, "OPENAPI" in reply.json["error"]) == (404, True)


def test_app_with_wrong_settings_does_not_show_the_document() -> None:
    async def get(request: Call) -> int:
        app = start({"OPENAPI": "off", "CHAT_MODEL": "nonsense"})
        return (await read(await handle_call(app, request))).status

    assert asyncio.run(get(DOCUMENT)) == 503


def test_address_is_the_apps_own() -> None:
    urls = [
        get_document(**settings)["servers"][0]["url"]
        for settings in ({}, AZURE, {"PUBLIC_URL": "https://chat.example.com"})
    ]

    assert urls == ["/", "https://app.example.net", "https://chat.example.com"]


def security(document: Any, path: str, method: str = "post") -> list[str]:
    requirements = document["paths"][path][method]["security"]
    return [name for requirement in requirements for name in requirement]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, []), (AZURE, ["functionKey"]), (AZURE | SIGN_IN, ["signIn"])],
    ids=["laptop", "keys", "sign-in"],
)
def test_document_says_how_to_call(settings: dict[str, str], expected: list[str]) -> None:
    document = get_document(**settings)

    assert security(document, "/chat") == expected
    assert security(document, "/health", "get") == []
    assert document["components"]["securitySchemes"].keys() >= {*expected}


@pytest.mark.part("openai")
def test_openai_clients_are_told_the_key_of_the_app() -> None:
    document = get_document(**AZURE, CHAT_API_KEY="k" * 40)

    assert security(document, "/v1/chat/completions") == ["appKey", "appKeyAsBearer"]
    assert "k" * 40 not in json.dumps(document)
