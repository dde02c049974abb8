"""Builds the definition of the index in Azure AI Search."""

from __future__ import annotations

from dataclasses import dataclass

from azure.search.documents.indexes.models import (
    AzureOpenAIVectorizer,
    AzureOpenAIVectorizerParameters,
    HnswAlgorithmConfiguration,
    HnswParameters,
    RescoringOptions,
    ScalarQuantizationCompression,
    ScalarQuantizationParameters,
    SearchField,
    SearchIndex,
    SemanticConfiguration,
    SemanticField,
    SemanticPrioritizedFields,
    SemanticSearch,
    VectorSearch,
    VectorSearchProfile,
)

from shared.retrieval.azure_search.field_mapping import IndexFields

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
    """An index's name, its fields' names, and its vectors' `dimensions`: None without vectors."""

    index: str
    fields: IndexFields
    dimensions: int | None = None
    vectorizer: Vectorizer | None = None


def build_index(index_spec: IndexSpec) -> SearchIndex:
    """Build the index of a specification."""
    return SearchIndex(
        name=index_spec.index,
        fields=[*_plain_fields(index_spec.fields), *_vector_fields(index_spec)],
        semantic_search=SemanticSearch(configurations=[_semantic_configuration(index_spec.fields)]),
        vector_search=_vector_search(index_spec) if index_spec.dimensions else None,
    )


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
    field = SearchField(name=name, type=field_type, retrievable=True, **flags)
    field.analyzer_name = analyzer
    return field


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


def _vector_search(index_spec: IndexSpec) -> VectorSearch:
    vectorizer = index_spec.vectorizer
    return VectorSearch(
        algorithms=[
            HnswAlgorithmConfiguration(name=ALGORITHM, parameters=HnswParameters(metric="cosine"))
        ],
        compressions=[_compression()],
        profiles=[
            VectorSearchProfile(
                name=PROFILE,
                algorithm_configuration_name=ALGORITHM,
                compression_name=COMPRESSION,
                vectorizer_name=VECTORIZER if vectorizer else None,
            )
        ],
        vectorizers=[_vectorizer(vectorizer)] if vectorizer else [],
    )


def _compression() -> ScalarQuantizationCompression:
    """Quantize vectors to a quarter of the memory; the best are rescored with full precision."""
    return ScalarQuantizationCompression(
        compression_name=COMPRESSION,
        parameters=ScalarQuantizationParameters(quantized_data_type="int8"),
        rescoring_options=RescoringOptions(
            enable_rescoring=True,
            default_oversampling=4,
            rescore_storage_method="preserveOriginals",
        ),
    )


def _vectorizer(vectorizer: Vectorizer) -> AzureOpenAIVectorizer:
    return AzureOpenAIVectorizer(
        vectorizer_name=VECTORIZER,
        parameters=AzureOpenAIVectorizerParameters(
            resource_url=vectorizer.endpoint,
            deployment_name=vectorizer.deployment,
            model_name=vectorizer.model,
        ),
    )


def _semantic_configuration(names: IndexFields) -> SemanticConfiguration:
    return SemanticConfiguration(
        name=SEMANTIC_CONFIGURATION,
        prioritized_fields=SemanticPrioritizedFields(
            title_field=SemanticField(field_name=names.sourcefile),
            content_fields=[SemanticField(field_name=names.content)],
        ),
    )
