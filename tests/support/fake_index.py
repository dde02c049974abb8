"""An index of the fake Azure AI Search: validates definitions, documents and filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Json = dict[str, Any]

ATTRIBUTES = ("key", "retrievable", "searchable", "filterable", "sortable", "facetable")
FIELD = {*ATTRIBUTES, "name", "type", "stored", "analyzer", "dimensions", "vectorSearchProfile"}
FIELD |= {"permissionFilter"}
INDEX = {"name", "fields", "semantic", "vectorSearch", "scoringProfiles", "@odata.etag"}
INDEX |= {"permissionFilterOption"}
ANALYZERS = {"standard.lucene", "simple", "keyword", "en.lucene"}
TYPES = {"Edm.String", "Collection(Edm.String)", "Collection(Edm.Single)", "Edm.Int32"}
KEY = re.compile(r"[A-Za-z0-9=-][A-Za-z0-9_=-]{0,1023}")  # not `_` at first
TERM = re.compile(r"(\w+) (eq|ne|gt|lt) (?:(null)|'((?:[^']|'')*)')")
NOT_FOR_ALL = re.compile(r"not (\w+)/any\(o: o eq 'all'\)")
ANY = re.compile(r"\((\w+)/any\(\)(?: or (\w+)/any\(\))?\)")  # lists that are not empty


class InvalidRequest(Exception):
    """A request that the service would answer with 400."""


def require(holds: object, why: str) -> None:
    if not holds:
        raise InvalidRequest(why)


def names(parts: Any) -> set[str]:
    return {part["name"] for part in parts or ()}


def validate_definition(definition: Json) -> Json:
    """Returns a definition as the service stores it, with every attribute."""
    require(not definition.keys() - INDEX, f"unknown {definition.keys() - INDEX}")
    fields = [validate_field(one) for one in definition["fields"]]
    require([one["type"] for one in fields if one["key"]] == ["Edm.String"], "one key, of text")
    require(len(names(fields)) == len(fields), "a name twice")
    validate_vectors(fields, definition.get("vectorSearch") or {})
    text = {one["name"] for one in fields if one["searchable"] and one["retrievable"]}
    for ranking in (definition.get("semantic") or {}).get("configurations", ()):
        used = ranking["prioritizedFields"]
        ranked = [used["titleField"], *used["prioritizedContentFields"]]
        require({one["fieldName"] for one in ranked} <= text, "ranked, and not searchable")
    return {**definition, "fields": fields}


def validate_field(definition: Json) -> Json:
    require(not definition.keys() - FIELD, f"unknown {definition.keys() - FIELD}")
    require(definition["type"] in TYPES, f"type {definition['type']}")
    require(definition.get("analyzer") in {None, *ANALYZERS}, "unknown analyzer")
    vector = definition["type"] == "Collection(Edm.Single)"
    require(
        not definition.get("analyzer") or definition.get("searchable"),
        "analyzed, and not searchable",
    )
    require(vector == ("dimensions" in definition), "vectors have dimensions, and nothing else has")
    require(
        not (definition["type"].startswith("Coll") and definition.get("sortable")),
        "sorted by a list",
    )
    attributes = {
        trait: bool(definition.get(trait, trait == "retrievable")) for trait in ATTRIBUTES
    }
    return {**definition, **attributes}


def validate_vectors(fields: list[Json], search: Json) -> None:
    for profile in search.get("profiles", ()):
        require(profile["algorithm"] in names(search["algorithms"]), "no such algorithm")
        require(profile.get("compression") in {None, *names(search["compressions"])}, "compression")
        require(profile.get("vectorizer") in {None, *names(search["vectorizers"])}, "no vectorizer")
    used = {one["vectorSearchProfile"] for one in fields if "dimensions" in one}
    require(used <= names(search.get("profiles")), "no such profile")


@dataclass
class FakeIndex:
    """A definition and the documents. `statuses`: by key, the results of its next actions."""

    definition: Json
    docs: dict[str, Json] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)

    def field(self, name: str) -> Json:
        match = next((one for one in self.definition["fields"] if one["name"] == name), None)
        require(match, f"no field {name}")
        return match or {}

    @property
    def key(self) -> str:
        return str(next(one["name"] for one in self.definition["fields"] if one["key"]))

    def update(self, definition: Json) -> None:
        """Replace the definition. Fields may be added, but not changed or removed."""
        new = validate_definition(definition)
        fields = {one["name"]: one for one in new["fields"]}
        for one in self.definition["fields"]:
            require(fields.get(one["name"]) == one, f"field {one['name']} was changed")
        self.definition = new

    def perform(self, action: Json) -> Json:
        """Execute one action of a batch, and return its result."""
        key, status = action[self.key], 200
        planned = self.statuses.get(key)
        if planned and (status := planned.pop(0)) != 200:
            return self.result(key, status)
        match action["@search.action"]:
            case "delete":
                self.docs.pop(key, None)
            case "merge" if key not in self.docs:
                status = 404
            case _:
                status = 200 if key in self.docs else 201
                empty = {one["name"]: None for one in self.definition["fields"]}
                values = {name: value for name, value in action.items() if name[0] != "@"}
                self.docs[key] = empty | self.docs.get(key, {}) | values
        return self.result(key, status)

    def result(self, key: str, status: int) -> Json:
        message = None if status < 300 else "the service's\nown words"
        return {"key": key, "status": status < 300, "errorMessage": message, "statusCode": status}

    def check(self, action: Json) -> None:
        """Raises InvalidRequest for an action that makes the service reject the whole batch."""
        kinds = {"upload", "merge", "mergeOrUpload", "delete"}
        require(action.get("@search.action") in kinds, "no such action")
        require(KEY.fullmatch(action.get(self.key) or ""), "no key, or not one")
        for name, value in action.items():
            if name[0] != "@" and value is not None:
                check_value(self.field(name), value)

    def filter(self, condition: str | None) -> Iterator[Json]:
        """The documents that match a filter, in the order of their keys."""
        terms = [self.term(term) for term in (condition or "").split(" and ") if term]
        for key in sorted(self.docs):
            if all(holds(self.docs[key]) for holds in terms):
                yield self.docs[key]

    def term(self, text: str) -> Callable[[Json], bool]:
        """Returns the predicate of one term of a filter."""
        if match := NOT_FOR_ALL.fullmatch(text):
            name = match[1]
            require(self.field(name)["filterable"], f"no filter: {text}")
            return lambda doc: "all" not in doc[name]
        if match := ANY.fullmatch(text):
            lists = [self.field(name) for name in match.groups() if name]
            require(
                all(one["type"] == "Collection(Edm.String)" for one in lists), f"no list: {text}"
            )
            require(all(one["filterable"] for one in lists), f"no filter: {text}")
            return lambda doc: any(doc[one["name"]] for one in lists)
        if (match := TERM.fullmatch(text)) and self.field(match[1])["filterable"]:
            return partial(matches_term, match)
        raise InvalidRequest(f"no filter: {text}")


def check_value(field: Json, value: Any) -> None:
    match field["type"]:
        case "Edm.String":
            require(isinstance(value, str), f"{field['name']} is no text")
        case "Collection(Edm.Single)":
            require(len(value) == field["dimensions"], "wrong dimensions")
        case _:
            require(isinstance(value, list), f"{field['name']} is no list")


def matches_term(term: re.Match[str], doc: Mapping[str, Any]) -> bool:
    name, operator, null, text = term.groups()
    mine, other = doc[name], None if null else text.replace("''", "'")
    if operator in ("gt", "lt"):
        return mine is not None and (mine > other if operator == "gt" else mine < other)
    return bool((mine == other) == (operator == "eq"))
