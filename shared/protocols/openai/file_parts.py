"""The parts of messages that name a file of the user by its id, or contain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from shared.domain.errors import BadRequest
from shared.domain.messages import FileReference, Role
from shared.http.call import Json

NO_ID = "is required, or file_data"
NO_NAME = "is required with file_data: the end of the name says how the file is read"
NOT_FETCHED = "is not fetched here: send the file as file_data, or store it, and name its file_id"
NOT_BOTH = "is not read beside file_id: leave out one of them"
EMPTY = "has no content"
NOT_THE_USER = "is not read here: only a message of the user has files"


class InputFile(BaseModel, strict=True):
    """What names or contains a file."""

    file_id: str | None = None
    filename: str | None = None
    file_data: str | None = Field(default=None, description="A data URL, or base64.")
    file_url: Any = None


def parse_file(path: str, part: InputFile) -> Json:
    """Return a part that `split_files` takes out of its message. Raises BadRequest."""
    if part.file_url is not None:
        raise BadRequest(NOT_FETCHED, field=f"{path}.file_url")
    if not part.file_data:
        if not part.file_id:
            raise BadRequest(NO_ID, field=f"{path}.file_id")
        return {"type": "file", "reference": FileReference(part.file_id, f"{path}.file_id")}
    if part.file_id:
        raise BadRequest(NOT_BOTH, field=f"{path}.file_data")
    if not part.filename:
        raise BadRequest(NO_NAME, field=f"{path}.filename")
    data = part.file_data.rpartition(";base64,")[2]
    if not data:
        raise BadRequest(EMPTY, field=f"{path}.file_data")
    reference = FileReference("", f"{path}.file_data", part.filename, data)
    return {"type": "file", "reference": reference}


def split_files(role: Role, parts: Sequence[Json]) -> tuple[list[Json], tuple[FileReference, ...]]:
    """Return the parts that a model gets, and the files that the others name.

    Raises BadRequest for files in a message that is not the user's.
    """
    files = tuple(part["reference"] for part in parts if part["type"] == "file")
    if files and role != "user":
        raise BadRequest(NOT_THE_USER, field=files[0].field)
    return [part for part in parts if part["type"] != "file"], files
