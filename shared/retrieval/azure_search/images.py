"""Fetches the images of passages of an index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.errors import ChatError
from shared.domain.events import Source
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.base import MAX_IMAGES

FetchImage = Callable[[str], Awaitable[str | None]]
"""Returns the data URL of an image by its key in the index; None if there is none."""


@dataclass(frozen=True, slots=True)
class Images:
    """The images of passages."""

    fetch: FetchImage
    seconds: float  # limits the fetch of an image

    async def attach(
        self, sources: tuple[Source, ...], hits: Sequence[Mapping[str, Any]], names: IndexFields
    ) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        """Return the sources with their images, and a note if any are missing.

        An image that cannot be fetched is left out: the text of its passage describes it.
        """
        keys = {str(hit[names.id]): str(hit[names.image]) for hit in hits if hit.get(names.image)}
        ids = [source.id for source in sources if source.id in keys][:MAX_IMAGES]
        fetches = (self._fetch_or_none(keys[id]) for id in ids)
        images = dict(zip(ids, await asyncio.gather(*fetches), strict=True))
        missing = list(images.values()).count(None)
        note = f"use_gpt4v: {missing} of {len(ids)} images could not be fetched; text was used."
        return (
            tuple(replace(source, image=images.get(source.id)) for source in sources),
            (note,) if missing else (),
        )

    async def _fetch_or_none(self, key: str) -> str | None:
        try:
            async with asyncio.timeout(self.seconds):
                return await self.fetch(key)
        except (ChatError, TimeoutError):
            return None
