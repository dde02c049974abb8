"""Retries requests to Blob storage while documents are indexed."""

from __future__ import annotations

from shared.azure.errors import StorageRetryPolicy


def make_retry_policy() -> StorageRetryPolicy:
    """Make a policy that waits for a busy service for minutes, as long as Retry-After says."""
    return StorageRetryPolicy(retry_total=6, retry_status=6, retry_backoff_max=30)
