"""Reads the response of a knowledge base: the passages, and what was done to find them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.errors import Misconfigured
from shared.domain.events import Source
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.knowledge_base.passages import ADDRESSES, to_source

FAILED = "The knowledge source {} failed: its passages are missing."
NO_PLAN = "The knowledge base could not plan its search: passages may be missing."
OTHER_KIND = "knowledge base: AZURE_SEARCH_KNOWLEDGE_SOURCES: the source {} is of the kind {}"
NO_ROOM = "The knowledge base found passages, and none had room in its response."

# The fields of `activity`, by what they count.
TOKENS = {
    "reasoning": "reasoningTokens",
    "planning_input": "inputTokens",
    "planning_output": "outputTokens",
}

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class KnowledgeResponse:
    """The passages of a knowledge base and its steps."""

    indexed: Sequence[Source]  # of indexes with the fields of the settings
    others: Sequence[Source]
    activity: Sequence[Mapping[str, Any]]
    tokens: Mapping[str, int]  # the sum of each kind: the service's, and those of the base's model
    has_references: bool

    @property
    def sources(self) -> list[Source]:
        """All passages, the best first."""
        passages = [*self.indexed, *self.others]
        return sorted(passages, key=lambda source: source.reranker_score or 0, reverse=True)

    def props(self) -> dict[str, Any]:
        """Return the queries that were run, and the tokens that were used."""
        queries = [
            {
                "source": each["knowledgeSourceName"],
                "search": (each.get("searchIndexArguments") or {}).get("search"),
                "count": each.get("count"),
                "milliseconds": each.get("elapsedMs"),
            }
            for each in self.activity
            if "knowledgeSourceName" in each
        ]
        return {"queries": queries, "tokens": self.tokens}

    def notes(self) -> Iterator[str]:
        """Yield sentences about what is missing."""
        for each in self.activity:
            if each.get("error"):
                name = each.get("knowledgeSourceName")
                yield FAILED.format(name) if name else NO_PLAN
        if not self.has_references and any(each.get("count") for each in self.activity):
            yield NO_ROOM


def parse_response(
    response: Mapping[str, Any],
    kinds: Mapping[str, str],
    fields: IndexFields,
    known: Collection[str] = (),
) -> KnowledgeResponse:
    """Read a response, with the passages of the sources alone that `kinds` names.

    A base may have other sources, whose passages no filter of the app restricts. A line of the log
    names the mistake if one is not `known` either. Raises Misconfigured if a passage lacks a field
    or is of another kind, and what malformed JSON does: AttributeError, LookupError, TypeError,
    ValueError.
    """
    steps, names = response["activity"], kinds.keys()
    activity = [each for each in steps if each.get("knowledgeSourceName") in (None, *names)]
    searches = [each for each in activity if "knowledgeSourceName" in each]
    sources = {each["id"]: each["knowledgeSourceName"] for each in searches}
    own = [each for each in response["references"] if each["activitySource"] in sources]
    others = {each.get("knowledgeSourceName") for each in steps} - {None, *names, *known}
    if others:
        log.warning("search: the knowledge base has a source that is not in the settings")
    passages: dict[bool, list[Source]] = {True: [], False: []}
    for reference in own:
        name = sources[reference["activitySource"]]
        if reference["type"] != kinds[name]:
            raise Misconfigured(cause=OTHER_KIND.format(name, reference["type"]))
        passages[reference["type"] in ADDRESSES].append(to_source(fields, reference))
    for each in passages.values():
        each.sort(key=lambda source: source.reranker_score or 0, reverse=True)
    return KnowledgeResponse(
        passages[False], passages[True], activity, count_tokens(activity), bool(own)
    )


def count_tokens(activity: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sum of each kind of tokens that an activity has."""
    sums = {name: sum(each.get(field) or 0 for each in activity) for name, field in TOKENS.items()}
    return {name: number for name, number in sums.items() if number}
