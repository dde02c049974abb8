"""The parts of messages that name a file, in the form of chat completions."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.errors import BadRequest
from shared.domain.messages import FileReference
from shared.http.call import Json

NO_ID = "is required: send the file to POST /v1/files first, and name it by its id"


def format_file(path: str, id: str | None) -> Json:
    """Return a part that names a file. Raises BadRequest without an id."""
    if not id:
        raise BadRequest(NO_ID, field=f"{path}.file_id")
    return {"type": "file", "file_id": id, "field": f"{path}.file_id"}


def read_files(parts: Sequence[Json]) -> tuple[FileReference, ...]:
    """Return the files that parts name."""
    return tuple(
        FileReference(part["file_id"], part["field"]) for part in parts if part["type"] == "file"
    )


def without_files(parts: Sequence[Json]) -> list[Json]:
    """Return the parts that a model gets."""
    return [part for part in parts if part["type"] != "file"]
