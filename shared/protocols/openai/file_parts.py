"""The parts of messages that name a file of the user by its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from shared.domain.errors import BadRequest
from shared.domain.messages import FileReference, Role
from shared.http.call import Json

NO_ID = "is required: a file is named by its id"
NOT_INSIDE = "is not read here: a file is stored first, and named by its file_id"
NOT_THE_USER = "is not read here: only a message of the user names files"


class InputFile(BaseModel, strict=True):
    """What names a file. One inside of the request is refused: no request reads a document."""

    file_id: str | None = None
    file_data: Any = None
    file_url: Any = None


def parse_file(path: str, part: InputFile) -> Json:
    """Return a part that `split_files` takes out of its message. Raises BadRequest."""
    for name in ("file_data", "file_url"):
        if getattr(part, name) is not None:
            raise BadRequest(NOT_INSIDE, field=f"{path}.{name}")
    if not part.file_id:
        raise BadRequest(NO_ID, field=f"{path}.file_id")
    return {"type": "file", "reference": FileReference(part.file_id, f"{path}.file_id")}


def split_files(role: Role, parts: Sequence[Json]) -> tuple[list[Json], tuple[FileReference, ...]]:
    """Return the parts that a model gets, and the files that the others name.

    Raises BadRequest for files in a message that is not the user's.
    """
    files = tuple(part["reference"] for part in parts if part["type"] == "file")
    if files and role != "user":
        raise BadRequest(NOT_THE_USER, field=files[0].field)
    return [part for part in parts if part["type"] != "file"], files
