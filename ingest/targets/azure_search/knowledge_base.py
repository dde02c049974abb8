"""Creates, updates and removes a knowledge base, and its knowledge source over the app's index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import (
    KnowledgeBase,
    SearchIndex,
    SearchIndexKnowledgeSource,
)

from ingest.targets.azure_search.index_update import get_index
from ingest.targets.azure_search.knowledge_source import permission_options, remove_source
from ingest.targets.azure_search.openai_model import OpenAIModel
from ingest.targets.azure_search.service_calls import call_if_exists, call_service, merge
from ingest.targets.index_writer import DocumentRejected, IndexUnavailable
from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource as Source

NO_INDEX = "There is no index {index} at this service: fill it by `make index` first."
NO_RANKING = (
    "The index {index} has no semantic configuration, which a knowledge base needs. `make index` "
    "makes one where AZURE_SEARCH_SEMANTIC_CONFIGURATION names it."
)
MISSING_FIELDS = "The index {index} lacks the fields {names} (AZURE_SEARCH_FIELDS)."
OTHER_BASE = (
    "The knowledge base {name} has other knowledge sources: {sources}. Nothing was changed. Name "
    "another one in AZURE_SEARCH_KNOWLEDGE_BASE, or these in AZURE_SEARCH_KNOWLEDGE_SOURCES."
)
OTHER_SOURCE = (
    "The knowledge source {name} is not one over the index {index}. Nothing was changed. Name "
    "another one in AZURE_SEARCH_KNOWLEDGE_SOURCES."
)
NO_SOURCE = (
    "There is no knowledge source {name} at this service: create it first, by "
    "`make knowledge-base SOURCE=source.yaml`, or take it out of AZURE_SEARCH_KNOWLEDGE_SOURCES."
)
OTHER_KIND = (
    "The knowledge source {name} is of the kind {kind}: correct it in "
    "AZURE_SEARCH_KNOWLEDGE_SOURCES."
)
NO_PERMISSIONS = (
    "The knowledge source {name} has not taken over the permissions of its documents, as "
    "AZURE_SEARCH_KNOWLEDGE_SOURCES says it has. Remove it and create it anew with permissions."
)
ONLY_SOURCE = (
    "The knowledge source {name} is the only one of the base {base}. Remove the base first: "
    "`make knowledge-base ARGS=--remove`."
)
MODEL_REJECTED = (
    "{error} Is {model} among the models of a knowledge base (docs/knowledge-base.md)? --model "
    "gives the name of the deployment's model."
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A knowledge base, its sources, and the app's index."""

    base: str
    sources: tuple[Source, ...]
    index: str
    effort: str = "minimal"
    model: OpenAIModel | None = None  # of the other efforts

    @property
    def own_source(self) -> str | None:
        """The name of the source over the app's index: the first one of an index."""
        return next((each.name for each in self.sources if each.is_index), None)

    @property
    def other_sources(self) -> list[Source]:
        """The sources that exist already."""
        return [each for each in self.sources if each.name != self.own_source]

    def base_json(self) -> Mapping[str, Any]:
        """Return the definition of the base in the API 2026-10-01.

        The SDK's class has no effort, and keeps the fields of a mapping.
        """
        return {
            "name": self.base,
            "knowledgeSources": [{"name": each.name} for each in self.sources],
            "retrievalReasoningEffort": {"kind": self.effort},
            "outputMode": "extractiveData",
            **({"models": [self.model.to_json()]} if self.model else {}),
        }


async def create(
    client: SearchIndexClient, definition: Definition, fields: list[str], ranking: str | None
) -> SearchIndex | None:
    """Create or update the base, and its source over the app's index, if it has one.

    `fields` are those of a passage; `ranking` is the semantic configuration, by default the
    index's own. Returns that index. Raises IndexUnavailable.
    """
    index = await _read_index(client, definition.index) if definition.own_source else None
    parameters = _source_parameters(index, fields, ranking) if index else None
    existing_base = await _read_base(client, definition)
    existing_source = await _read_own_source(client, definition)
    for source in definition.other_sources:
        await _check_source(client, source)
    if parameters:
        known = existing_source and existing_source.get("searchIndexParameters")
        ours = {"name": definition.own_source, "kind": "searchIndex"}
        own = SearchIndexKnowledgeSource(merge(existing_source, ours))
        own["searchIndexParameters"] = merge(known, parameters)
        await call_service(client.create_or_update_knowledge_source, own)
    await _put_base(client, definition, existing_base)
    return index


