"""The parts of a user's message that contain a document: it becomes an upload of the user."""

from __future__ import annotations

import re

from shared.domain.errors import BadRequest
from shared.domain.messages import FileReference

DATA_URL = re.compile(r"data:[^,]{0,1000};base64,", re.IGNORECASE)
NOT_DATA = "must be a data URL in base64 for a file that is no image: no address is fetched here"
NO_NAME = "is required for a file that is no image: the end of the name says how it is read"
EMPTY = "has no content"


def is_document(media_type: str | None) -> bool:
    """Return whether a media type is that of a file that is no image; a browser may not know it."""
    return media_type is not None and not media_type.startswith("image")


def parse_document(path: str, url: str | None, name: str | None) -> FileReference:
    """Return the file that a part contains. Raises BadRequest."""
    start = DATA_URL.match(url or "")
    if url is None or start is None:
        raise BadRequest(NOT_DATA, field=f"{path}.url")
    if not name:
        raise BadRequest(NO_NAME, field=f"{path}.filename")
    data = url[start.end() :]
    if not data:
        raise BadRequest(EMPTY, field=f"{path}.url")
    return FileReference("", f"{path}.url", name, data)
