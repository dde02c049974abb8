"""The limits of uploads, which each store checks with its own numbers."""

from __future__ import annotations

from shared.domain.errors import TooLarge, TooManyRequests
from shared.uploads.base import UploadLimits

MEGABYTE = 2**20
DAY_SECONDS = 86_400
DRAFT_SECONDS = 600.0  # after which an incomplete upload has no request any more
TOO_LARGE = "{name} is larger than {limit:g} MB, the limit of a file."
NOT_REMOVED = "The uploads that you have deleted are still being removed. Try again in a minute."
TOO_MANY_TODAY = (
    "These are more than the {limit} documents that one person may upload in a day, which ends at "
    "midnight UTC."
)
TOO_MANY = "You have {limit} uploads, as many as one person may have. Delete one first."


def check_size(name: str, size: int, limits: UploadLimits) -> None:
    """Raise TooLarge if a file has too many bytes."""
    if size > limits.file_bytes:
        limit = limits.file_bytes / MEGABYTE
        raise TooLarge(TOO_LARGE.format(name=name, limit=limit))


def check_number(kept: int, stored: int, limits: UploadLimits) -> None:
    """Raise TooManyRequests if an owner has too many uploads. Both numbers include drafts.

    `stored` includes deleted ones: they take room until they are removed, so there may be as many
    of them.
    """
    if kept > limits.files:
        raise TooManyRequests(TOO_MANY.format(limit=limits.files))
    if stored > 2 * limits.files:
        raise TooManyRequests(NOT_REMOVED)


def check_day(number: int, limits: UploadLimits, now: float) -> None:
    """Raise TooManyRequests if an owner has made too many uploads on the day of a time."""
    if number > limits.files_per_day:
        message = TOO_MANY_TODAY.format(limit=limits.files_per_day)
        raise TooManyRequests(message, retry_after=DAY_SECONDS - now % DAY_SECONDS)
