"""A model that answers with the question itself: hostile text reaches the page as an answer.

`long N` is answered with Markdown of about N characters.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from shared.domain.events import Delta, Done, Usage
from shared.models.base import ModelStream, Prompt

ECHO = {"CHAT_MODEL": f"{__name__}:make_model"}  # the setting
CHUNK = 7  # characters: cuts words, marks and tags
PARAGRAPH = "Some **words** of an answer, with `code` and a [link](https://example.com). " * 6


class EchoModel:
    """Streams the question in small chunks."""

    name = "echo"
    max_prompt_tokens = 1_000_000
    limits: Mapping[str, str] = {}

    def count(self, text: str) -> int:
        """Return a number that always fits."""
        return len(text) // 4

    async def ready(self) -> None:
        """Do nothing."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Accept any prompt."""
        question = prompt.messages[-1].content.partition("\n\nSources:")[0]
        size = re.fullmatch(r"long (\d+)", question)
        paragraphs = int(size[1]) // len(PARAGRAPH) if size else 0
        stream = _stream("\n\n".join([PARAGRAPH] * paragraphs) or question)
        yield stream
        await stream.aclose()


async def _stream(text: str) -> ModelStream:
    for start in range(0, len(text), CHUNK):
        yield Delta(text[start : start + CHUNK])
    yield Done(usage=Usage(1, 1))


def make_model(_settings: object) -> EchoModel:
    """The factory for `CHAT_MODEL`."""
    return EchoModel()
