"""A strict fake of Azure AI Search for ingestion: indexes, batches, searches, and faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.support.fake_index import FakeIndex, InvalidRequest, Json, require, validate_definition
from tests.support.fake_search import API_VERSION
from tests.support.upstream import (
    Exchange,
    RecordedRequest,
    Server,
    Step,
    error_response,
    json_response,
)

NEW_VERSION = "2026-10-01"  # of definitions, and where the service checks permissions
ELEVATED_READ = "x-ms-enable-elevated-read"
MAX_BYTES = 16 * 1024 * 1024
SEARCH = {"search", "filter", "select", "orderby", "top"}


@dataclass
class FakeIndexService(Server):
    """A service. `cut_at` is the request, counted from 1, at which the connection breaks.

    `cut` says when: before the request acts, when half of a batch has, or after all of it has.
    """

    indexes: dict[str, FakeIndex] = field(default_factory=dict)
    cut_at: int = 0
    cut: str = "before"

    def next_steps(self, request: RecordedRequest) -> list[Step]:
        if len(self.requests) != self.cut_at:
            return super().next_steps(request)
        if self.cut == "half" and "search.index" in request.path:
            half = request.body["value"][: len(request.body["value"]) // 2]
            request = replace(request, body={"value": half})
        if self.cut != "before":
            self.respond(request)
        return [Exchange.reset]

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        is_definition = re.match(r"/indexes\('[a-z0-9-]+'\)\?", request.path) is not None
        versions = (NEW_VERSION,) if is_definition else (API_VERSION, NEW_VERSION)
        if not any(f"api-version={each}" in request.path for each in versions):
            return error_response(400, code="InvalidApiVersion")
        if request.headers.get("authorization") != "Bearer token":
            return error_response(401)
        return None

    def respond(self, request: RecordedRequest) -> list[Step]:
        path = request.path.partition("?")[0]
        for form, act in self.routes().items():
            if match := re.fullmatch(form, f"{request.method} {path}"):
                try:
                    return act(match[1], request)
                except InvalidRequest as wrong:
                    return error_response(400, code=f"InvalidRequest: {wrong}")
        return error_response(400, code=f"no request of ours: {request.method} {request.path}")

    def routes(self) -> dict[str, Callable[[str, RecordedRequest], list[Step]]]:
        index = r"/indexes\('([a-z0-9-]+)'\)"
        return {
            f"GET {index}": self.get_index,
            f"PUT {index}": self.put_index,
            f"POST {index}/docs/search.index": self.batch,
            f"POST {index}/docs/search.post.search": self.search,
        }

    def get_index(self, name: str, _: RecordedRequest) -> list[Step]:
        index = self.indexes.get(name)
        return (
            json_response(index.definition)
            if index
            else error_response(404, code="ResourceNotFound")
        )

    def put_index(self, name: str, request: RecordedRequest) -> list[Step]:
        require(request.headers.get("prefer") == "return=representation", "no Prefer")
        require(request.body["name"] == name, "another name")
        if index := self.indexes.get(name):
            index.update(request.body)
        else:
            self.indexes[name] = FakeIndex(validate_definition(request.body))
        return json_response(self.indexes[name].definition, 200 if index else 201)

    def batch(self, name: str, request: RecordedRequest) -> list[Step]:
        index, actions = self.indexes[name], request.body["value"]
        if int(request.headers.get("content-length", 0)) > MAX_BYTES:
            return error_response(413)
        require(len(actions) <= 1000, "over 1000 actions")
        require(len({one.get(index.key) for one in actions}) == len(actions), "a key twice")
        for action in actions:
            index.check(action)
        results = [index.perform(action) for action in actions]
        return json_response(
            {"value": results}, 200 if all(one["status"] for one in results) else 207
        )

    def search(self, name: str, request: RecordedRequest) -> list[Step]:
        index, body = self.indexes[name], request.body
        require(not body.keys() - SEARCH and body["search"] == "*", "not such a search")
        require(body["top"] <= 1000, "over 1000 hits")
        require(index.field(body["orderby"])["sortable"] and body["orderby"] == index.key, "order")
        select = body["select"].split(",")
        require(all(index.field(one)["retrievable"] for one in select), "hidden field")
        found = index.filter(body.get("filter"))
        if index.definition.get("permissionFilterOption") == "enabled":
            elevated = request.headers.get(ELEVATED_READ) == "true"
            found = (doc for doc in found if elevated or "all" in doc["oids"])
        documents = list(found)[: body["top"]]
        return json_response({"value": [select_fields(doc, select) for doc in documents]})


def select_fields(doc: Json, select: list[str]) -> Json:
    return {"@search.score": 1.0, **{name: doc[name] for name in select}}
