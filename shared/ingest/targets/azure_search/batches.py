"""Builds the indexing actions of passages, and splits them into batches of limited size."""

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

MAX_ACTIONS = 1000  # the service's limit
MAX_BYTES = 8 * 1024 * 1024  # half of the service's limit, which includes the envelope
ACTION = "@search.action"


@dataclass(frozen=True, slots=True)
class IndexFeatures:
    """The optional features of an index: stored images, a vector field."""

    images: bool = False
    vectors: bool = False


def upload_actions(
    document: Document, fields: IndexFields, features: IndexFeatures
) -> Iterator[Action]:
    """Yield the actions that write the passages of a file, in order.

    All fields of the app are set, also empty ones, so that no value of an older passage with the
    same id remains; other fields are kept.
    """
    vectors: Sequence[Sequence[float] | None]
    vectors = document.vectors or (None,) * len(document.passages)
    for passage, vector in zip(document.passages, vectors, strict=True):
        row = _upload_action(passage, fields, features.images)
        embedding = None if vector is None else list(vector)
        yield row | {fields.embedding: embedding} if features.vectors else row


def _upload_action(passage: Passage, fields: IndexFields, has_images: bool) -> Action:
    return {
        ACTION: "mergeOrUpload",
        fields.id: passage.id,
        fields.content: passage.content,
        fields.sourcepage: passage.sourcepage,
        fields.sourcefile: passage.sourcefile,
        fields.category: passage.category or None,
        fields.oids: list(passage.oids),
        fields.groups: list(passage.groups),
        fields.image: passage.id if has_images and passage.image else None,
        FINGERPRINT: None,
    }


def fingerprint_action(key: str, fingerprint: str, fields: IndexFields) -> Action:
    """The action that sets the fingerprint of an existing passage; it never creates one."""
    return {ACTION: "merge", fields.id: key, FINGERPRINT: fingerprint}


def delete_action(key: str, fields: IndexFields) -> Action:
    """The action that deletes a passage; a missing one is no error."""
    return {ACTION: "delete", fields.id: key}


def split_batches(actions: Iterable[Action]) -> Iterator[list[Action]]:
    """Split actions into batches that fit into a request; an oversized action is sent alone."""
    batch: list[Action] = []
    size = 0
    for action in actions:
        added = len(json.dumps(action)) + 2  # as the SDK writes it: in ASCII, with separators
        if batch and (len(batch) == MAX_ACTIONS or size + added > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(action)
        size += added
    if batch:
        yield batch
