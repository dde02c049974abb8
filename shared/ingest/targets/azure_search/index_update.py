"""Creates the index, or adds what an existing one lacks: fields cannot be changed."""

from __future__ import annotations

from functools import partial
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import (
    SearchField,
    SearchIndex,
    SemanticSearch,
    VectorSearch,
)

from shared.ingest.targets.azure_search.index_definition import (
    PROFILE,
    VECTORIZER,
    IndexSpec,
    build_index,
)
from shared.ingest.targets.azure_search.retry import RetryPolicy
from shared.ingest.targets.index_writer import IndexUnavailable

OTHER_INDEX = "name another index in AZURE_SEARCH_INDEX, or delete this one"
# The attributes that a field needs to be used by the app.
REQUIRED_ATTRIBUTES = ("key", "searchable", "filterable", "sortable")
VECTOR_PARTS = (
    ("algorithms", "name"),
    ("compressions", "compression_name"),
    ("profiles", "name"),
    ("vectorizers", "vectorizer_name"),
)


async def create_or_update(
    client: SearchIndexClient, index_spec: IndexSpec, retry_policy: RetryPolicy
) -> tuple[SearchIndex, bool]:
    """Create or update the index; returns it and whether it is new. Raises DocumentRejected."""
    ours = build_index(index_spec)
    existing = await retry_policy.call_with_retry(partial(_get_index, client, index_spec.index))
    index = ours if existing is None else merge_index(existing, ours)
    if index is not None:
        await retry_policy.call_with_retry(partial(client.create_or_update_index, index))
    return index or existing or ours, existing is None


async def existing_fields(
    client: SearchIndexClient, index_spec: IndexSpec, retry_policy: RetryPolicy
) -> frozenset[str]:
    """The names of the index's fields; none where there is no index. Changes nothing.

    Raises DocumentRejected, also for an incompatible field.
    """
    existing = await retry_policy.call_with_retry(partial(_get_index, client, index_spec.index))
    if existing is None:
        return frozenset()
    _check_fields(existing, build_index(index_spec))
    return frozenset(field.name for field in existing.fields)


async def _get_index(client: SearchIndexClient, name: str) -> SearchIndex | None:
    try:
        existing = await client.get_index(name)
    except ResourceNotFoundError:
        return None
    return existing if list(existing.fields) else None


def merge_index(existing: SearchIndex, ours: SearchIndex) -> SearchIndex | None:
    """Add to an existing index what it lacks of ours; None where it lacks nothing.

    Its own fields are kept. Raises IndexUnavailable for an incompatible field.
    """
    _check_fields(existing, ours)
    names = {field.name for field in existing.fields}
    missing = [field for field in ours.fields if field.name not in names]
    additions = _add_semantic_search(existing, ours) | _add_vector_search(existing, ours)
    if not missing and not additions:
        return None
    existing.fields = [*existing.fields, *missing]
    for name, value in additions.items():
        setattr(existing, name, value)
    return existing


def _check_fields(existing: SearchIndex, ours: SearchIndex) -> None:
    """Raise IndexUnavailable where a field of the existing index is incompatible."""
    fields = {field.name: field for field in existing.fields}
    for field in ours.fields:
        if field.name in fields:
            _check_field(existing.name, fields[field.name], field)


def _check_field(index: str, existing: SearchField, ours: SearchField) -> None:
    size = ours.vector_search_dimensions
    if size and existing.vector_search_dimensions and existing.vector_search_dimensions != size:
        raise IndexUnavailable(
            f"The index {index} has vectors of {existing.vector_search_dimensions} numbers, and "
            f"the embedding model makes {size}: {OTHER_INDEX}."
        )
    if existing.type != ours.type:
        problem = f"has the type {existing.type} and not {ours.type}"
    elif lacking := next(
        (n for n in REQUIRED_ATTRIBUTES if getattr(ours, n) and not getattr(existing, n)), None
    ):
        problem = f"is not {lacking}"
    else:
        return
    raise IndexUnavailable(
        f"The field {existing.name} of the index {index} {problem}, which cannot be changed: "
        f"{OTHER_INDEX}, or name another field in AZURE_SEARCH_FIELDS."
    )


def _add_semantic_search(existing: SearchIndex, ours: SearchIndex) -> dict[str, Any]:
    """Add our semantic configuration to the existing ones."""
    has = existing.semantic_search or SemanticSearch()
    adds = ours.semantic_search or SemanticSearch()
    added = _add_missing(has, adds, "configurations", "name")
    return {"semantic_search": has} if added else {}


def _add_vector_search(existing: SearchIndex, ours: SearchIndex) -> dict[str, Any]:
    """Add what our vector field needs, unless the index uses another profile."""
    used = {field.vector_search_profile_name for field in existing.fields} - {None}
    if ours.vector_search is None or (used and PROFILE not in used):
        return {}
    has = existing.vector_search or VectorSearch()
    added = [_add_missing(has, ours.vector_search, part, key) for part, key in VECTOR_PARTS]
    return {"vector_search": has} if any([*added, _set_vectorizer(has, ours.vector_search)]) else {}


def _add_missing(has: Any, adds: Any, part: str, key: str) -> bool:
    """Add to a list of `has` the items of `adds` with new names; returns whether there were any."""
    old = list(getattr(has, part) or ())
    names = {getattr(one, key) for one in old}
    new = [one for one in getattr(adds, part) or () if getattr(one, key) not in names]
    setattr(has, part, [*old, *new])
    return bool(new)


def _set_vectorizer(has: VectorSearch, adds: VectorSearch) -> bool:
    """Set our vectorizer in our profile if it has none; returns whether it was set."""
    bare = [one for one in has.profiles or () if one.name == PROFILE and not one.vectorizer_name]
    if not bare or not adds.vectorizers:
        return False
    bare[0].vectorizer_name = VECTORIZER
    return True
