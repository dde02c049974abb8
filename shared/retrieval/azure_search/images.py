"""Which pictures go to the model with the passages that were found?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from shared.chat.errors import ChatError
from shared.chat.events import Source
from shared.retrieval.base import MOST_PICTURES

Pictures = Callable[[str], Awaitable[str | None]]
"""The data URL of the picture of a passage, by the key that the index has; None without one."""


async def pictured(
    sources: Sequence[Source], keys: Mapping[str, str], pictures: Pictures, seconds: float
) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """The sources with their pictures, and a note for what is missing of them.

    `keys` has the picture's key by the passage's id. A picture that does not come within `seconds`,
    or not at all, is left out: the passage says in words what it shows.
    """
    asked = [source.id for source in sources if source.id in keys][:MOST_PICTURES]
    got = await asyncio.gather(*(_fetched(keys[one], pictures, seconds) for one in asked))
    found = {one: picture for one, picture in zip(asked, got, strict=True) if picture}
    missing = len(asked) - len(found)
    note = f"use_gpt4v: {missing} of {len(asked)} pictures could not be fetched; text was used."
    return (
        tuple(replace(source, image=found.get(source.id)) for source in sources),
        (note,) if missing else (),
    )


async def _fetched(key: str, pictures: Pictures, seconds: float) -> str | None:
    try:
        async with asyncio.timeout(seconds):
            return await pictures(key)
    except (ChatError, TimeoutError):
        return None
