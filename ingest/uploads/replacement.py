"""Which uploads a later one of the same name has replaced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from shared.uploads.base import Upload


def list_replaced(uploads: Iterable[Upload]) -> list[Upload]:
    """Return those of these uploads that another of the same owner and name has replaced."""
    groups = defaultdict[tuple[str, str], list[Upload]](list)
    for upload in uploads:
        groups[upload.owner, upload.name].append(upload)
    return [
        earlier
        for group in groups.values()
        for earlier in group
        if any(_replaces(later, earlier) for later in group)
    ]


def _replaces(later: Upload, earlier: Upload) -> bool:
    """Whether one has replaced the other: one that has failed replaces only what has failed."""
    if not later.replaces or later.order <= earlier.order:
        return False
    return later.state == "ready" or later.state == earlier.state == "failed"
