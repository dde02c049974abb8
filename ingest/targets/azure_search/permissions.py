"""Permissions that the service checks itself, by a token of whoever searches.

The fields of an index say which ids they hold. In them, empty lists mean nobody.
"""

from __future__ import annotations

from dataclasses import replace

from azure.search.documents.indexes.models import SearchField, SearchIndex

from ingest.targets.index_writer import Document, DocumentRejected, IndexUnavailable
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.permissions import EVERYONE

# Reads also what the caller may not see. Needs a role with elevatedOperations/read.
ELEVATED_READ = {"x-ms-enable-elevated-read": "true"}
FILTER, OPTION = "permissionFilter", "permissionFilterOption"  # the SDK's classes have neither
MAX_IDS = 1000  # in a field of a passage, the service's limit
TOO_MANY_IDS = (
    "its rules in acl.yaml name {number} ids, and Azure AI Search takes 1,000: name groups instead"
)
UNCHECKED = (
    "The service does not check the permissions of the index {index}, which cannot be changed: "
    "name another index in AZURE_SEARCH_INDEX, or delete this one."
)
CHECKED = (
    "The service checks the permissions of the index {index}: set AZURE_SEARCH_PERMISSIONS to "
    "user-token. Without it, documents without rules would be for nobody."
)


def add_permissions(index: SearchIndex, names: IndexFields) -> None:
    """Let the service check the fields of users and groups."""
    index[OPTION] = "enabled"
    kinds = {names.oids: "userIds", names.groups: "groupIds"}
    for field in index.fields:
        if field.name in kinds:
            field[FILTER] = kinds[field.name]


def check_permissions(index: str, existing: SearchField, ours: SearchField) -> None:
    """Raise IndexUnavailable where only one of two fields is checked by the service."""
    if existing.get(FILTER) == ours.get(FILTER):
        return
    message = UNCHECKED if ours.get(FILTER) else CHECKED
    raise IndexUnavailable(message.format(index=index))


def with_readers(document: Document) -> Document:
    """Return a document whose passages without rules are for everyone.

    Raises DocumentRejected.
    """
    passages = []
    for passage in document.passages:
        number = max(len(passage.oids), len(passage.groups))
        if number > MAX_IDS:
            raise DocumentRejected(TOO_MANY_IDS.format(number=number))
        public = not passage.oids and not passage.groups
        passages.append(replace(passage, oids=(EVERYONE,)) if public else passage)
    return replace(document, passages=tuple(passages))


def restricted_filter(names: IndexFields) -> str:
    """Return the filter of passages that are not for everyone."""
    return f"not {names.oids}/any(o: o eq '{EVERYONE}')"
