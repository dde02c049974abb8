"""Creates or updates the knowledge base over the app's index: `python -m ingest.knowledge_base`.

It has one knowledge source, the index of AZURE_SEARCH_INDEX, and no model. `--remove` deletes both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ingest.cli import run_command
from ingest.targets.index_writer import IndexUnavailable
from shared.bootstrap.search import make_knowledge_base_retriever
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.settings import Settings, SettingsError, require_settings

if TYPE_CHECKING:  # these import the Azure SDKs
    from azure.search.documents.indexes.aio import SearchIndexClient
    from azure.search.documents.indexes.models import SearchIndex

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
SEVERAL = "AZURE_SEARCH_KNOWLEDGE_SOURCES has several: this command makes one"
NO_VECTORIZER = (
    "Its vectors are not used: a knowledge base needs a vectorizer in the index "
    "(AZURE_SEARCH_VECTORIZER)."
)
QUESTION = "What are these documents about?"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a knowledge base, its source, and the index of that."""

    base: str
    source: str
    index: str


def read_names(settings: Settings) -> Names:
    """Return the names in the settings. Raises SettingsError."""
    required = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX", "AZURE_SEARCH_KNOWLEDGE_BASE")
    _, index, base = require_settings(settings, *required)
    sources = settings.azure_search_knowledge_sources
    if len(sources) > 1:
        raise SettingsError((SEVERAL,))
    return Names(base, sources[0].name if sources else index, index)


async def create(client: SearchIndexClient, settings: Settings, names: Names) -> SearchIndex:
    """Create or update the source and the base. Raises IndexUnavailable."""
    from azure.search.documents.indexes.models import (
        KnowledgeBase,
        KnowledgeSourceReference,
        SearchIndexFieldReference,
        SearchIndexKnowledgeSource,
        SearchIndexKnowledgeSourceParameters,
    )

    from ingest.targets.azure_search.index_update import get_index
    from shared.retrieval.azure_search.index_fields import IndexFields

    index = await _call(get_index, client, names.index)
    if index is None:
        raise IndexUnavailable(NO_INDEX.format(index=names.index))
    fields = IndexFields(**(settings.azure_search_fields or {})).select_fields()
    _check_fields(index, fields)
    ranking = _ranking(settings, index)
    await _check_others(client, names)
    parameters = SearchIndexKnowledgeSourceParameters(
        search_index_name=names.index,
        semantic_configuration_name=ranking,
        source_data_fields=[SearchIndexFieldReference(name=name) for name in fields],
    )
    source = SearchIndexKnowledgeSource(name=names.source, search_index_parameters=parameters)
    await _call(client.create_or_update_knowledge_source, source)
    reference = KnowledgeSourceReference(name=names.source)
    base = KnowledgeBase(name=names.base, knowledge_sources=[reference])
    await _call(client.create_or_update_knowledge_base, base)
    return index


async def remove(client: SearchIndexClient, names: Names) -> None:
    """Delete the base, then its source, as far as they exist. Raises IndexUnavailable."""
    await _check_others(client, names)
    await _call(_none_if_missing(client.delete_knowledge_base), names.base)
    await _call(_none_if_missing(client.delete_knowledge_source), names.source)


def _ranking(settings: Settings, index: SearchIndex) -> str:
    """Return the name of the semantic configuration. Raises IndexUnavailable."""
    semantic = index.semantic_search
    known = [each.name for each in (semantic.configurations or ())] if semantic else []
    default = semantic.default_configuration_name if semantic else None
    name = settings.azure_search_semantic_configuration or default or next(iter(known), None)
    if name not in known or name is None:
        raise IndexUnavailable(NO_RANKING.format(index=index.name))
    return name


def _check_fields(index: SearchIndex, names: list[str]) -> None:
    missing = sorted(set(names) - {each.name for each in index.fields})
    if missing:
        raise IndexUnavailable(MISSING_FIELDS.format(index=index.name, names=", ".join(missing)))


async def _check_others(client: SearchIndexClient, names: Names) -> None:
    """Raise IndexUnavailable for a base or a source of the same name that is not ours."""
    base = await _call(_none_if_missing(client.get_knowledge_base), names.base)
    sources = [each.name for each in base.knowledge_sources] if base else []
    if set(sources) - {names.source}:
        raise IndexUnavailable(OTHER_BASE.format(name=names.base, sources=", ".join(sources)))
    source: Any = await _call(_none_if_missing(client.get_knowledge_source), names.source)
    parameters = getattr(source, "search_index_parameters", None)
    if source and (parameters is None or parameters.search_index_name != names.index):
        raise IndexUnavailable(OTHER_SOURCE.format(name=names.source, index=names.index))


async def _call(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    from ingest.targets.azure_search.retry import RetryPolicy

    return await RetryPolicy(max_attempts=3).call_with_retry(call, *args)


def _none_if_missing(call: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T | None]]:
    """Return a call that returns None where the service answers 404."""
    from azure.core.exceptions import ResourceNotFoundError

    async def attempt(name: str) -> T | None:
        try:
            return await call(name)
        except ResourceNotFoundError:
            return None

    return attempt


async def run(removes: bool, settings: Settings) -> list[str]:
    """Create the base and ask it a question, or remove it. Return the lines to print.

    Raises HANDLED_ERRORS.
    """
    from ingest.targets.azure_search.service import open_service

    names = read_names(settings)
    async with open_service(settings, names.index) as (clients, search):
        if removes:
            await remove(search.indexes, names)
            return [f"The knowledge base {names.base} is removed, and its source {names.source}."]
        index = await create(search.indexes, settings, names)
        retriever = make_knowledge_base_retriever(clients, names.base)
        async with retriever.base.client:
            result = await retriever.search(User(), QUESTION, Overrides(top=1))
        return [*_describe(names, index, len(result.sources), result.notes)]


def _describe(
    names: Names, index: SearchIndex, found: int, notes: tuple[str, ...]
) -> Iterator[str]:
    yield f"The knowledge base {names.base} searches the index {names.index}."
    yield f"It was asked a question and found {'a passage' if found else 'no public passage'}."
    yield from notes
    vectors = index.vector_search
    if any(each.vector_search_dimensions for each in index.fields) and not (
        vectors and vectors.vectorizers
    ):
        yield NO_VECTORIZER


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns 0, or 1 on an error."""
    parser = argparse.ArgumentParser(prog="python -m ingest.knowledge_base", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="delete the base and its source")
    options = parser.parse_args(arguments)
    return run_command(partial(run, options.remove))


if __name__ == "__main__":
    sys.exit(main())
