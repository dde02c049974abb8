"""Reads the passage of a reference, by the kind of its knowledge source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.errors import Misconfigured
from shared.domain.events import Source, escape_citation
from shared.retrieval.azure_search.index_fields import IndexFields

# Where a reference has the address, or the name, of its document, by the kind of its source.
ADDRESSES = {
    "azureBlob": "blobUrl",
    "file": "docName",
    "indexedOneLake": "docUrl",
    "indexedSharePoint": "docUrl",
    "indexedSql": "docUrl",
}
TEXT = "snippet"  # the field of the text in the indexes that the service makes


def to_source(fields: IndexFields, reference: Mapping[str, Any]) -> Source:
    """Return the passage of a reference. Raises Misconfigured if it has no text."""
    data = reference["sourceData"] or {}
    if reference["type"] in ADDRESSES:
        return _to_document_source(reference, data)
    required = (fields.content, fields.sourcepage, fields.sourcefile)
    _check_fields(data, *required)
    own = {fields.id: reference["docKey"], "@search.rerankerScore": reference["rerankerScore"]}
    return fields.to_source({**data, **own})


def _to_document_source(reference: Mapping[str, Any], data: Mapping[str, Any]) -> Source:
    """Return the passage of a document elsewhere, which is cited by its address."""
    _check_fields(data, TEXT)
    address = str(reference[ADDRESSES[reference["type"]]])
    is_web = address.lower().startswith(("https://", "http://"))
    return Source(
        id=str(data.get("uid") or reference["id"]),
        content=str(data[TEXT]),
        sourcepage=escape_citation(address),
        sourcefile=address,
        reranker_score=reference["rerankerScore"],
        url=address if is_web else "",
    )


def _check_fields(data: Mapping[str, Any], *names: str) -> None:
    if missing := [name for name in names if name not in data]:
        hint = f"are {', '.join(missing)} among the sourceDataFields of the knowledge source?"
        raise Misconfigured(cause=f"knowledge base: {hint}")
