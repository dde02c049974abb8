"""A search service that checks the permissions of documents by a token of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.fake_entra import search_token
from tests.support.fake_knowledge_base import FakeKnowledgeBase
from tests.support.fake_search import API_VERSION, SELECTS
from tests.support.upstream import RecordedRequest, Step, error_response

HEADER = "x-ms-query-source-authorization"
VERSION = "2026-10-01"


@dataclass
class PermissionService(FakeKnowledgeBase):
    """The fields `oids` and `groups` have `permissionFilter`; `members` are the groups by oid.

    `["all"]` is everyone, `["none"]` and `[]` are nobody. Without a token a search finds what is
    for everyone. An index that does not enforce them returns everything.
    """

    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    enforces: bool = True
    selects: Sequence[set[str]] = (*SELECTS, {"id", "oids", "groups"})

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        token = request.headers.get(HEADER)
        if token is not None and self.oid_of(token) is None:
            return error_response(401)
        if token is not None and f"api-version={VERSION}" not in request.path:
            return error_response(400, code="InvalidRequest")
        sources = request.body.get("knowledgeSourceParams", ())
        filters = [request.body.get("filter"), *(each.get("filterAddOn") for each in sources)]
        if any("oids" in each or "groups" in each for each in filters if each):
            return error_response(400, code="MixesTwoWays")
        return super().refusal(self.plain(request))

    def plain(self, request: RecordedRequest) -> RecordedRequest:
        """The same request in the version without tokens, as the other fakes know it."""
        if request.path.startswith("/knowledgebases"):
            return request
        return replace(request, path=request.path.replace(VERSION, API_VERSION))

    def oid_of(self, token: str) -> str | None:
        return next((oid for oid in self.members if token == search_token(oid)), None)

    def respond(self, request: RecordedRequest) -> list[Step]:
        oid = self.oid_of(request.headers.get(HEADER, ""))
        sources = {name: self.visible(oid, docs) for name, docs in self.sources.items()}
        view = replace(self, docs=self.visible(oid, self.docs), sources=sources)
        return FakeKnowledgeBase.respond(view, self.plain(request))

    def visible(
        self, oid: str | None, docs: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any]]:
        return [doc for doc in docs if not self.enforces or self.may_see(oid, doc)]

    def may_see(self, oid: str | None, doc: Mapping[str, Any]) -> bool:
        oids, groups = set(doc["oids"]), set(doc["groups"])
        if "all" in oids | groups:
            return True
        return oid is not None and (oid in oids or not groups.isdisjoint(self.members[oid]))
