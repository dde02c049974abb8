"""One index of a strict Azure AI Search: which definitions, documents and filters it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Json = dict[str, Any]

TRAITS = ("key", "retrievable", "searchable", "filterable", "sortable", "facetable")
FIELD = {*TRAITS, "name", "type", "stored", "analyzer", "dimensions", "vectorSearchProfile"}
INDEX = {"name", "fields", "semantic", "vectorSearch", "scoringProfiles", "@odata.etag"}
ANALYZERS = {"standard.lucene", "simple", "keyword", "en.lucene"}
TYPES = {"Edm.String", "Collection(Edm.String)", "Collection(Edm.Single)", "Edm.Int32"}
KEY = re.compile(r"[A-Za-z0-9=-][A-Za-z0-9_=-]{0,1023}")  # not `_` at first
TERM = re.compile(r"(\w+) (eq|ne|gt) (?:(null)|'((?:[^']|'')*)')")
ANY = re.compile(r"\((\w+)/any\(\)(?: or (\w+)/any\(\))?\)")  # lists that are not empty


class Wrong(Exception):
    """What the service would answer 400 to."""


def need(holds: object, why: str) -> None:
    if not holds:
        raise Wrong(why)


def names(parts: Any) -> set[str]:
    return {part["name"] for part in parts or ()}


def checked(given: Json) -> Json:
    """A definition as the service keeps it: every trait said."""
    need(not given.keys() - INDEX, f"unknown {given.keys() - INDEX}")
    fields = [checked_field(one) for one in given["fields"]]
    need([one["type"] for one in fields if one["key"]] == ["Edm.String"], "one key, of text")
    need(len(names(fields)) == len(fields), "a name twice")
    check_vectors(fields, given.get("vectorSearch") or {})
    text = {one["name"] for one in fields if one["searchable"] and one["retrievable"]}
    for ranking in (given.get("semantic") or {}).get("configurations", ()):
        used = ranking["prioritizedFields"]
        ranked = [used["titleField"], *used["prioritizedContentFields"]]
        need({one["fieldName"] for one in ranked} <= text, "ranked, and not searchable")
    return {**given, "fields": fields}


def checked_field(given: Json) -> Json:
    need(not given.keys() - FIELD, f"unknown {given.keys() - FIELD}")
    need(given["type"] in TYPES, f"type {given['type']}")
    need(given.get("analyzer") in {None, *ANALYZERS}, "unknown analyzer")
    vector = given["type"] == "Collection(Edm.Single)"
    need(not given.get("analyzer") or given.get("searchable"), "analyzed, and not searchable")
    need(vector == ("dimensions" in given), "vectors have dimensions, and nothing else has")
    need(not (given["type"].startswith("Coll") and given.get("sortable")), "sorted by a list")
    whole = {trait: bool(given.get(trait, trait == "retrievable")) for trait in TRAITS}
    return {**given, **whole}


def check_vectors(fields: list[Json], search: Json) -> None:
    for profile in search.get("profiles", ()):
        need(profile["algorithm"] in names(search["algorithms"]), "no such algorithm")
        need(profile.get("compression") in {None, *names(search["compressions"])}, "compression")
        need(profile.get("vectorizer") in {None, *names(search["vectorizers"])}, "no vectorizer")
    used = {one["vectorSearchProfile"] for one in fields if "dimensions" in one}
    need(used <= names(search.get("profiles")), "no such profile")


@dataclass
class Index:
    """A definition and the documents. `refusing`: what a key gets the next times it is sent."""

    definition: Json
    docs: dict[str, Json] = field(default_factory=dict)
    refusing: dict[str, list[int]] = field(default_factory=dict)

    def field(self, name: str) -> Json:
        found = next((one for one in self.definition["fields"] if one["name"] == name), None)
        need(found, f"no field {name}")
        return found or {}

    @property
    def key(self) -> str:
        return str(next(one["name"] for one in self.definition["fields"] if one["key"]))

    def update(self, given: Json) -> None:
        """Take a new definition. Fields may be added; none may change or go."""
        new = checked(given)
        kept = {one["name"]: one for one in new["fields"]}
        for one in self.definition["fields"]:
            need(kept.get(one["name"]) == one, f"field {one['name']} was changed")
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
        need(action.get("@search.action") in kinds, "no such action")
        need(KEY.fullmatch(action.get(self.key) or ""), "no key, or not one")
        for name, value in action.items():
            if name[0] != "@" and value is not None:
                check_value(self.field(name), value)

    def chosen(self, condition: str | None) -> Iterator[Json]:
        """The documents that a filter lets through, in the order of their keys."""
        terms = [self.term(term) for term in (condition or "").split(" and ") if term]
        for key in sorted(self.docs):
            if all(holds(self.docs[key]) for holds in terms):
                yield self.docs[key]

    def term(self, text: str) -> Callable[[Json], bool]:
        """Whether a part of a filter holds for a document."""
        if found := ANY.fullmatch(text):
            lists = [self.field(name) for name in found.groups() if name]
            need(all(one["type"] == "Collection(Edm.String)" for one in lists), f"no list: {text}")
            need(all(one["filterable"] for one in lists), f"no filter: {text}")
            return lambda doc: any(doc[one["name"]] for one in lists)
        if (found := TERM.fullmatch(text)) and self.field(found[1])["filterable"]:
            return partial(holds, found)
        raise Wrong(f"no filter: {text}")


def check_value(field: Json, value: Any) -> None:
    match field["type"]:
        case "Edm.String":
            need(isinstance(value, str), f"{field['name']} is no text")
        case "Collection(Edm.Single)":
            need(len(value) == field["dimensions"], "wrong dimensions")
        case _:
            need(isinstance(value, list), f"{field['name']} is no list")


def holds(term: re.Match[str], doc: Mapping[str, Any]) -> bool:
    name, operator, null, text = term.groups()
    mine, other = doc[name], None if null else text.replace("''", "'")
    if operator == "gt":
        return mine is not None and mine > other
    return bool((mine == other) == (operator == "eq"))
