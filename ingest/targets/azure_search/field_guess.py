"""Finds out, from the definition of an index, which of its fields have what the app reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from azure.search.documents.indexes.models import SearchField, SearchIndex

from ingest.targets.azure_search.index_update import STRING, STRINGS
from ingest.targets.index_writer import IndexUnavailable
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.search_fields import ON_YOUR_DATA, PRESET

# The names that tools give to a field, the likeliest first: this app, the tools of On Your Data,
# the wizards of the portal, azure-search-openai-demo, LangChain.
NAMES: Mapping[str, Sequence[str]] = {
    "content": ("content", "chunk", "text", "page_content", "snippet", "merged_content"),
    "sourcepage": (
        *("sourcepage", "filepath", "title", "document_title", "file_name", "filename"),
        *("metadata_storage_name", "source", "url"),
    ),
    "sourcefile": (
        *("sourcefile", "filepath", "title", "document_title", "file_name", "filename"),
        *("metadata_storage_name", "source", "url"),
    ),
    "category": ("category",),
    "oids": ("oids", "user_ids", "userids"),
    "groups": ("groups", "group_ids", "groupids"),
    "embedding": ("embedding", "contentvector", "text_vector", "content_vector", "vector"),
    "image": ("image",),
    "title": ("title", "document_title"),
    "url": ("url", "document_url", "web_url"),
    "chunk": ("chunk_id",),
}
NO_TEXT = (
    "The index {index} has no field that looks like the text of its passages. Its fields: {fields}."
)


def guess_fields(index: SearchIndex) -> IndexFields:
    """Return the names of the fields. Raises IndexUnavailable for an index without passages."""
    fields = {field.name.lower(): field for field in index.fields}
    key = next(field.name for field in index.fields if field.key)
    texts = {name: each for name, each in fields.items() if each.type == STRING and not each.hidden}
    vectors = [each.name for each in index.fields if each.vector_search_dimensions]
    own = "sourcepage" in texts and "sourcefile" in texts
    content = _pick("content", texts, key)
    if not content:
        names = ", ".join(field.name for field in index.fields)
        raise IndexUnavailable(NO_TEXT.format(index=index.name, fields=names))
    lists = {name: each for name, each in fields.items() if each.type == STRINGS}
    vector = _pick("embedding", {name.lower(): fields[name.lower()] for name in vectors})
    return IndexFields(
        id=key,
        content=content,
        sourcepage=_pick("sourcepage", texts, key) or key,
        sourcefile=_pick("sourcefile", texts, key) or key,
        category=_pick("category", _filterable(texts)),
        oids=_pick("oids", _filterable(lists)),
        groups=_pick("groups", _filterable(lists)),
        embedding=vector or next(iter(vectors), ""),
        image=_pick("image", texts) if own else "",
        title="" if own else _pick("title", texts, key),
        url="" if own else _pick("url", texts, key),
        # Without the pages of this app's own schema several passages share a name.
        chunk="" if own else _pick("chunk", texts) or key,
    )


def _pick(field: str, fields: Mapping[str, SearchField], key: str = "") -> str:
    """Return the likeliest of the fields, but the key; empty if there is none."""
    found = (fields[name].name for name in NAMES[field] if name in fields)
    return next((name for name in found if name != key), "")


def _filterable(fields: Mapping[str, SearchField]) -> Mapping[str, SearchField]:
    return {name: field for name, field in fields.items() if field.filterable}


def list_settings(index: SearchIndex, names: IndexFields) -> Iterator[tuple[str, str]]:
    """Yield the settings for an index with these fields, each a name and a value."""
    yield "AZURE_SEARCH_INDEX", index.name
    if value := format_fields(names):
        yield "AZURE_SEARCH_FIELDS", value
    semantic = index.semantic_search
    if semantic and semantic.configurations:
        default = semantic.default_configuration_name or semantic.configurations[0].name
        yield "AZURE_SEARCH_SEMANTIC_CONFIGURATION", default
    if _has_vectorizer(index, names.embedding):
        yield "AZURE_SEARCH_VECTORIZER", "true"


def format_fields(names: IndexFields) -> str:
    """Return the value of AZURE_SEARCH_FIELDS; empty for the names that the app has by default."""
    values, defaults = asdict(names), asdict(IndexFields())
    changed = {name: each or None for name, each in values.items() if each != defaults[name]}
    preset = {name: each or "" for name, each in ON_YOUR_DATA.items()}
    if changed and values == {**defaults, **preset}:
        return PRESET
    return json.dumps(changed) if changed else ""


def _has_vectorizer(index: SearchIndex, vector: str) -> bool:
    """Whether the index itself computes the vector of a question."""
    vectors = index.vector_search
    profiles = {each.name: each.vectorizer_name for each in (vectors and vectors.profiles) or ()}
    used = (each.vector_search_profile_name for each in index.fields if each.name == vector)
    return any(profiles.get(name or "") for name in used)
