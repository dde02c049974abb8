"""What is the index of Azure AI Search like that documents are put into?"""

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

FINGERPRINT, PARENT = "fingerprint", "parent"  # what the chat never asks for
SEMANTIC_CONFIGURATION = "default"  # the semantic configuration
STRING, STRINGS, VECTOR = "Edm.String", "Collection(Edm.String)", "Collection(Edm.Single)"
# Splits every script at Unicode's word borders (Chinese into characters), folds case, stems
# nothing: right for documents in several languages, and wrong for none.
TEXT_ANALYZER = "standard.lucene"
PATH_ANALYZER = "simple"  # splits a path at whatever is no letter
FIELD_ATTRIBUTES = ("key", "searchable", "filterable", "sortable", "facetable")
KEY_ANALYZER = "keyword"  # what index projections want of a key
PROFILE, ALGORITHM, COMPRESSION, VECTORIZER = "vectors", "hnsw", "int8", "openai"


@dataclass(frozen=True, slots=True)
class Vectorizer:
    """The deployment of Azure OpenAI by which the service itself makes vectors, without a key."""

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


def build_index(shape: IndexSpec) -> SearchIndex:
    """The index as we would make it."""
    return SearchIndex(
        name=shape.index,
        fields=[*_plain_fields(shape.fields), *_vector_fields(shape)],
        semantic_search=SemanticSearch(configurations=[_semantic_configuration(shape.fields)]),
        vector_search=_vector_search(shape) if shape.dimensions else None,
    )


def _plain_fields(names: IndexFields) -> list[SearchField]:
    return [
        _field(names.id, STRING, "key searchable filterable sortable", KEY_ANALYZER),
        _field(names.content, STRING, "searchable", TEXT_ANALYZER),
        _field(names.sourcepage, STRING),
        # Searchable, as a file's name says what it is about; the ranker's title must be, too.
        _field(names.sourcefile, STRING, "searchable filterable", PATH_ANALYZER),
        _field(names.category, STRING, "filterable facetable"),
        _field(names.oids, STRINGS, "filterable"),
        _field(names.groups, STRINGS, "filterable"),
        _field(names.image, STRING),
        _field(FINGERPRINT, STRING, "filterable"),
        _field(PARENT, STRING, "filterable"),
    ]


def _field(name: str, kind: str, traits: str = "", analyzer: str | None = None) -> SearchField:
    """A field that can do what `traits` say and no more: the service's defaults are generous."""
    can = {trait: trait in traits.split() for trait in FIELD_ATTRIBUTES}
    field = SearchField(name=name, type=kind, retrievable=True, **can)
    field.analyzer_name = analyzer
    return field


def _vector_fields(shape: IndexSpec) -> list[SearchField]:
    if shape.dimensions is None:
        return []
    # Stored, though it is never given back: else a merge of other fields would lose it.
    return [
        SearchField(
            name=shape.fields.embedding,
            type=VECTOR,
            searchable=True,
            retrievable=False,
            stored=True,
            vector_search_dimensions=shape.dimensions,
            vector_search_profile_name=PROFILE,
        )
    ]


def _vector_search(shape: IndexSpec) -> VectorSearch:
    maker = shape.vectorizer
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
                vectorizer_name=VECTORIZER if maker else None,
            )
        ],
        vectorizers=[_vectorizer(maker)] if maker else [],
    )


def _compression() -> ScalarQuantizationCompression:
    """A quarter of the memory that the service charges for; the best are scored by all bits."""
    return ScalarQuantizationCompression(
        compression_name=COMPRESSION,
        parameters=ScalarQuantizationParameters(quantized_data_type="int8"),
        rescoring_options=RescoringOptions(
            enable_rescoring=True,
            default_oversampling=4,
            rescore_storage_method="preserveOriginals",
        ),
    )


def _vectorizer(maker: Vectorizer) -> AzureOpenAIVectorizer:
    return AzureOpenAIVectorizer(
        vectorizer_name=VECTORIZER,
        parameters=AzureOpenAIVectorizerParameters(
            resource_url=maker.endpoint, deployment_name=maker.deployment, model_name=maker.model
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
