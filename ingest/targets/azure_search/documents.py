"""Writes passages to the index in batches, as documents with stable keys."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from azure.search.documents.aio import SearchClient
from azure.search.documents.models import IndexAction, IndexDocumentsBatch, IndexingResult

from ingest.concurrency import for_each_concurrently
from ingest.splitting.passages import Passage
from ingest.targets.azure_search.index_update import FINGERPRINT
from ingest.targets.azure_search.permissions import ELEVATED_READ
from ingest.targets.azure_search.retry import PartialFailure, RetryPolicy
from ingest.targets.index_writer import Document, DocumentRejected
from shared.retrieval.azure_search.index_fields import IndexFields, quote

PAGE_SIZE = 1000  # the limit of one search
MAX_ACTIONS = 1000  # of one batch, the service's limit
MAX_BYTES = 8 * 1024 * 1024  # half of the service's limit, which includes the envelope
TRANSIENT_STATUSES = (409, 422, 429, 503)  # of a single document in a batch
MAX_ERROR_LENGTH = 200  # characters of the service's message
ACTION = "@search.action"

Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SearchDocuments:
    """The documents of one index, which have these fields."""

    client: SearchClient
    fields: IndexFields
    retry_policy: RetryPolicy
    checks_permissions: bool = False  # whether the service does, which hides passages

    async def query(self, condition: str, *select: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the documents that match `condition`, paged by key, as $skip is limited.

        Raises DocumentRejected.
        """
        key, after = self.fields.id, ""
        while True:
            page = await self.retry_policy.call_with_retry(
                self._fetch_page, f"{condition}{after}", [key, *select]
            )
            for row in page:
                yield row
            if len(page) < PAGE_SIZE:
                return
            after = f" and {key} gt {quote(page[-1][key])}"

    async def _fetch_page(self, condition: str, select: list[str]) -> list[dict[str, Any]]:
        results = await self.client.search(
            "*",
            filter=condition,
            select=select,
            order_by=[self.fields.id],
            top=PAGE_SIZE,
            headers=ELEVATED_READ if self.checks_permissions else {},
        )
        return [{name: row[name] for name in select} async for row in results]

    async def set_fingerprint(self, keys: Iterable[str], fingerprint: str) -> None:
        """Set the fingerprint of existing passages; none is created. Raises DocumentRejected."""
        key_field = self.fields.id
        await self.send({ACTION: "merge", key_field: key, FINGERPRINT: fingerprint} for key in keys)

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete passages; a missing one is no error. Raises DocumentRejected."""
        await self.send({ACTION: "delete", self.fields.id: key} for key in keys)

    async def send(self, actions: Iterable[Action]) -> None:
        """Send changes in concurrent batches, in any order. Raises DocumentRejected."""
        await for_each_concurrently(self._send_batch, split_batches(actions))

    async def _send_batch(self, batch: Sequence[Action]) -> None:
        """Send one batch; actions that fail for a transient reason are sent again."""
        pending = list(batch)

        async def send() -> None:
            nonlocal pending
            request = IndexDocumentsBatch(actions=[IndexAction(action) for action in pending])
            results = await self.client.index_documents(request)
            pending = actions_to_retry(pending, results, self.fields.id)
            if pending:
                raise PartialFailure(f"{len(pending)} passages were not taken")

        await self.retry_policy.call_with_retry(send)


def actions_to_retry(
    sent: Sequence[Action], results: Iterable[IndexingResult], key: str
) -> list[Action]:
    """The actions to send again. Raises DocumentRejected where a retry would not help."""
    by_key = {result.key: result for result in results}
    retry: list[Action] = []
    rejected: list[IndexingResult] = []
    for action in sent:
        result = by_key.get(action[key])
        if result is None or result.status_code in TRANSIENT_STATUSES:
            retry.append(action)
        elif not result.succeeded and not _is_already_deleted(action, result):
            rejected.append(result)
    if rejected:
        raise DocumentRejected(_rejection_message(rejected[0], len(rejected), len(sent)))
    return retry


def _is_already_deleted(action: Action, result: IndexingResult) -> bool:
    """Whether the passage of a merge no longer exists, which is no error."""
    return action[ACTION] == "merge" and result.status_code == 404


def _rejection_message(result: IndexingResult, rejected: int, sent: int) -> str:
    message = " ".join((result.error_message or "").split())[:MAX_ERROR_LENGTH]
    return (
        f"Azure AI Search did not take {rejected} of {sent} passages: "
        f"{result.key} with status {result.status_code}, {message}"
    )


def upload_actions(
    document: Document, fields: IndexFields, has_images: bool, has_vectors: bool
) -> Iterator[Action]:
    """Yield the actions that write the passages of a file, in order.

    `has_images` and `has_vectors` say whether images are stored and the index has a vector field.
    All fields of the app are set, also empty ones, so that no value of an older passage with the
    same id remains; other fields are kept.
    """
    vectors = document.vectors or [None] * len(document.passages)
    for passage, vector in zip(document.passages, vectors, strict=True):
        action = _upload_action(passage, fields, has_images)
        if has_vectors:
            action[fields.embedding] = None if vector is None else list(vector)
        yield action


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
