"""Fetches the images of the passages that a search returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from shared.chat.errors import ChatError
from shared.chat.events import Source
from shared.retrieval.base import MAX_IMAGES

FetchImage = Callable[[str], Awaitable[str | None]]
"""Returns the data URL of an image by its key in the index; None if there is none."""


async def attach_images(
    sources: Sequence[Source], keys: Mapping[str, str], fetch_image: FetchImage, seconds: float
) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Return the sources with their images, and a note if any are missing.

    `keys` has the keys of images by the ids of passages. An image that cannot be fetched within
    `seconds` is left out: the text of its passage describes it.
    """
    ids = [source.id for source in sources if source.id in keys][:MAX_IMAGES]
    results = await asyncio.gather(*(_fetch_or_none(keys[id], fetch_image, seconds) for id in ids))
    images = {id: image for id, image in zip(ids, results, strict=True) if image}
    missing = len(ids) - len(images)
    note = f"use_gpt4v: {missing} of {len(ids)} images could not be fetched; text was used."
    return (
        tuple(replace(source, image=images.get(source.id)) for source in sources),
        (note,) if missing else (),
    )


async def _fetch_or_none(key: str, fetch_image: FetchImage, seconds: float) -> str | None:
    try:
        async with asyncio.timeout(seconds):
            return await fetch_image(key)
    except (ChatError, TimeoutError):
        return None
