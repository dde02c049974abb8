"""Creates or updates the index: its definition, and what may change in one that exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.search.documents.indexes import models
from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import SearchField, SearchIndex

from ingest.targets.azure_search.permissions import add_permissions, check_permissions
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.index_writer import IndexUnavailable
from shared.retrieval.azure_search.index_fields import IndexFields

FINGERPRINT, PARENT = "fingerprint", "parent"  # fields that the chat does not read
SEMANTIC_CONFIGURATION = "default"  # the semantic configuration
STRING, STRINGS, VECTOR = "Edm.String", "Collection(Edm.String)", "Collection(Edm.Single)"
# Splits at Unicode word boundaries (Chinese into characters) and folds case without stemming, so it
# works for documents in several languages.
TEXT_ANALYZER = "standard.lucene"
PATH_ANALYZER = "simple"  # splits a path at all non-letters
FIELD_ATTRIBUTES = ("key", "searchable", "filterable", "sortable", "facetable")
KEY_ANALYZER = "keyword"  # index projections require it for a key
PROFILE, ALGORITHM, COMPRESSION, VECTORIZER = "vectors", "hnsw", "int8", "openai"


@dataclass(frozen=True, slots=True)
class Vectorizer:
    """The deployment of Azure OpenAI that the service uses for vectors, by its identity."""

    endpoint: str
    deployment: str
    model: str


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index's name, its fields' names, and its vectors."""

    index: str
    fields: IndexFields
    dimensions: int | None = None  # None without vectors
    vectorizer: Vectorizer | None = None
    checks_permissions: bool = False  # whether the service checks them itself


def build_index(index_spec: IndexSpec) -> SearchIndex:
    index = SearchIndex(
        name=index_spec.index,
        fields=[*_plain_fields(index_spec.fields), *_vector_fields(index_spec)],
        semantic_search=models.SemanticSearch(
            configurations=[_semantic_configuration(index_spec.fields)]
        ),
        vector_search=_vector_search(index_spec) if index_spec.dimensions else None,
    )
    if index_spec.checks_permissions:
        add_permissions(index, index_spec.fields)
    return index


def _plain_fields(names: IndexFields) -> list[SearchField]:
    return [
        _field(names.id, STRING, "key searchable filterable sortable", KEY_ANALYZER),
        _field(names.content, STRING, "searchable", TEXT_ANALYZER),
        _field(names.sourcepage, STRING),
        # Searchable, as a file's name has keywords, and as the semantic ranker's title must be.
        _field(names.sourcefile, STRING, "searchable filterable", PATH_ANALYZER),
        _field(names.category, STRING, "filterable facetable"),
        _field(names.oids, STRINGS, "filterable"),
        _field(names.groups, STRINGS, "filterable"),
        _field(names.image, STRING),
        _field(FINGERPRINT, STRING, "filterable"),
        _field(PARENT, STRING, "filterable"),
    ]


def _field(
    name: str, field_type: str, attributes: str = "", analyzer: str | None = None
) -> SearchField:
    """Build a field with only these attributes; the service's defaults enable more."""
    flags = {one: one in attributes.split() for one in FIELD_ATTRIBUTES}
    return SearchField(
        name=name, type=field_type, retrievable=True, analyzer_name=analyzer, **flags
    )


def _vector_fields(index_spec: IndexSpec) -> list[SearchField]:
    if index_spec.dimensions is None:
        return []
    # Stored although it is not retrievable: otherwise a merge of other fields would lose it.
    return [
        SearchField(
            name=index_spec.fields.embedding,
            type=VECTOR,
            searchable=True,
            retrievable=False,
            stored=True,
            vector_search_dimensions=index_spec.dimensions,
            vector_search_profile_name=PROFILE,
        )
    ]


def _vector_search(index_spec: IndexSpec) -> models.VectorSearch:
    vectorizer = index_spec.vectorizer
    return models.VectorSearch(
        algorithms=[
            models.HnswAlgorithmConfiguration(
                name=ALGORITHM, parameters=models.HnswParameters(metric="cosine")
            )
        ],
        compressions=[_compression()],
        profiles=[
            models.VectorSearchProfile(
                name=PROFILE,
                algorithm_configuration_name=ALGORITHM,
                compression_name=COMPRESSION,
                vectorizer_name=VECTORIZER if vectorizer else None,
            )
        ],
        vectorizers=[_vectorizer(vectorizer)] if vectorizer else [],
    )


def _compression() -> models.ScalarQuantizationCompression:
    """Quantize vectors to a quarter of the memory; the best are rescored with full precision."""
    return models.ScalarQuantizationCompression(
        compression_name=COMPRESSION,
        parameters=models.ScalarQuantizationParameters(quantized_data_type="int8"),
        rescoring_options=models.RescoringOptions(
            enable_rescoring=True,
            default_oversampling=4,
            rescore_storage_method="preserveOriginals",
        ),
    )


