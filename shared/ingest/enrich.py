"""What do models add to passages? A description of each picture, a vector of each text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.chat.errors import BadRequest
from shared.chat.events import collect
from shared.chat.image_types import to_data_url
from shared.chat.messages import Message
from shared.ingest.concurrency import together
from shared.ingest.splitting.passages import Passage, described
from shared.models.base import Model, Prompt
from shared.rag.flow import checked
from shared.retrieval.base import Embed

Vectors = tuple[Sequence[float], ...]

BATCH = 64  # texts of one request: about 20,000 tokens, where the services take 300,000
AT_ONCE = 4  # requests


@dataclass(frozen=True, slots=True)
class Describer:
    """A model that sees, and the words that ask it what a picture shows."""

    model: Model
    words: str

    async def __call__(self, passage: Passage) -> Passage:
        """The passage with what the model sees; as it was where the model refuses the picture."""
        shown = to_data_url(passage.image or b"") or ""
        asked = (Message("system", self.words), Message("user", passage.content, (shown,)))
        try:
            async with self.model.open(Prompt("answer", asked, temperature=0.0)) as stream:
                answer = await collect(checked(stream))
        except BadRequest:
            return passage
        return described(passage, answer.content) if answer.content.strip() else passage


@dataclass(frozen=True, slots=True)
class Enrich:
    """What is added: by `embed`, by `describe`, None where there is no such model.

    `made_with` names the models: with others the passages are other ones.
    """

    embed: Embed | None = None
    describe: Describer | None = None
    made_with: str = ""
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def passages(
        self, given: tuple[Passage, ...]
    ) -> tuple[tuple[Passage, ...], Vectors | None]:
        """The passages, their pictures described, and a vector for each. Raises ChatError."""
        made = tuple(await together(self._described(passage) for passage in given))
        if self.embed is None:
            return made, None
        texts = [passage.content for passage in made]
        parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        vectors = await together(self._embedded(part) for part in parts)
        return made, tuple(vector for part in vectors for vector in part)

    async def _described(self, passage: Passage) -> Passage:
        if passage.image is None or self.describe is None:
            return passage
        async with self._turns:
            return await self.describe(passage)

    async def _embedded(self, texts: list[str]) -> list[list[float]]:
        assert self.embed is not None
        async with self._turns:
            return await self.embed(texts)
