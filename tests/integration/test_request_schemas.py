"""The request models of every protocol convert no value: a wrong type is an error of its field."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import shared.protocols

# Values of another type, by the type of the JSON schema. Without `strict`, pydantic converts them.
CONVERTIBLE = {"boolean": "true", "integer": "1", "number": "1.5", "string": b"text"}


def request_models() -> Iterator[type[BaseModel]]:
    for module in walk_packages(shared.protocols.__path__, "shared.protocols."):
        values = vars(import_module(module.name)).values()
        own = [each for each in values if getattr(each, "__module__", "") == module.name]
        models = [each for each in own if isinstance(each, type) and issubclass(each, BaseModel)]
        yield from (model for model in models if model.__name__ != "Paging")  # a query string


def scalar_types(schema: dict[str, Any]) -> set[str]:
    """The types of a property that are no lists and objects."""
    options = schema.get("anyOf", [schema])
    types = (option.get("type", ()) for option in options)
    listed = (each for kind in types for each in ([kind] if isinstance(kind, str) else kind))
    return {*listed} & CONVERTIBLE.keys()


ROWS = [
    pytest.param(model, name, kind, id=f"{model.__module__}.{model.__name__}.{name}")
    for model in request_models()
    for name, schema in model.model_json_schema()["properties"].items()
    if name in model.model_fields  # others, and values of any type, are checked by hand
    if model.model_fields[name].annotation is not Any
    if len(types := scalar_types(schema)) == 1
    for kind in types
]


@pytest.mark.parametrize(("model", "name", "kind"), ROWS)
def test_value_of_another_type_is_an_error_of_its_field(
    model: type[BaseModel], name: str, kind: str
) -> None:
    with pytest.raises(ValidationError) as failure:
        model.model_validate({name: CONVERTIBLE[kind]})

    places = {error["loc"][0] for error in failure.value.errors() if error["type"] != "missing"}
    assert name in places


def folders() -> set[str]:
    """The folders of the protocols that read requests."""
    folder = Path(shared.protocols.__file__).parent
    return {path.parent.relative_to(folder).parts[0] for path in folder.glob("*/**/request.py")}


def test_models_of_every_protocol_are_checked() -> None:
    assert {model.__module__.split(".")[2] for model in request_models()} >= folders() > set()
    assert len(ROWS) > 10


@pytest.mark.part("openai", "responses")
def test_most_fields_are_checked() -> None:
    assert len(ROWS) > 20 * len(folders())
