"""Creates, updates and removes a knowledge base with one knowledge source, the app's index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from azure.core.exceptions import ResourceNotFoundError
from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import (
    KnowledgeBase,
    SearchIndex,
    SearchIndexKnowledgeSource,
)

from ingest.targets.azure_search.index_update import get_index
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.index_writer import DocumentRejected, IndexUnavailable

T = TypeVar("T")

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
MODEL_REJECTED = (
    "{error} Is {model} among the models of a knowledge base (docs/knowledge-base.md)? --model "
    "gives the name of the deployment's model."
)


@dataclass(frozen=True, slots=True)
class PlanningModel:
    """A deployment of Azure OpenAI that plans the searches of a base."""

    endpoint: str
    deployment: str
    name: str  # of its model

    def to_json(self) -> Mapping[str, Any]:
        """Return the model of a definition. The service signs in with its own identity."""
        parameters = {
            "resourceUri": self.endpoint.rstrip("/"),
            "deploymentId": self.deployment,
            "modelName": self.name,
        }
        return {"kind": "azureOpenAI", "azureOpenAIParameters": parameters}


@dataclass(frozen=True, slots=True)
class Definition:
    """A knowledge base, its source, and the index of that."""

    base: str
    source: str
    index: str
    effort: str = "minimal"
    model: PlanningModel | None = None  # of the other efforts

    def base_json(self) -> Mapping[str, Any]:
        """Return the definition of the base in the API 2026-10-01.

        The SDK's class has no effort, and keeps the fields of a mapping.
        """
        return {
            "name": self.base,
            "knowledgeSources": [{"name": self.source}],
            "retrievalReasoningEffort": {"kind": self.effort},
            "outputMode": "extractiveData",
            **({"models": [self.model.to_json()]} if self.model else {}),
        }


async def create(
    client: SearchIndexClient, definition: Definition, fields: list[str], ranking: str | None
) -> SearchIndex:
    """Create or update the source and the base. Returns the index. Raises IndexUnavailable.

    `fields` are those of a passage; `ranking` is the semantic configuration, by default the
    index's own.
    """
    index = await _call(get_index, client, definition.index)
    if index is None:
        raise IndexUnavailable(NO_INDEX.format(index=definition.index))
    _check_fields(index, fields)
    ranking = _find_ranking(index, ranking)
    existing_base, existing_source = await _check_others(client, definition)
    parameters = {
        "searchIndexName": definition.index,
        "semanticConfigurationName": ranking,
        "sourceDataFields": [{"name": name} for name in fields],
    }
    source = SearchIndexKnowledgeSource(
        _merge(existing_source, {"name": definition.source, "kind": "searchIndex"})
    )
    known = existing_source and existing_source.get("searchIndexParameters")
    source["searchIndexParameters"] = _merge(known, parameters)
    await _call(client.create_or_update_knowledge_source, source)
    base = KnowledgeBase(_merge(existing_base, definition.base_json()))
    if definition.model is None:
        base.pop("models", None)
    try:
        await _call(client.create_or_update_knowledge_base, base)
    except DocumentRejected as error:
        if definition.model is None or isinstance(error, IndexUnavailable):
            raise
        raise IndexUnavailable(
            MODEL_REJECTED.format(error=error, model=definition.model.name)
        ) from error
    return index


async def remove(client: SearchIndexClient, definition: Definition) -> None:
    """Delete the base, then its source, as far as they exist. Raises IndexUnavailable."""
    await _check_others(client, definition)
    await _call(_none_if_missing(client.delete_knowledge_base), definition.base)
    await _call(_none_if_missing(client.delete_knowledge_source), definition.source)


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


def _merge(existing: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with our values; others, such as a filter, are kept."""
    kept = {name: value for name, value in (existing or {}).items() if name != "@odata.etag"}
    return {**kept, **ours}


async def _check_others(
    client: SearchIndexClient, definition: Definition
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the base and the source of our names, as far as they exist.

    Raises IndexUnavailable for one that has another source, or another index.
    """
    base = await _call(_none_if_missing(client.get_knowledge_base), definition.base)
    sources = [each.name for each in base.knowledge_sources] if base else []
    if set(sources) - {definition.source}:
        raise IndexUnavailable(OTHER_BASE.format(name=definition.base, sources=", ".join(sources)))
    source: Any = await _call(_none_if_missing(client.get_knowledge_source), definition.source)
    parameters = getattr(source, "search_index_parameters", None)
    if source and (parameters is None or parameters.search_index_name != definition.index):
        raise IndexUnavailable(OTHER_SOURCE.format(name=definition.source, index=definition.index))
    return base, source


async def _call(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    return await RetryPolicy(max_attempts=3).call_with_retry(call, *args)


def _none_if_missing(call: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T | None]]:
    """Return a call that returns None where the service answers 404."""

    async def attempt(name: str) -> T | None:
        try:
            return await call(name)
        except ResourceNotFoundError:
            return None

    return attempt
