"""How are the documents of an index listed, and changes sent until all of them are taken?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from azure.search.documents.aio import SearchClient
from azure.search.documents.models import IndexAction, IndexDocumentsBatch, IndexingResult

from shared.ingest.concurrency import for_each_concurrently
from shared.ingest.targets.azure_search.batches import ACTION, Action, split_batches
from shared.ingest.targets.azure_search.retry import PartialFailure, RetryPolicy
from shared.ingest.targets.index_writer import DocumentRejected
from shared.retrieval.azure_search.odata import quote

PAGE_SIZE = 1000  # the most that one search gives
TRANSIENT_STATUSES = (409, 422, 429, 503)  # of one document in a batch
MAX_ERROR_LENGTH = 200  # characters of what the service says of a passage


@dataclass(frozen=True, slots=True)
class SearchDocuments:
    """The documents of one index; `key` is the name of their key field."""

    client: SearchClient
    key: str
    retry_policy: RetryPolicy

    async def query(self, condition: str, *select: str) -> AsyncGenerator[dict[str, Any], None]:
        """Every document that `condition` holds for: by ranges of keys, as $skip has an end.

        Raises Refused.
        """
        after = ""
        while True:
            asked = partial(self._fetch_page, f"{condition}{after}", [self.key, *select])
            page = await self.retry_policy.call_with_retry(asked)
            for row in page:
                yield row
            if len(page) < PAGE_SIZE:
                return
            after = f" and {self.key} gt {quote(page[-1][self.key])}"

    async def _fetch_page(self, condition: str, select: list[str]) -> list[dict[str, Any]]:
        found = await self.client.search(
            "*", filter=condition, select=select, order_by=[self.key], top=PAGE_SIZE
        )
        return [{name: row[name] for name in select} async for row in found]

    async def send(self, actions: Iterable[Action]) -> None:
        """Send changes in batches, in any order. Raises Refused."""
        await for_each_concurrently(self._send_batch, split_batches(actions))

    async def _send_batch(self, batch: Sequence[Action]) -> None:
        """Send one batch; what is not taken for a reason that passes is sent again."""
        left = list(batch)

        async def send() -> None:
            nonlocal left
            sent = IndexDocumentsBatch(actions=[IndexAction(action) for action in left])
            left = actions_to_retry(left, await self.client.index_documents(sent), self.key)
            if left:
                raise PartialFailure(f"{len(left)} passages were not taken")

        await self.retry_policy.call_with_retry(send)


def actions_to_retry(
    sent: Sequence[Action], results: Iterable[IndexingResult], key: str
) -> list[Action]:
    """The actions that are to be sent again. Raises Refused where that would not help."""
    told = {result.key: result for result in results}
    again: list[Action] = []
    refused: list[IndexingResult] = []
    for action in sent:
        result = told.get(action[key])
        if result is None or result.status_code in TRANSIENT_STATUSES:
            again.append(action)
        elif not result.succeeded and not _is_already_deleted(action, result):
            refused.append(result)
    if refused:
        raise DocumentRejected(_rejection_message(refused[0], len(refused), len(sent)))
    return again


def _is_already_deleted(action: Action, result: IndexingResult) -> bool:
    """Whether a passage need not be marked, as it is not there any more."""
    return action[ACTION] == "merge" and result.status_code == 404


def _rejection_message(result: IndexingResult, refused: int, sent: int) -> str:
    said = " ".join((result.error_message or "").split())[:MAX_ERROR_LENGTH]
    return (
        f"Azure AI Search did not take {refused} of {sent} passages: "
        f"{result.key} with status {result.status_code}, {said}"
    )
