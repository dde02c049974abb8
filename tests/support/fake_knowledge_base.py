"""A strict fake of a knowledge base, beside the index of its service.

Requests, responses and definitions are those of the REST API 2026-10-01.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_knowledge_sources import is_source
from tests.support.fake_search import FakeSearch, matches_filter
from tests.support.upstream import (
    RecordedRequest,
    Step,
    error_response,
    json_response,
    response_head,
)

VERSION = "2026-10-01"
PATH = f"/knowledgebases('kb')/retrieve?api-version={VERSION}"
DATA_FIELDS = ("id", "content", "sourcepage", "sourcefile", "category", "oids", "groups")
REQUEST = {
    *("intents", "messages", "retrievalReasoningEffort", "outputMode", "includeActivity"),
    *("maxOutputSizeInTokens", "maxOutputDocuments", "maxRuntimeInSeconds"),
    "knowledgeSourceParams",
}
PARAMETERS = {
    *("knowledgeSourceName", "kind", "includeReferences", "includeReferenceSourceData"),
    *("alwaysQuerySource", "failOnError", "rerankerThreshold", "maxOutputDocuments"),
    *("enableImageServing", "filterAddOn"),
}
# The field of a reference with the address of its document, by the kind of its source.
ADDRESSES = {
    "azureBlob": "blobUrl",
    "indexedSharePoint": "docUrl",
    "indexedOneLake": "docUrl",
    "indexedSql": "docUrl",
    "file": "docName",
}
DEFAULT_THRESHOLD = 2.5
DEFINITION = re.compile(
    rf"/((?:indexes|knowledgesources|knowledgebases)\('[\w-]+'\))\?api-version={VERSION}"
)
STATUS = re.compile(rf"/knowledgesources\('([\w-]+)'\)/status\?api-version={VERSION}")
BASE = {"name", "knowledgeSources", "retrievalReasoningEffort", "outputMode"}
MODELS = ("gpt-5-mini", "gpt-5-nano", "gpt-5.4-mini", "gpt-5.4-nano")
SOURCE = {"name", "kind", "searchIndexParameters"}
INDEX_PARAMETERS = {"searchIndexName", "semanticConfigurationName", "sourceDataFields"}


def references(definition: Mapping[str, Any], name: str) -> bool:
    """Whether a base has a source of this path."""
    sources = definition.get("knowledgeSources", ())
    return any(f"knowledgesources('{each['name']}')" == name for each in sources)


def is_base(definitions: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the service accepts the definition of a base. Only planning takes a model."""
    sources = [f"knowledgesources('{each['name']}')" for each in body["knowledgeSources"]]
    models = [each["azureOpenAIParameters"] for each in body.get("models", ())]
    has_model = body["retrievalReasoningEffort"]["kind"] in ("low", "medium")
    return (
        body.keys() - {"description"} == BASE | ({"models"} if has_model else set())
        and definitions.keys() >= {*sources}
        and len(models) == has_model
        and all(each.keys() == {"resourceUri", "deploymentId", "modelName"} for each in models)
        and all(each["modelName"] in MODELS for each in models)
    )


PLANNING = {
    "type": "modelQueryPlanning",
    "id": 99,
    "inputTokens": 1263,
    "outputTokens": 48,
    "elapsedMs": 900,
    "model": {"modelName": "gpt-5.4-mini", "deploymentId": "chat"},
}


def planned_query(body: Mapping[str, Any]) -> str:
    """The query that the model of the base plans for a conversation."""
    return f"planned: {body['messages'][-1]['content'][0]['text']}"


def document_elsewhere(name: str, address: str, **more: Any) -> dict[str, Any]:
    """A passage of a source that the service fills itself, with the fields of its index."""
    return {"uid": name, "snippet": f"The deductible in {name}.", "address": address, **more}


def is_message(message: Mapping[str, Any]) -> bool:
    """Whether this is a message of a conversation with a text."""
    return (
        message.keys() == {"role", "content"}
        and message["role"] in ("user", "assistant")
        and [each.keys() for each in message["content"]] == [{"type", "text"}]
        and all(each["type"] == "text" and each["text"] for each in message["content"])
    )


