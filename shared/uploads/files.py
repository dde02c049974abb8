"""Opens the files of uploads, and those of another store."""

from __future__ import annotations

from shared.domain.errors import NotFound
from shared.files.base import File, Files
from shared.uploads.base import Uploads, upload_id


class UploadFiles:
    """The files of uploads, and those of `others`.

    As for any store, a retriever has decided before who may open a file.
    """

    def __init__(self, others: Files | None, uploads: Uploads) -> None:
        self._others, self._uploads = others, uploads
        self.name = others.name if others else "uploads"

    async def ready(self) -> None:
        """Check that the other store is available. Raises ChatErrors."""
        if self._others:
            await self._others.ready()

    async def open(self, name: str) -> File:
        """Open the file of that name. Raises NotFound, Unavailable, Misconfigured."""
        id = upload_id(name)
        if id is not None:
            return await self._uploads.open(id)
        if self._others is None:
            raise NotFound
        return await self._others.open(name)
