"""The indexers of the fake Azure AI Search: validates definitions and plays runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_index import FakeIndex, InvalidRequest, Json, names, require
from tests.support.fake_service import FakeIndexService
from tests.support.upstream import RecordedRequest, Step, error_response, json_response

SOURCE = {"name", "type", "credentials", "container", "dataDeletionDetectionPolicy"}
SKILLSET = {"name", "skills", "indexProjections"}
INDEXER = {
    *("name", "dataSourceName", "skillsetName", "targetIndexName"),
    *("parameters", "fieldMappings"),
}
SKILL = {"@odata.type", "name", "context", "inputs", "outputs"}
SKILLS: Mapping[str, set[str]] = {
    "#Microsoft.Skills.Text.SplitSkill": {
        *("textSplitMode", "maximumPageLength", "pageOverlapLength")
    },
    "#Microsoft.Skills.Text.AzureOpenAIEmbeddingSkill": {
        *("resourceUri", "deploymentId", "modelName", "dimensions")
    },
}
CONFIGURATION = {
    *("dataToExtract", "imageAction", "excludedFileNameExtensions"),
    *("failOnUnsupportedContentType", "failOnUnprocessableDocument"),
}
FUNCTIONS = {"base64Encode", "urlDecode"}


def indexer_run(start: int, done: int = 0, failed: int = 0, **more: Any) -> Json:
    """A run in the form of the status; it started at minute `start`."""
    return {
        "status": "success",
        "errorMessage": None,
        "startTime": f"2026-01-01T00:{start:02}:00Z",
        "endTime": None,
        "itemsProcessed": done,
        "itemsFailed": failed,
        "errors": [],
        "warnings": [],
        **more,
    }


@dataclass
class FakeIndexerService(FakeIndexService):
    """`runs` are the results of status requests, the last one repeated; None before any run."""

    sources: dict[str, Json] = field(default_factory=dict)
    skillsets: dict[str, Json] = field(default_factory=dict)
    indexers: dict[str, Json] = field(default_factory=dict)
    runs: list[Json | None] = field(default_factory=lambda: [None])
    busy: bool = False

    def routes(self) -> dict[str, Callable[[str, RecordedRequest], list[Step]]]:
        def pattern(kind: str) -> str:
            return rf"/{kind}\('([a-z0-9-]+)'\)"

        return super().routes() | {
            f"PUT {pattern('datasources')}": self.put_source,
            f"PUT {pattern('skillsets')}": self.put_skillset,
            f"PUT {pattern('indexers')}": self.put_indexer,
            f"POST {pattern('indexers')}/search.run": self.start,
            f"GET {pattern('indexers')}/search.status": self.status,
        }

    def put_source(self, name: str, request: RecordedRequest) -> list[Step]:
        body = request.body
        require(not body.keys() - SOURCE and body["type"] == "azureblob", "not such a data source")
        key = body["credentials"]["connectionString"]
        require(key.startswith("ResourceId=/subscriptions/") and key.endswith(";"), "with a key")
        require(body["container"].keys() <= {"name", "query"}, "container")
        self.sources[name] = body
        return json_response(body, 201)

    def put_skillset(self, name: str, request: RecordedRequest) -> list[Step]:
        body = request.body
        require(not body.keys() - SKILLSET, f"unknown {body.keys() - SKILLSET}")
        outputs = {"/document/content", "/document/sourcefile", "/document/category"}
        for skill in body["skills"]:
            require(not skill.keys() - SKILL - SKILLS[skill["@odata.type"]], "unknown in a skill")
            require(
                {one["source"] for one in skill["inputs"]} <= outputs, "an input that nothing makes"
            )
            outputs |= {f"{skill['context']}/{one['targetName']}" for one in skill["outputs"]}
            outputs |= {f"{one}/*" for one in outputs if one.endswith("/pages")}
        for selector in body["indexProjections"]["selectors"]:
            self.check_selector(selector, outputs)
        self.skillsets[name] = body
        return json_response(body, 201)

    def check_selector(self, selector: Json, outputs: set[str]) -> None:
        index = self.index(selector["targetIndexName"])
        require(index.field(index.key).get("analyzer") == "keyword", "a key without keyword")
        parent = index.field(selector["parentKeyFieldName"])
        require(parent["filterable"] and not parent["key"], "not for parents")
        for mapping in selector["mappings"]:
            require(index.field(mapping["name"]) != parent, "a mapping for parents")
            require(mapping["source"] in outputs, f"nothing makes {mapping['source']}")

    def index(self, name: str) -> FakeIndex:
        if name not in self.indexes:
            raise InvalidRequest(f"no index {name}")
        return self.indexes[name]

    def put_indexer(self, name: str, request: RecordedRequest) -> list[Step]:
        body = request.body
        require(not body.keys() - INDEXER, f"unknown {body.keys() - INDEXER}")
        require(not body["parameters"]["configuration"].keys() - CONFIGURATION, "configuration")
        require(body["dataSourceName"] in self.sources, "no such data source")
        require(body["skillsetName"] in self.skillsets, "no such skillset")
        targets = {one["targetFieldName"] for one in body["fieldMappings"]}
        fields = self.index(body["targetIndexName"]).definition["fields"]
        require(targets <= names(fields), "mapped to no field")
        used = {one["mappingFunction"]["name"] for one in body["fieldMappings"]}
        require(used <= FUNCTIONS, "no such function")
        self.indexers[name] = body
        return json_response(body, 201)

    def start(self, name: str, _: RecordedRequest) -> list[Step]:
        if self.busy:
            return error_response(409, code="OperationNotAllowed")
        return json_response(None, 202) if name in self.indexers else error_response(404)

    def status(self, name: str, _: RecordedRequest) -> list[Step]:
        if name not in self.indexers:
            return error_response(404)
        last = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        limits = {"maxRunTime": "PT2H"}
        body = {"name": name, "status": "running", "lastResult": last, "limits": limits}
        return json_response({**body, "executionHistory": []})
