"""The queue by which the app has uploads read and removed."""

from __future__ import annotations

import asyncio
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.storage.queue import TextBase64EncodePolicy
from azure.storage.queue.aio import QueueClient

from shared.azure.errors import (
    ShortStorageRetryPolicy,
    error_retry_after,
    map_errors,
    map_malformed_response,
)
from shared.domain.errors import Misconfigured, Unavailable
from shared.files.blobs import CONNECT_SECONDS, READ_SECONDS, error_code

QUEUE = "uploads"
NEVER = -1  # a message expires
ROLE = "Storage Queue Data Message Sender"


def make_queue_client(endpoint: str, credential: Any, **options: Any) -> QueueClient:
    """Make the client of the queue. `options` are those of the SDK."""
    settings: dict[str, Any] = {
        "retry_policy": ShortStorageRetryPolicy(),
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        # What the trigger of the Functions host expects.
        "message_encode_policy": TextBase64EncodePolicy(),
    }
    return QueueClient(endpoint, QUEUE, credential=credential, **(settings | options))


class UploadsQueue:
    """Sends a message for an upload that is to be read or removed."""

    def __init__(self, client: QueueClient, seconds: float = 10.0) -> None:
        """`seconds` limits one request."""
        self.client, self._seconds = client, seconds

    async def send(self, path: str) -> None:
        """Send the path of an upload's blobs. Raises Unavailable, Misconfigured."""
        with map_errors("uploads: queue", _map_status), map_malformed_response():
            async with asyncio.timeout(self._seconds):
                await self.client.send_message(path, time_to_live=NEVER)


def _map_status(error: HttpResponseError) -> Exception:
    """Map an error response of the queue to a ChatError."""
    cause = f"uploads: queue: status {error.status_code}, code {error_code(error)!r:.80}"
    match error.status_code:
        case 404:
            return Misconfigured(cause=f"{cause}: is AZURE_UPLOADS_QUEUE_ENDPOINT right?")
        case 401 | 403:
            return Misconfigured(cause=f"{cause}: does the app's identity have the role {ROLE}?")
        case _:
            return Unavailable(retry_after=error_retry_after(error), cause=cause)
