"""What goes to the index in one request: rows made of passages, and batches of a bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.ingest.splitting.passages import Passage
from shared.ingest.targets.azure_search.index_definition import FINGERPRINT
from shared.ingest.targets.index_writer import Document
from shared.retrieval.azure_search.field_mapping import IndexFields

Action = dict[str, Any]

MAX_ACTIONS = 1000  # the service's own limit
MAX_BYTES = 8 * 1024 * 1024  # half of the service's: what is around the actions counts too
ACTION = "@search.action"


@dataclass(frozen=True, slots=True)
class IndexFeatures:
    """What there is beside the texts: a store of pictures, a field for vectors."""

    images: bool = False
    vectors: bool = False


def upload_actions(document: Document, fields: IndexFields, has: IndexFeatures) -> Iterator[Action]:
    """What puts each passage of a file, in order.

    Every field of ours is named, also where it is empty: nothing of an older passage with the same
    id stays, and fields that are not ours do.
    """
    vectors: Sequence[Sequence[float] | None]
    vectors = document.vectors or (None,) * len(document.passages)
    for passage, vector in zip(document.passages, vectors, strict=True):
        row = _upload_action(passage, fields, has.images)
        made = None if vector is None else list(vector)
        yield row | {fields.embedding: made} if has.vectors else row


def _upload_action(passage: Passage, fields: IndexFields, pictures: bool) -> Action:
    return {
        ACTION: "mergeOrUpload",
        fields.id: passage.id,
        fields.content: passage.content,
        fields.sourcepage: passage.sourcepage,
        fields.sourcefile: passage.sourcefile,
        fields.category: passage.category or None,
        fields.oids: list(passage.oids),
        fields.groups: list(passage.groups),
        fields.image: passage.id if pictures and passage.image else None,
        FINGERPRINT: None,
    }


def fingerprint_action(key: str, fingerprint: str, fields: IndexFields) -> Action:
    """What sets the mark of a passage that is there; it never makes one."""
    return {ACTION: "merge", fields.id: key, FINGERPRINT: fingerprint}


def delete_action(key: str, fields: IndexFields) -> Action:
    """What deletes a passage; one that is not there is no failure."""
    return {ACTION: "delete", fields.id: key}


def split_batches(actions: Iterable[Action]) -> Iterator[list[Action]]:
    """Actions in batches that fit into a request; one that does not fit alone goes alone."""
    batch: list[Action] = []
    size = 0
    for action in actions:
        more = len(json.dumps(action)) + 2  # as the SDK writes it: in ASCII, with separators
        if batch and (len(batch) == MAX_ACTIONS or size + more > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(action)
        size += more
    if batch:
        yield batch