def _vectorizer(vectorizer: Vectorizer) -> models.AzureOpenAIVectorizer:
    return models.AzureOpenAIVectorizer(
        vectorizer_name=VECTORIZER,
        parameters=models.AzureOpenAIVectorizerParameters(
            resource_url=vectorizer.endpoint,
            deployment_name=vectorizer.deployment,
            model_name=vectorizer.model,
        ),
    )


def _semantic_configuration(names: IndexFields) -> models.SemanticConfiguration:
    return models.SemanticConfiguration(
        name=SEMANTIC_CONFIGURATION,
        prioritized_fields=models.SemanticPrioritizedFields(
            title_field=models.SemanticField(field_name=names.sourcefile),
            content_fields=[models.SemanticField(field_name=names.content)],
        ),
    )


OTHER_INDEX = "name another index in AZURE_SEARCH_INDEX, or delete this one"
# The attributes that a field needs to be used by the app.
REQUIRED_ATTRIBUTES = ("key", "searchable", "filterable", "sortable")
# The lists of named items in two parts of an index, by their names in the service's JSON.
LISTS = {
    "semantic": ("configurations",),
    "vectorSearch": ("algorithms", "compressions", "profiles", "vectorizers"),
}


async def create_or_update(
    client: SearchIndexClient, index_spec: IndexSpec, retry_policy: RetryPolicy
) -> tuple[SearchIndex, bool]:
    """Create or update the index; returns it and whether it is new. Raises DocumentRejected."""
    ours = build_index(index_spec)
    existing = await retry_policy.call_with_retry(get_index, client, index_spec.index)
    index = ours if existing is None else existing
    if existing is None or merge_index(existing, ours):
        await retry_policy.call_with_retry(client.create_or_update_index, index)
    return index, existing is None


async def existing_fields(
    client: SearchIndexClient, index_spec: IndexSpec, retry_policy: RetryPolicy
) -> frozenset[str]:
    """The names of the index's fields; none where there is no index. Changes nothing.

    Raises DocumentRejected, also for an incompatible field.
    """
    existing = await retry_policy.call_with_retry(get_index, client, index_spec.index)
    if existing is None:
        return frozenset()
    _check_fields(existing, build_index(index_spec))
    return frozenset(field.name for field in existing.fields)


async def get_index(client: SearchIndexClient, name: str) -> SearchIndex | None:
    """Return the definition of an index; None if there is none."""
    try:
        existing = await client.get_index(name)
    except ResourceNotFoundError:
        return None
    return existing if list(existing.fields) else None


def merge_index(existing: SearchIndex, ours: SearchIndex) -> bool:
    """Add to an existing index what it lacks of ours; returns whether it lacked anything.

    Its own fields are kept. Raises IndexUnavailable for an incompatible field.
    """
    _check_fields(existing, ours)
    changes = [
        _add_vector_search(existing, ours),  # first, as it reads the existing fields
        _add_missing(existing, ours, "fields"),
        _add_lists(existing, ours, "semantic"),
    ]
    return any(changes)


def _check_fields(existing: SearchIndex, ours: SearchIndex) -> None:
    """Raise IndexUnavailable where a field of the existing index is incompatible."""
    check_permissions(existing, ours)
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


def _add_vector_search(existing: SearchIndex, ours: SearchIndex) -> bool:
    """Add what our vector field needs, unless the index uses another profile."""
    used = {field.vector_search_profile_name for field in existing.fields} - {None}
    if ours.vector_search is None or (used and PROFILE not in used):
        return False
    changed = _add_lists(existing, ours, "vectorSearch")
    profiles = existing["vectorSearch"]["profiles"]
    profile = next(each for each in profiles if each["name"] == PROFILE)
    if ours.vector_search.vectorizers and not profile.get("vectorizer"):
        profile["vectorizer"] = VECTORIZER
        return True
    return changed


def _add_lists(existing: SearchIndex, ours: SearchIndex, part: str) -> bool:
    """Add what some lists of a part lack; returns whether they lacked anything."""
    if not existing.get(part):
        existing[part] = {}
    return any([_add_missing(existing[part], ours[part], name) for name in LISTS[part]])


def _add_missing(existing: Any, ours: Any, name: str) -> bool:
    """Add to a list of `existing` the items of `ours` with new names; returns whether any."""
    items = existing.get(name) or []
    names = {item["name"] for item in items}
    missing = [item for item in ours.get(name) or () if item["name"] not in names]
    existing[name] = [*items, *missing]
    return bool(missing)
