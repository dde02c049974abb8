"""Azure OpenAI, and whatever else speaks OpenAI's chat completions: Ollama, LM Studio, OpenAI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from openai import AsyncOpenAI

from shared.errors import ChatError, Misconfigured
from shared.models import ModelStream, Prompt
from shared.models.openai_client import ready, translated
from shared.models.openai_request import Traits, request
from shared.models.sse import Reading, data
from shared.tokens import count_tokens

Lines = AsyncGenerator[bytes, None]

DRAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """A Model behind a chat completions endpoint."""

    client: AsyncOpenAI
    traits: Traits
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model's, or the deployment's."""
        return self.traits.name

    @property
    def max_prompt_tokens(self) -> int:
        """The budget for a prompt."""
        return self.traits.max_prompt_tokens

    def count(self, text: str) -> int:
        """How many tokens `text` is, rather too high than too low."""
        return count_tokens(text)

    async def ready(self) -> None:
        """Ask its server for the list of models. Raises ChatErrors."""
        await ready(self.client, self.traits.name, self.traits.hint)

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Ask; entered when the response's headers are there. Raises ChatErrors."""
        create = self.client.chat.completions.with_streaming_response.create
        async with AsyncExitStack() as stack:
            with translated(self.traits.name, self.traits.hint):
                async with asyncio.timeout(self.traits.accept_seconds):
                    asking = create(**request(self.traits, prompt))
                    response = await stack.enter_async_context(asking)
            _check_stream(self.name, response)
            yield await stack.enter_async_context(aclosing(self._events(response)))

    async def _events(self, response: Any) -> ModelStream:
        reading = Reading(self.traits.name)
        due = asyncio.get_running_loop().time() + self.traits.first_seconds
        async with aclosing(data(response.iter_bytes())) as lines:
            while (line := await self._next(lines, due, reading)) is not None:
                if delta := reading.take(line):
                    yield delta
                    due = asyncio.get_running_loop().time() + self.traits.gap_seconds
            try:
                yield reading.done()
            finally:
                await _drained(lines)

    async def _next(self, lines: Lines, due: float, reading: Reading) -> bytes | None:
        """The next event's data, or None at the end. Raises ChatErrors."""
        if reading.ended:
            return None
        try:
            with translated(self.traits.name, self.traits.hint):
                # A limit for each wait: none may span a yield.
                async with asyncio.timeout_at(due):
                    return await anext(lines, None)
        except ChatError:
            if reading.reason is None:
                raise
            return None  # the answer was whole: what is lost is what stands behind it


def _check_stream(name: str, response: Any) -> None:
    """Raises Misconfigured for a 200 that is no stream, as of a web page at a wrong address."""
    kind = response.headers.get("content-type", "none")
    if not kind.lower().startswith("text/event-stream"):
        cause = f"{name}: status {response.status_code}, type {kind!r:.80}: is the address right?"
        raise Misconfigured(cause=cause)


async def _drained(lines: Lines) -> None:
    """Read to the end of the response: only then is its connection used again."""
    with suppress(TimeoutError, httpx2.HTTPError, ChatError):
        async with asyncio.timeout(DRAIN_SECONDS):
            await anext(lines, None)
