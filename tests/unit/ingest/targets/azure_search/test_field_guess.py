"""The settings that are found out for the indexes of other tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.search.documents.indexes import models
from azure.search.documents.indexes.models import SearchField, SearchIndex

from ingest.targets.azure_search.field_guess import format_fields, guess_fields, list_settings
from ingest.targets.azure_search.index_update import IndexSpec, Vectorizer, build_index
from ingest.targets.index_writer import IndexUnavailable
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.settings import read_settings

TEXT, LIST, VECTOR = "Edm.String", "Collection(Edm.String)", "Collection(Edm.Single)"


def text(name: str, **more: Any) -> SearchField:
    return SearchField(name=name, type=TEXT, hidden=False, searchable=True, **more)


def settings_of(index: SearchIndex) -> dict[str, str]:
    return dict(list_settings(index, guess_fields(index)))


def vector(name: str) -> SearchField:
    size = {"vector_search_dimensions": 3, "vector_search_profile_name": "p"}
    return SearchField(name=name, type=VECTOR, searchable=True, **size)


def index(*fields: SearchField, **more: Any) -> SearchIndex:
    return SearchIndex(name="docs", fields=[*fields], **more)


# As the portal's wizard for RAG makes it, with its vectorizer and its ranking.
WIZARD = index(
    text("chunk_id", key=True),
    text("parent_id", filterable=True),
    text("chunk"),
    text("title"),
    vector("text_vector"),
    vector_search=models.VectorSearch(
        profiles=[
            models.VectorSearchProfile(
                name="p", algorithm_configuration_name="a", vectorizer_name="v"
            )
        ]
    ),
    semantic_search=models.SemanticSearch(
        default_configuration_name="docs-semantic",
        configurations=[
            models.SemanticConfiguration(
                name="docs-semantic",
                prioritized_fields=models.SemanticPrioritizedFields(
                    content_fields=[models.SemanticField(field_name="chunk")]
                ),
            )
        ],
    ),
)
ON_YOUR_DATA = index(
    text("id", key=True),
    text("content"),
    text("filepath"),
    text("title"),
    text("url"),
    text("chunk_id"),
    text("last_updated"),
    vector("contentVector"),
)
# As an indexer of Blob storage makes it without a skillset.
BLOBS = index(
    text("content"),
    text("metadata_storage_path", key=True),
    text("metadata_storage_name"),
    text("metadata_author"),
)


def test_own_index_needs_its_name_and_ranking_alone() -> None:
    own = build_index(IndexSpec("docs", IndexFields(), 3, Vectorizer("https://a", "d", "m")))

    assert guess_fields(own) == IndexFields()
    assert settings_of(own) == {
        "AZURE_SEARCH_INDEX": "docs",
        "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "default",
        "AZURE_SEARCH_VECTORIZER": "true",
    }


def test_index_of_on_your_data_has_the_preset() -> None:
    settings = {"AZURE_SEARCH_INDEX": "docs", "AZURE_SEARCH_FIELDS": "on-your-data"}

    assert settings_of(ON_YOUR_DATA) == settings


def test_index_of_the_wizard() -> None:
    names = guess_fields(WIZARD)

    assert (names.id, names.content, names.embedding) == ("chunk_id", "chunk", "text_vector")
    assert (names.sourcepage, names.sourcefile, names.chunk) == ("title", "title", "chunk_id")
    assert (names.category, names.oids, names.groups, names.image, names.url) == ("",) * 5
    settings = settings_of(WIZARD)
    assert settings["AZURE_SEARCH_SEMANTIC_CONFIGURATION"] == "docs-semantic"
    assert settings["AZURE_SEARCH_VECTORIZER"] == "true"


def test_index_of_blobs_without_vectors() -> None:
    names = guess_fields(BLOBS)

    assert (names.id, names.content) == ("metadata_storage_path", "content")
    assert (names.sourcepage, names.embedding) == ("metadata_storage_name", "")
    assert "AZURE_SEARCH_VECTORIZER" not in settings_of(BLOBS)


@pytest.mark.parametrize("foreign", [WIZARD, ON_YOUR_DATA, BLOBS])
def test_setting_says_what_was_found(foreign: SearchIndex) -> None:
    names = guess_fields(foreign)
    parsed = read_settings({"AZURE_SEARCH_FIELDS": format_fields(names)}).azure_search_fields

    assert IndexFields(**(parsed or {})) == names


def test_access_control_needs_fields_that_can_be_filtered() -> None:
    lists = [SearchField(name=name, type=LIST, filterable=True) for name in ("UserIds", "GroupIds")]
    closed = guess_fields(index(text("id", key=True), text("content"), *lists))
    lists = [SearchField(name=name, type=LIST, filterable=False) for name in ("oids", "groups")]
    open_to_all = guess_fields(index(text("id", key=True), text("content"), *lists))

    assert (closed.oids, closed.groups) == ("UserIds", "GroupIds")
    assert not open_to_all.has_access_control


def test_hidden_field_is_not_read() -> None:
    hidden = SearchField(name="content", type=TEXT, hidden=True)

    assert guess_fields(index(text("id", key=True), hidden, text("text"))).content == "text"


def test_passages_of_an_index_without_names_are_cited_by_their_key() -> None:
    names = guess_fields(index(text("id", key=True), text("text")))

    assert (names.sourcepage, names.sourcefile) == ("id", "id")


def test_index_without_a_text_is_refused_with_its_fields() -> None:
    with pytest.raises(IndexUnavailable) as failure:
        guess_fields(index(text("id", key=True), text("price")))

    assert str(failure.value).startswith("The index docs has no field that looks like the text")
    assert "id, price" in str(failure.value)
    assert json.loads(format_fields(IndexFields(content="text"))) == {"content": "text"}
