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
INDEX = {"name", "fields", "semantic", "vectorSearch", "scoringProfiles", "@odata.etag"}
ANALYZERS = {"standard.lucene", "simple", "keyword", "en.lucene"}
TYPES = {"Edm.String", "Collection(Edm.String)", "Collection(Edm.Single)", "Edm.Int32"}
KEY = re.compile(r"[A-Za-z0-9=-][A-Za-z0-9_=-]{0,1023}")  # not `_` at first
TERM = re.compile(r"(\w+) (eq|ne|gt) (?:(null)|'((?:[^']|'')*)')")
ANY = re.compile(r"\((\w+)/any\(\)(?: or (\w+)/any\(\))?\)")  # lists that are not empty


class InvalidRequest(Exception):
    """What the service would answer 400 to."""


def require(holds: object, why: str) -> None:
    if not holds:
        raise InvalidRequest(why)


def names(parts: Any) -> set[str]:
    return {part["name"] for part in parts or ()}


def validate_definition(given: Json) -> Json:
    """A definition as the service keeps it: every trait said."""
    require(not given.keys() - INDEX, f"unknown {given.keys() - INDEX}")
    fields = [validate_field(one) for one in given["fields"]]
    require([one["type"] for one in fields if one["key"]] == ["Edm.String"], "one key, of text")
    require(len(names(fields)) == len(fields), "a name twice")
    validate_vectors(fields, given.get("vectorSearch") or {})
    text = {one["name"] for one in fields if one["searchable"] and one["retrievable"]}
    for ranking in (given.get("semantic") or {}).get("configurations", ()):
        used = ranking["prioritizedFields"]
        ranked = [used["titleField"], *used["prioritizedContentFields"]]
        require({one["fieldName"] for one in ranked} <= text, "ranked, and not searchable")
    return {**given, "fields": fields}


def validate_field(given: Json) -> Json:
    require(not given.keys() - FIELD, f"unknown {given.keys() - FIELD}")
    require(given["type"] in TYPES, f"type {given['type']}")
    require(given.get("analyzer") in {None, *ANALYZERS}, "unknown analyzer")
    vector = given["type"] == "Collection(Edm.Single)"
    require(not given.get("analyzer") or given.get("searchable"), "analyzed, and not searchable")
    require(vector == ("dimensions" in given), "vectors have dimensions, and nothing else has")
    require(not (given["type"].startswith("Coll") and given.get("sortable")), "sorted by a list")
    whole = {trait: bool(given.get(trait, trait == "retrievable")) for trait in ATTRIBUTES}
    return {**given, **whole}


def validate_vectors(fields: list[Json], search: Json) -> None:
    for profile in search.get("profiles", ()):
        require(profile["algorithm"] in names(search["algorithms"]), "no such algorithm")
        require(profile.get("compression") in {None, *names(search["compressions"])}, "compression")
        require(profile.get("vectorizer") in {None, *names(search["vectorizers"])}, "no vectorizer")
    used = {one["vectorSearchProfile"] for one in fields if "dimensions" in one}
    require(used <= names(search.get("profiles")), "no such profile")


@dataclass
class FakeIndex:
    """A definition and the documents. `refusing`: what a key gets the next times it is sent."""

    definition: Json
    docs: dict[str, Json] = field(default_factory=dict)
    refusing: dict[str, list[int]] = field(default_factory=dict)

    def field(self, name: str) -> Json:
        found = next((one for one in self.definition["fields"] if one["name"] == name), None)
        require(found, f"no field {name}")
        return found or {}

    @property
    def key(self) -> str:
        return str(next(one["name"] for one in self.definition["fields"] if one["key"]))

    def update(self, given: Json) -> None:
        """Take a new definition. Fields may be added; none may change or go."""
        new = validate_definition(given)
        kept = {one["name"]: one for one in new["fields"]}
        for one in self.definition["fields"]:
            require(kept.get(one["name"]) == one, f"field {one['name']} was changed")
        self.definition = new

    def perform(self, action: Json) -> Json:
        """Do one action of a batch; its result."""
        key, status = action[self.key], 200
        planned = self.refusing.get(key)
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
                given = {name: value for name, value in action.items() if name[0] != "@"}
                self.docs[key] = empty | self.docs.get(key, {}) | given
        return self.result(key, status)

    def result(self, key: str, status: int) -> Json:
        said = None if status < 300 else "the service's\nown words"
        return {"key": key, "status": status < 300, "errorMessage": said, "statusCode": status}

    def check(self, action: Json) -> None:
        """Refuse an action that the whole batch would be refused for."""
        kinds = {"upload", "merge", "mergeOrUpload", "delete"}
        require(action.get("@search.action") in kinds, "no such action")
        require(KEY.fullmatch(action.get(self.key) or ""), "no key, or not one")
        for name, value in action.items():
            if name[0] != "@" and value is not None:
                check_value(self.field(name), value)

    def filter(self, condition: str | None) -> Iterator[Json]:
        """The documents that a filter lets through, in the order of their keys."""
        terms = [self.term(term) for term in (condition or "").split(" and ") if term]
        for key in sorted(self.docs):
            if all(holds(self.docs[key]) for holds in terms):
                yield self.docs[key]

    def term(self, text: str) -> Callable[[Json], bool]:
        """Whether a part of a filter holds for a document."""
        if found := ANY.fullmatch(text):
            lists = [self.field(name) for name in found.groups() if name]
            require(
                all(one["type"] == "Collection(Edm.String)" for one in lists), f"no list: {text}"
            )
            require(all(one["filterable"] for one in lists), f"no filter: {text}")
            return lambda doc: any(doc[one["name"]] for one in lists)
        if (found := TERM.fullmatch(text)) and self.field(found[1])["filterable"]:
            return partial(matches_term, found)
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
    if operator == "gt":
        return mine is not None and mine > other
    return bool((mine == other) == (operator == "eq"))