def is_definition(definitions: Mapping[str, Any], name: str, body: Mapping[str, Any]) -> bool:
    """Whether the service accepts the definition of a source or a base."""
    kind, _, own_name = name.rstrip("')").partition("('")
    if body["name"] != own_name:
        return False
    if kind == "knowledgebases":
        return is_base(definitions, body)
    if body["kind"] != "searchIndex":
        return is_source(body)
    parameters = body["searchIndexParameters"]
    index = definitions.get(f"indexes('{parameters['searchIndexName']}')")
    if body.keys() != SOURCE or parameters.keys() - {"baseFilter"} != INDEX_PARAMETERS:
        return False
    if index is None:
        return False
    fields = {field["name"] for field in index["fields"] if field.get("retrievable", True)}
    rankings = [each["name"] for each in index["semantic"]["configurations"]]
    return (
        fields >= {each["name"] for each in parameters["sourceDataFields"]}
        and parameters["semanticConfigurationName"] in rankings
    )


@dataclass
class FakeKnowledgeBase(FakeSearch):
    """A service with the index `docs` and the knowledge base `kb`.

    `sources` are the passages of its knowledge sources, by name; without any it has `docs`.
    """

    sources: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    # The kinds of those that are not over an index; their passages are of `document_elsewhere`.
    kinds: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)  # sources that do not respond
    data_fields: Sequence[str] = DATA_FIELDS  # `sourceDataFields` of each source
    effort: str = "minimal"  # of a base that is there from the start
    has_room: bool = True  # whether any passage fits into the response
    # By path, such as `knowledgebases('kb')`; None for a base that is there from the start.
    definitions: dict[str, Any] | None = None
    # The states of a source that the service fills, one for each request; the last one stays.
    statuses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def all_sources(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        return self.sources or {"docs": self.docs}

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        if DEFINITION.fullmatch(request.path) or STATUS.fullmatch(request.path):
            return None
        if not request.path.startswith("/knowledgebases"):
            return super().refusal(request)
        if not request.headers["authorization"].startswith("Bearer "):
            return error_response(401)
        missing = self.definitions is not None and "knowledgebases('kb')" not in self.definitions
        if request.path != PATH or missing:
            return error_response(404)
        return None if self.is_valid(request.body) else error_response(400, code="InvalidRequest")

    def is_valid(self, body: Mapping[str, Any]) -> bool:
        parameters = body.get("knowledgeSourceParams", [])
        return (
            body.keys() <= REQUEST
            # Refused beside the parameters of sources, as was found with the service.
            and "retrievalReasoningEffort" not in body
            and body.get("outputMode", "extractiveData") == "extractiveData"
            and self.is_valid_question(body)
            and all(map(self.is_valid_source, parameters))
        )

    def is_valid_question(self, body: Mapping[str, Any]) -> bool:
        if self.base_effort() == "minimal":
            intents = body.get("intents", [])
            return (
                "messages" not in body
                and all(each.keys() == {"type", "search"} for each in intents)
                and [each["type"] for each in intents] == ["semantic"]
            )
        messages = body.get("messages", [])
        return (
            "intents" not in body
            and all(map(is_message, messages))
            and [each["role"] for each in messages[-1:]] == ["user"]
        )

    def base_effort(self) -> str:
        if self.definitions is None:
            return self.effort
        return str(self.definitions["knowledgebases('kb')"]["retrievalReasoningEffort"]["kind"])

    def is_valid_source(self, parameters: Mapping[str, Any]) -> bool:
        return (
            parameters.keys() <= PARAMETERS
            and parameters["knowledgeSourceName"] in self.all_sources()
            and parameters["kind"] == self.kind_of(parameters["knowledgeSourceName"])
            and ("filterAddOn" not in parameters or parameters["kind"] == "searchIndex")
            and 0 <= parameters.get("rerankerThreshold", 0) <= 4
            and matches_filter(parameters.get("filterAddOn"), self.sample) is not None
        )

    def kind_of(self, source: str) -> str:
        return self.kinds.get(source, "searchIndex")

    def define(self, request: RecordedRequest, name: str) -> list[Step]:
        """Answer a request about the definition of an index, a source or a base."""
        definitions = self.definitions
        assert definitions is not None
        if request.method == "PUT":
            if not is_definition(definitions, name, request.body):
                return error_response(400, code="InvalidRequest")
            new = name not in definitions
            definitions[name] = request.body
            return json_response(request.body, 201 if new else 200)
        if name not in definitions:
            return error_response(404)
        if request.method == "DELETE":
            if any(references(each, name) for each in definitions.values()):
                return error_response(400, code="SourceInUse")
            del definitions[name]
            return [response_head(204)]
        return json_response(definitions[name])

    def respond(self, request: RecordedRequest) -> list[Step]:
        if match := DEFINITION.fullmatch(request.path):
            return self.define(request, match[1])
        if match := STATUS.fullmatch(request.path):
            states = self.statuses.get(match[1], [])
            return json_response(states.pop(0) if len(states) > 1 else states[0])
        if not request.path.startswith("/knowledgebases"):
            return super().respond(request)
        body = request.body
        options = {each["knowledgeSourceName"]: each for each in body["knowledgeSourceParams"]}
        activity: list[dict[str, Any]] = []
        references: list[dict[str, Any]] = []
        for id, (name, docs) in enumerate(self.all_sources().items(), 1):
            found = [] if name in self.failing else self.find(docs, options.get(name, {}))
            activity.append(self.describe(id, name, body, options.get(name, {}), len(found)))
            references += (self.refer(id, name, doc, options.get(name, {})) for doc in found)
        # Not in the order of their scores: nothing says that the service sorts them.
        references = references[: body.get("maxOutputDocuments", 50)][::-1]
        tokens = {"type": "agenticReasoning", "id": 0, "reasoningTokens": 4096}
        effort = {"retrievalReasoningEffort": {"kind": self.base_effort()}}
        if self.base_effort() != "minimal":
            activity.insert(0, PLANNING)
        passages = [
            {"ref_id": place, "title": "", "content": (each["sourceData"] or {}).get("content")}
            for place, each in enumerate(references)
        ]
        texts = [{"type": "text", "text": json.dumps(passages)}]
        return json_response(
            {
                "response": [{"role": "assistant", "content": texts}],
                "activity": [*activity, {**tokens, **effort}] if body["includeActivity"] else [],
                "references": references if self.has_room else [],
            },
            206 if self.failing else 200,
        )

    def find(
        self, docs: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        minimum = options.get("rerankerThreshold", DEFAULT_THRESHOLD)
        visible = [doc for doc in docs if matches_filter(options.get("filterAddOn"), doc)]
        return [doc for doc in visible if self.score(doc) >= minimum]

    def score(self, doc: Mapping[str, Any]) -> float:
        return self.reranks.get(doc.get("id") or doc["uid"], 1.5)

    def describe(
        self,
        id: int,
        name: str,
        body: Mapping[str, Any],
        options: Mapping[str, Any],
        count: int,
    ) -> dict[str, Any]:
        """The record of a source in `activity`."""
        arguments = {
            "search": planned_query(body) if "messages" in body else body["intents"][0]["search"],
            "filter": options.get("filterAddOn"),
            "sourceDataFields": [{"name": name} for name in self.data_fields],
            "searchFields": [],
            "semanticConfigurationName": "default",
        }
        failure = {"error": {"code": "x", "message": "words of the service"}}
        return {
            "type": self.kind_of(name),
            "id": id,
            "knowledgeSourceName": name,
            "queryTime": "2026-11-23T08:00:00.000Z",
            "count": count,
            "elapsedMs": 310,
            "searchIndexArguments": arguments,
            **(failure if name in self.failing else {}),
        }

    def refer(
        self, activity: int, source: str, doc: Mapping[str, Any], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A reference to a passage."""
        has_data = options.get("includeReferenceSourceData", False)
        kind = self.kind_of(source)
        if kind == "searchIndex":
            key, data = {"docKey": doc["id"]}, {name: doc[name] for name in self.data_fields}
        else:
            key, data = {ADDRESSES[kind]: doc["address"]}, {**doc}
            del data["address"]
            data = {name: data[name] for name in data if name not in ("oids", "groups")}
        return {
            "type": kind,
            "id": f"r-{doc.get('id') or doc['uid']}",
            "activitySource": activity,
            **key,
            "sourceData": data if has_data else None,
            "rerankerScore": self.score(doc),
        }
