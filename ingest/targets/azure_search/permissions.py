"""Permissions that the service checks itself, by a token of whoever searches.

The fields of an index say which ids they hold. In them, empty lists mean nobody.
"""

from __future__ import annotations

from dataclasses import replace

from azure.search.documents.indexes.models import SearchIndex

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


def check_permissions(existing: SearchIndex, ours: SearchIndex) -> None:
    """Raise IndexUnavailable where the service checks only one of two definitions."""
    fields = {field.name: field.get(FILTER) for field in existing.fields}
    is_checked = existing.get(OPTION) == "enabled"
    if ours.get(OPTION) is None and is_checked:
        raise IndexUnavailable(CHECKED.format(index=existing.name))
    missing = [each for each in ours.fields if fields.get(each.name) != each.get(FILTER)]
    if ours.get(OPTION) and (missing or not is_checked):
        raise IndexUnavailable(UNCHECKED.format(index=existing.name))


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