async def _read_index(client: SearchIndexClient, name: str) -> SearchIndex:
    index = await call_service(get_index, client, name)
    if index is None:
        raise IndexUnavailable(NO_INDEX.format(index=name))
    return index


def _source_parameters(
    index: SearchIndex, fields: list[str], ranking: str | None
) -> dict[str, Any]:
    """Return the parameters of a source over an index. Raises IndexUnavailable."""
    _check_fields(index, fields)
    return {
        "searchIndexName": index.name,
        "semanticConfigurationName": _find_ranking(index, ranking),
        "sourceDataFields": [{"name": name} for name in fields],
    }


async def _put_base(
    client: SearchIndexClient, definition: Definition, existing: Mapping[str, Any] | None
) -> None:
    base = KnowledgeBase(merge(existing, definition.base_json()))
    if definition.model is None:
        base.pop("models", None)
    try:
        await call_service(client.create_or_update_knowledge_base, base)
    except DocumentRejected as error:
        if definition.model is None or isinstance(error, IndexUnavailable):
            raise
        raise IndexUnavailable(
            MODEL_REJECTED.format(error=error, model=definition.model.name)
        ) from error


async def remove(client: SearchIndexClient, definition: Definition) -> None:
    """Delete the base, then its source over the app's index, as far as they exist.

    Raises IndexUnavailable.
    """
    await _read_base(client, definition)
    await _read_own_source(client, definition)
    await call_if_exists(client.delete_knowledge_base, definition.base)
    if definition.own_source:
        await remove_source(client, definition.own_source)


async def remove_from_base(client: SearchIndexClient, base: str, source: str) -> None:
    """Take a source out of a base that has others, too. Raises IndexUnavailable."""
    existing = await call_if_exists(client.get_knowledge_base, base)
    known = existing.knowledge_sources if existing else []
    others = [each for each in known if each.name != source]
    if len(others) == len(known):
        return
    if not others:
        raise IndexUnavailable(ONLY_SOURCE.format(name=source, base=base))
    changed = KnowledgeBase(merge(existing, {"knowledgeSources": [dict(each) for each in others]}))
    await call_service(client.create_or_update_knowledge_base, changed)


async def _read_base(client: SearchIndexClient, definition: Definition) -> KnowledgeBase | None:
    """Return the base of our name. Raises IndexUnavailable for one with other sources."""
    base = await call_if_exists(client.get_knowledge_base, definition.base)
    sources = [each.name for each in base.knowledge_sources] if base else []
    if set(sources) - {each.name for each in definition.sources}:
        raise IndexUnavailable(OTHER_BASE.format(name=definition.base, sources=", ".join(sources)))
    return base


async def _read_own_source(
    client: SearchIndexClient, definition: Definition
) -> Mapping[str, Any] | None:
    """Return the source of our name. Raises IndexUnavailable for one that is not over our index."""
    name = definition.own_source
    source: Any = name and await call_if_exists(client.get_knowledge_source, name)
    parameters = getattr(source, "search_index_parameters", None)
    if source and (parameters is None or parameters.search_index_name != definition.index):
        raise IndexUnavailable(OTHER_SOURCE.format(name=name, index=definition.index))
    return source or None


async def _check_source(client: SearchIndexClient, source: Source) -> None:
    """Raise IndexUnavailable where a source is not as the settings say."""
    existing = await call_if_exists(client.get_knowledge_source, source.name)
    if existing is None:
        raise IndexUnavailable(NO_SOURCE.format(name=source.name))
    if existing["kind"] != source.kind:
        raise IndexUnavailable(OTHER_KIND.format(name=source.name, kind=existing["kind"]))
    if source.has_permissions and not permission_options(existing):
        raise IndexUnavailable(NO_PERMISSIONS.format(name=source.name))


def _find_ranking(index: SearchIndex, name: str | None) -> str:
    """Return the name of the semantic configuration. Raises IndexUnavailable."""
    semantic = index.semantic_search
    known = [each.name for each in (semantic.configurations or ())] if semantic else []
    default = semantic.default_configuration_name if semantic else None
    name = name or default or next(iter(known), None)
    if name not in known or name is None:
        raise IndexUnavailable(NO_RANKING.format(index=index.name))
    return name


def _check_fields(index: SearchIndex, names: list[str]) -> None:
    missing = sorted(set(names) - {each.name for each in index.fields})
    if missing:
        raise IndexUnavailable(MISSING_FIELDS.format(index=index.name, names=", ".join(missing)))
