"""Makes the index, or gives one that is there what it lacks: the service changes no field."""

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
# Without these a field cannot be used as we do.
REQUIRED_ATTRIBUTES = ("key", "searchable", "filterable", "sortable")
VECTOR_PARTS = (
    ("algorithms", "name"),
    ("compressions", "compression_name"),
    ("profiles", "name"),
    ("vectorizers", "vectorizer_name"),
)


async def create_or_update(
    client: SearchIndexClient, shape: IndexSpec, patience: RetryPolicy
) -> tuple[SearchIndex, bool]:
    """The index as it is in the end, and whether it is new. Raises Refused."""
    ours = build_index(shape)
    there = await patience.call_with_retry(partial(_get_index, client, shape.index))
    index = ours if there is None else merge_index(there, ours)
    if index is not None:
        await patience.call_with_retry(partial(client.create_or_update_index, index))
    return index or there or ours, there is None


async def existing_fields(
    client: SearchIndexClient, shape: IndexSpec, patience: RetryPolicy
) -> frozenset[str]:
    """The names of the index's fields; none where there is no index. Changes nothing.

    Raises Refused, also where a field does not fit.
    """
    there = await patience.call_with_retry(partial(_get_index, client, shape.index))
    if there is None:
        return frozenset()
    _check_fields(there, build_index(shape))
    return frozenset(field.name for field in there.fields)


async def _get_index(client: SearchIndexClient, name: str) -> SearchIndex | None:
    try:
        there = await client.get_index(name)
    except ResourceNotFoundError:
        return None
    return there if list(there.fields) else None


def merge_index(there: SearchIndex, ours: SearchIndex) -> SearchIndex | None:
    """The index that is there with what it lacks of ours; None where it lacks nothing.

    Whatever it has stays: the service changes no field. Raises Unusable where one does not fit.
    """
    _check_fields(there, ours)
    names = {field.name for field in there.fields}
    missing = [field for field in ours.fields if field.name not in names]
    more = _add_semantic_search(there, ours) | _add_vector_search(there, ours)
    if not missing and not more:
        return None
    there.fields = [*there.fields, *missing]
    for name, value in more.items():
        setattr(there, name, value)
    return there


def _check_fields(there: SearchIndex, ours: SearchIndex) -> None:
    """Raise Unusable where a field of the index that is there does not fit."""
    fields = {field.name: field for field in there.fields}
    for field in ours.fields:
        if field.name in fields:
            _check_field(there.name, fields[field.name], field)


def _check_field(index: str, there: SearchField, ours: SearchField) -> None:
    size = ours.vector_search_dimensions
    if size and there.vector_search_dimensions and there.vector_search_dimensions != size:
        raise IndexUnavailable(
            f"The index {index} has vectors of {there.vector_search_dimensions} numbers, and the "
            f"embedding model makes {size}: {OTHER_INDEX}."
        )
    if there.type != ours.type:
        wrong = f"has the type {there.type} and not {ours.type}"
    elif lacking := next(
        (n for n in REQUIRED_ATTRIBUTES if getattr(ours, n) and not getattr(there, n)), None
    ):
        wrong = f"is not {lacking}"
    else:
        return
    raise IndexUnavailable(
        f"The field {there.name} of the index {index} {wrong}, which cannot be changed: "
        f"{OTHER_INDEX}, or name another field in AZURE_SEARCH_FIELDS."
    )


def _add_semantic_search(there: SearchIndex, ours: SearchIndex) -> dict[str, Any]:
    """Our semantic configuration, beside those that are there."""
    has, adds = there.semantic_search or SemanticSearch(), ours.semantic_search or SemanticSearch()
    added = _add_missing(has, adds, "configurations", "name")
    return {"semantic_search": has} if added else {}


def _add_vector_search(there: SearchIndex, ours: SearchIndex) -> dict[str, Any]:
    """What our vector field needs, where it is the one in use; other profiles stay as they are."""
    used = {field.vector_search_profile_name for field in there.fields} - {None}
    if ours.vector_search is None or (used and PROFILE not in used):
        return {}
    has = there.vector_search or VectorSearch()
    added = [_add_missing(has, ours.vector_search, part, key) for part, key in VECTOR_PARTS]
    return {"vector_search": has} if any([*added, _set_vectorizer(has, ours.vector_search)]) else {}


def _add_missing(has: Any, adds: Any, part: str, key: str) -> bool:
    """Add to a list of `has` what `adds` has there by other names; whether there was any."""
    old = list(getattr(has, part) or ())
    names = {getattr(one, key) for one in old}
    new = [one for one in getattr(adds, part) or () if getattr(one, key) not in names]
    setattr(has, part, [*old, *new])
    return bool(new)


def _set_vectorizer(has: VectorSearch, adds: VectorSearch) -> bool:
    """Let our profile use our vectorizer where it has none; whether it gained one."""
    bare = [one for one in has.profiles or () if one.name == PROFILE and not one.vectorizer_name]
    if not bare or not adds.vectorizers:
        return False
    bare[0].vectorizer_name = VECTORIZER
    return True
