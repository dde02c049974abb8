"""Values of a JSON schema in which one list is longer than the others.

Every list and every object of free keys of a schema has its place, at any depth, so that a new
field of a model is measured without a new line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel

Schema = Mapping[str, Any]
Make = Callable[[int], Any]
"""Makes a value whose list has so many entries."""

ANY: Schema = {}
TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object", "additionalProperties": True}
IMAGE = "data:image/png;base64,iVBORw0KGgo="
# Texts that must have a form, by the name of their field.
TEXTS = {
    "url": IMAGE,
    "image_url": IMAGE,
    "images": "iVBORw0KGgo=",
    "endpoint": "https://a.example",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A list in a value, and how to make it longer. `valid`: it is accepted with one entry."""

    path: str
    make: Make
    valid: bool = True


def schema_of(model: type[BaseModel], **properties: Schema) -> Schema:
    """Return the schema of a model, with more properties: what its parser reads by hand."""
    schema = model.model_json_schema()
    inlined = _inline(schema, schema.get("$defs", {}))
    merged = {**inlined.get("properties", {}), **properties}
    return {**inlined, "properties": merged, "models": frozenset(_reach(model))}


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if reference := schema.get("$ref"):
        return _inline(definitions[reference.rpartition("/")[2]], definitions)
    return {key: _inline(each, definitions) for key, each in schema.items() if key != "$defs"}


def _reach(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models of a type, of its bases and of its fields."""
    for argument in get_args(annotation):
        yield from _reach(argument)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from (base for base in annotation.__mro__ if issubclass(base, BaseModel))
        for field in annotation.model_fields.values():
            yield from _reach(field.annotation)


def models_of(schema: Any) -> frozenset[type[BaseModel]]:
    """Return the models that a schema is made of."""
    if not isinstance(schema, Mapping | list | tuple):
        return frozenset()
    inner = schema.values() if isinstance(schema, Mapping) else schema
    own = schema.get("models", ()) if isinstance(schema, Mapping) else ()
    return frozenset(own).union(*map(models_of, inner))


def fields(**properties: Schema) -> Schema:
    """Return the schema of an object that has all these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def array(*items: Schema, **more: Any) -> Schema:
    """Return the schema of a list, whose entries have one of these schemas."""
    return {"type": "array", "items": either(*items), **more}


def either(*schemas: Schema) -> Schema:
    """Return the schema of a value that has one of these schemas."""
    return {"anyOf": schemas}


def const(value: Any) -> Schema:
    """Return the schema of one value."""
    return {"const": value}


def sample(schema: Schema, number: int = 0, name: str = "", full: bool = False) -> Any:
    """Return a valid value, whose texts have a number of a fixed length.

    `full`: with its optional fields, but for lists.
    """
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], number, name, full)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    match schema.get("type", "string"):
        case "object":
            return {
                key: sample(each, number, key, full)
                for key, each in schema.get("properties", {}).items()
                if key in schema.get("required", ()) or (full and not _has_list(each))
            }
        case "array":
            return entries(schema["items"], name, schema.get("minItems", 0))
        case "string":
            return TEXTS.get(name, f"a{number:06}")
        case kind:
            return schema.get("minimum", False if kind == "boolean" else 1)


def _has_list(schema: Schema) -> bool:
    """Whether the first form of a value is a list, or an object of free keys."""
    schema = schema.get("anyOf", [schema])[0]
    return schema.get("type") == "array" or "additionalProperties" in schema


def entries(items: Schema, name: str, count: int) -> list[Any]:
    """Return the entries of a list, of all kinds in turn."""
    kinds = list(variants(items))
    return [
        sample(kinds[place % len(kinds)], place // len(kinds), name, full=True)
        for place in range(count)
    ]


def keys(count: int) -> dict[str, Any]:
    """Return an object of so many keys."""
    return _free_keys(True, count)


def variants(schema: Schema) -> Iterator[Schema]:
    """Yield the kinds of a value: each alternative, and each word that a field of it may have."""
    if "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from variants(each)
        return
    properties = schema.get("properties", {})
    named = next((key for key, each in properties.items() if "enum" in each), None)
    for word in properties[named]["enum"] if named else (None,):
        yield {**schema, "properties": {**properties, named: const(word)}} if named else schema


def places(schema: Schema, name: str = "", full: bool = False) -> Iterator[Place]:
    """Yield the lists of a value of this schema; `full` as in `sample`."""
    for each in variants(schema):
        if not each.keys() - {"title", "default", "description"}:  # anything
            yield Place("[]", partial(entries, TEXT, name), valid=False)
            yield Place("{}", keys, valid=False)
        if each.get("type") == "array":
            yield from _in_array(each, name)
        if each.get("additionalProperties"):
            yield Place("{}", partial(_free_keys, each["additionalProperties"]))
        for key, inner in each.get("properties", {}).items():
            for place in places(inner, key, full):
                make = partial(_with_key, sample(each, full=full), key, place.make)
                yield Place(f".{key}{place.path}", make, place.valid)


def _in_array(schema: Schema, name: str) -> Iterator[Place]:
    prefix, kinds = schema.get("prefix", []), list(variants(schema["items"]))
    for kind in kinds:
        label = f"[{_label(kind)}]"
        yield Place(label, partial(_after, prefix, kind, name))
        for place in places(kind, name, full=True):
            yield Place(f"{label}{place.path}", partial(_single, place.make), place.valid)
    if len(kinds) > 1:
        yield Place("[mixed]", partial(_after, prefix, schema["items"], name))
    yield Place("[wrong]", lambda count: [{}] * count, valid=False)


def _after(prefix: list[Any], items: Schema, name: str, count: int) -> list[Any]:
    return [*prefix, *entries(items, name, count)]


def _single(make: Make, count: int) -> list[Any]:
    return [make(count)]


def _with_key(rest: Mapping[str, Any], key: str, make: Make, count: int) -> dict[str, Any]:
    return {**rest, key: make(count)}


def _free_keys(schema: Schema | bool, count: int) -> dict[str, Any]:
    """Return an object of so many keys with valid values."""
    value = sample(schema) if isinstance(schema, Mapping) else [0]
    return {f"key{place:06}": value for place in range(count)}


def _label(schema: Schema) -> str:
    """The words by which a kind of entry is known."""
    constants = (each.get("const") for each in schema.get("properties", {}).values())
    return " ".join(str(each) for each in constants if each is not None)
