"""Builds the definitions of an indexer: its data source, skillset and field mappings."""

from __future__ import annotations

from dataclasses import dataclass

from azure.search.documents.indexes import models

from ingest.targets.azure_search.index_update import PARENT, IndexSpec, Vectorizer
from shared.retrieval.azure_search.index_fields import IndexFields

# Characters; about 350 tokens or more, as of our own passages.
PAGE_LENGTH, OVERLAP_LENGTH = 2000, 200
PAGE_PATH = "/document/pages/*"
EXCLUDED_EXTENSIONS = ".png,.jpg,.jpeg,.gif,.webp,.bmp,.tif,.tiff"  # they have no text
FIXED_SIZE_MODEL = "text-embedding-ada-002"  # a model that does not accept `dimensions`


@dataclass(frozen=True, slots=True)
class IndexerPlan:
    """The index to fill, and the files: those below `folder` in a container."""

    index_spec: IndexSpec
    # Of the account, `/subscriptions/...`: the search service reads it with its own identity
    storage_id: str
    container: str
    folder: str = "files/"

    @property
    def data_source_name(self) -> str:
        return f"{self.index_spec.index}-files"

    @property
    def skillset_name(self) -> str:
        return f"{self.index_spec.index}-passages"

    @property
    def indexer_name(self) -> str:
        return f"{self.index_spec.index}-indexer"


def build_data_source(plan: IndexerPlan) -> models.SearchIndexerDataSourceConnection:
    """Build the data source; deleted files are detected by the account's soft delete."""
    return models.SearchIndexerDataSourceConnection(
        name=plan.data_source_name,
        type="azureblob",
        credentials=models.DataSourceCredentials(
            connection_string=f"ResourceId={plan.storage_id};"
        ),
        container=models.SearchIndexerDataContainer(name=plan.container, query=plan.folder),
        data_deletion_detection_policy=models.NativeBlobSoftDeleteDeletionDetectionPolicy(),
    )


def build_skillset(plan: IndexerPlan) -> models.SearchIndexerSkillset:
    """Build the skillset: passages and their vectors, and no document for the file itself."""
    skills = [_split_skill()]
    if plan.index_spec.vectorizer:
        skills.append(_embedding_skill(plan.index_spec.vectorizer, plan.index_spec.dimensions))
    return models.SearchIndexerSkillset(
        name=plan.skillset_name,
        skills=skills,
        index_projection=models.SearchIndexerIndexProjection(
            selectors=[_projection(plan.index_spec)],
            parameters=models.SearchIndexerIndexProjectionsParameters(
                projection_mode="skipIndexingParentDocuments"
            ),
        ),
    )


def _split_skill() -> models.SearchIndexerSkill:
    return models.SplitSkill(
        name="split",
        context="/document",
        text_split_mode="pages",
        maximum_page_length=PAGE_LENGTH,
        page_overlap_length=OVERLAP_LENGTH,
        inputs=[models.InputFieldMappingEntry(name="text", source="/document/content")],
        outputs=[models.OutputFieldMappingEntry(name="textItems", target_name="pages")],
    )


def _embedding_skill(vectorizer: Vectorizer, dimensions: int | None) -> models.SearchIndexerSkill:
    return models.AzureOpenAIEmbeddingSkill(
        name="embed",
        context=PAGE_PATH,
        resource_url=vectorizer.endpoint,
        deployment_name=vectorizer.deployment,
        model_name=vectorizer.model,
        dimensions=None if vectorizer.model == FIXED_SIZE_MODEL else dimensions,
        inputs=[models.InputFieldMappingEntry(name="text", source=PAGE_PATH)],
        outputs=[models.OutputFieldMappingEntry(name="embedding", target_name="vector")],
    )


def _projection(index_spec: IndexSpec) -> models.SearchIndexerIndexProjectionSelector:
    """Map the fields of a passage. There are no page numbers: the source page is the file."""
    names = index_spec.fields
    file = f"/document/{names.sourcefile}"
    sources = {
        names.content: PAGE_PATH,
        names.sourcepage: file,
        names.sourcefile: file,
        names.category: f"/document/{names.category}",
    }
    if index_spec.vectorizer:
        sources[names.embedding] = f"{PAGE_PATH}/vector"
    return models.SearchIndexerIndexProjectionSelector(
        target_index_name=index_spec.index,
        parent_key_field_name=PARENT,
        source_context=PAGE_PATH,
        mappings=[models.InputFieldMappingEntry(name=n, source=s) for n, s in sources.items()],
    )


def build_indexer(plan: IndexerPlan) -> models.SearchIndexer:
    """Build the indexer; it skips unsupported files without stopping."""
    return models.SearchIndexer(
        name=plan.indexer_name,
        data_source_name=plan.data_source_name,
        skillset_name=plan.skillset_name,
        target_index_name=plan.index_spec.index,
        parameters=models.IndexingParameters(
            max_failed_items=-1,
            max_failed_items_per_batch=-1,
            configuration=models.IndexingParametersConfiguration(
                data_to_extract="contentAndMetadata",
                image_action="none",
                excluded_file_name_extensions=EXCLUDED_EXTENSIONS,
                fail_on_unsupported_content_type=False,
                fail_on_unprocessable_document=False,
            ),
        ),
        field_mappings=_field_mappings(plan.index_spec.fields),
    )


def _field_mappings(fields: IndexFields) -> list[models.FieldMapping]:
    """Map the blobs' metadata, which is percent-encoded to be ASCII."""
    table = (
        ("metadata_storage_path", fields.id, "base64Encode"),
        ("sourcefile", fields.sourcefile, "urlDecode"),
        ("category", fields.category, "urlDecode"),
    )
    return [
        models.FieldMapping(
            source_field_name=source,
            target_field_name=target,
            mapping_function=models.FieldMappingFunction(name=function),
        )
        for source, target, function in table
    ]
