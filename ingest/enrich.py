"""Adds model output to passages: descriptions of images and embedding vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.concurrency import MAX_CONCURRENT_REQUESTS, run_concurrently
from ingest.splitting.passages import Passage, with_description
from shared.domain.errors import BadRequest
from shared.domain.events import collect
from shared.domain.messages import Message, to_data_url
from shared.models.base import Model, Prompt
from shared.rag.model_stream import check_stream
from shared.retrieval.base import Embed

Vectors = tuple[Sequence[float], ...]

BATCH_SIZE = 64  # texts per request: about 20,000 tokens, where the services accept 300,000


@dataclass(frozen=True, slots=True)
class Enricher:
    """Adds vectors and descriptions of images."""

    embed: Embed | None = None  # None without an embedding model
    vision: Model | None = None  # None without a model that accepts images
    prompt: str = ""  # the system message for descriptions
    fingerprint: str = ""  # of the models and the prompt: files are indexed again when it changes
    _semaphore: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
    )

    async def enrich(
        self, passages: tuple[Passage, ...]
    ) -> tuple[tuple[Passage, ...], Vectors | None]:
        """Return the passages with images described, and a vector for each. Raises ChatError."""
        enriched = tuple(await run_concurrently(self._describe_image(one) for one in passages))
        if self.embed is None:
            return enriched, None
        texts = [passage.content for passage in enriched]
        batches = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]
        vectors = await run_concurrently(self._embed_batch(batch) for batch in batches)
        return enriched, tuple(vector for batch in vectors for vector in batch)

    async def _describe_image(self, passage: Passage) -> Passage:
        """Add the model's description to an image; unchanged where the model rejects it."""
        if passage.image is None or self.vision is None:
            return passage
        url = to_data_url(passage.image) or ""
        messages = (Message("system", self.prompt), Message("user", passage.content, (url,)))
        prompt = Prompt("answer", messages, temperature=0.0)
        try:
            async with self._semaphore, self.vision.open(prompt) as stream:
                answer = await collect(check_stream(stream))
        except BadRequest:
            return passage
        return with_description(passage, answer.content) if answer.content.strip() else passage

    async def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        assert self.embed is not None
        async with self._semaphore:
            return await self.embed(texts)
