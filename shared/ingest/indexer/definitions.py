"""What an indexer is made of: where the files lie, what is done with each, what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass

from azure.search.documents.indexes.models import (
    AzureOpenAIEmbeddingSkill,
    DataSourceCredentials,
    FieldMapping,
    FieldMappingFunction,
    IndexingParameters,
    IndexingParametersConfiguration,
    InputFieldMappingEntry,
    NativeBlobSoftDeleteDeletionDetectionPolicy,
    OutputFieldMappingEntry,
    SearchIndexer,
    SearchIndexerDataContainer,
    SearchIndexerDataSourceConnection,
    SearchIndexerIndexProjection,
    SearchIndexerIndexProjectionSelector,
    SearchIndexerIndexProjectionsParameters,
    SearchIndexerSkill,
    SearchIndexerSkillset,
    SplitSkill,
)

from shared.ingest.targets.azure_search.index_definition import PARENT, Shape, Vectorizer

PAGE_LENGTH, OVERLAP = 2000, 200  # characters: about the 350 tokens of our own passages, and more
PAGE = "/document/pages/*"
PICTURES = ".png,.jpg,.jpeg,.gif,.webp,.bmp,.tif,.tiff"  # they hold no text
FIXED = "text-embedding-ada-002"  # a model whose vectors have one size, and that takes no other


@dataclass(frozen=True, slots=True)
class Plan:
    """The index to fill, and the files: those below `folder` in a container of a storage account.

    `storage` is the account's resource id, `/subscriptions/...`: the search service reads it by its
    own identity.
    """

    shape: Shape
    storage: str
    container: str
    folder: str = "files/"

    @property
    def source(self) -> str:
        """The name of the data source."""
        return f"{self.shape.index}-files"

    @property
    def skills(self) -> str:
        """The name of the skillset."""
        return f"{self.shape.index}-passages"

    @property
    def indexer(self) -> str:
        """The name of the indexer."""
        return f"{self.shape.index}-indexer"


def data_source(plan: Plan) -> SearchIndexerDataSourceConnection:
    """Where the files lie. One that was deleted is noticed while the account still keeps it."""
    return SearchIndexerDataSourceConnection(
        name=plan.source,
        type="azureblob",
        credentials=DataSourceCredentials(connection_string=f"ResourceId={plan.storage};"),
        container=SearchIndexerDataContainer(name=plan.container, query=plan.folder),
        data_deletion_detection_policy=NativeBlobSoftDeleteDeletionDetectionPolicy(),
    )


def skillset(plan: Plan) -> SearchIndexerSkillset:
    """What is done with each file: passages, their vectors, and no document for the file itself."""
    maker = plan.shape.vectorizer
    return SearchIndexerSkillset(
        name=plan.skills,
        skills=[_splitting(), *((_embedding(maker, plan.shape.dimensions),) if maker else ())],
        index_projection=SearchIndexerIndexProjection(
            selectors=[_projected(plan.shape)],
            parameters=SearchIndexerIndexProjectionsParameters(
                projection_mode="skipIndexingParentDocuments"
            ),
        ),
    )


def _splitting() -> SearchIndexerSkill:
    return SplitSkill(
        name="split",
        context="/document",
        text_split_mode="pages",
        maximum_page_length=PAGE_LENGTH,
        page_overlap_length=OVERLAP,
        inputs=[InputFieldMappingEntry(name="text", source="/document/content")],
        outputs=[OutputFieldMappingEntry(name="textItems", target_name="pages")],
    )


def _embedding(maker: Vectorizer, dimensions: int | None) -> SearchIndexerSkill:
    return AzureOpenAIEmbeddingSkill(
        name="embed",
        context=PAGE,
        resource_url=maker.endpoint,
        deployment_name=maker.deployment,
        model_name=maker.model,
        dimensions=None if maker.model == FIXED else dimensions,
        inputs=[InputFieldMappingEntry(name="text", source=PAGE)],
        outputs=[OutputFieldMappingEntry(name="embedding", target_name="vector")],
    )


def _projected(shape: Shape) -> SearchIndexerIndexProjectionSelector:
    """Which field a passage has from where. There are no page numbers: a page is the file."""
    names = shape.fields
    sources = {
        names.content: PAGE,
        names.sourcepage: f"/document/{names.sourcefile}",
        names.sourcefile: f"/document/{names.sourcefile}",
        names.category: f"/document/{names.category}",
        **({names.embedding: f"{PAGE}/vector"} if shape.vectorizer else {}),
    }
    return SearchIndexerIndexProjectionSelector(
        target_index_name=shape.index,
        parent_key_field_name=PARENT,
        source_context=PAGE,
        mappings=[InputFieldMappingEntry(name=n, source=s) for n, s in sources.items()],
    )


def indexer(plan: Plan) -> SearchIndexer:
    """What does it, and which files it leaves out without stopping."""
    return SearchIndexer(
        name=plan.indexer,
        data_source_name=plan.source,
        skillset_name=plan.skills,
        target_index_name=plan.shape.index,
        parameters=IndexingParameters(
            max_failed_items=-1,
            max_failed_items_per_batch=-1,
            configuration=IndexingParametersConfiguration(
                data_to_extract="contentAndMetadata",
                image_action="none",
                excluded_file_name_extensions=PICTURES,
                fail_on_unsupported_content_type=False,
                fail_on_unprocessable_document=False,
            ),
        ),
        field_mappings=_mappings(plan),
    )


def _mappings(plan: Plan) -> list[FieldMapping]:
    """The names that the blobs' metadata give; they are percent-encoded there, to be ASCII."""
    names = plan.shape.fields
    decoded = FieldMappingFunction(name="urlDecode")
    return [
        FieldMapping(
            source_field_name="metadata_storage_path",
            target_field_name=names.id,
            mapping_function=FieldMappingFunction(name="base64Encode"),
        ),
        *(
            FieldMapping(source_field_name=told, target_field_name=name, mapping_function=decoded)
            for told, name in (("sourcefile", names.sourcefile), ("category", names.category))
        ),
    ]
