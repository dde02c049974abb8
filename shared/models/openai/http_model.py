"""A model behind a server: Azure OpenAI, OpenAI, Ollama, LM Studio, another AOG gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from openai import AsyncOpenAI

from shared.chat.errors import ChatError, Misconfigured
from shared.models.base import ModelStream, Prompt
from shared.models.formats.base import ModelConfig, ModelFormat, merged
from shared.models.openai.client import UNREAD, map_errors, ready
from shared.models.openai.stream_decoder import FRAMINGS, Pieces, StreamDecoder, whole
from shared.text.tokens import count_tokens

DRAIN_SECONDS = 0.5
KINDS = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class HttpModel:
    """A Model at the `url` of a server that is spoken to in a flavor."""

    client: AsyncOpenAI
    url: str
    flavor: ModelFormat
    traits: ModelConfig
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
        """Ask its server for what it has. Raises ChatErrors."""
        if address := self.flavor.ready(self.url):
            await ready(self.client, address, self.traits.name, self.traits.hint)

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Ask; entered when the response's headers are there. Raises ChatErrors."""
        body = merged(self.flavor.body(self.traits, prompt), self.traits.more)
        async with AsyncExitStack() as stack:
            with map_errors(self.traits.name, self.traits.hint):
                async with asyncio.timeout(self.traits.accept_seconds):
                    response = await self._posted(body)
                    stack.push_async_callback(response.aclose)
            self._check_kind(response)
            yield await stack.enter_async_context(aclosing(self._events(response)))

    async def _posted(self, body: Mapping[str, Any]) -> httpx2.Response:
        post = self.client.post
        return await post(self.url, cast_to=httpx2.Response, body=body, options=UNREAD)

    def _check_kind(self, response: httpx2.Response) -> None:
        """Raises Misconfigured for a 200 that is no answer, as of a web page at a wrong address."""
        wanted = KINDS[self.flavor.framing] if self.traits.streams else "application/json"
        kind = response.headers.get("content-type", "none")
        if not kind.lower().startswith(wanted):
            status = response.status_code
            cause = f"{self.name}: status {status}, type {kind!r:.80}: is the address right?"
            raise Misconfigured(cause=cause)

    async def _events(self, response: httpx2.Response) -> ModelStream:
        reading = StreamDecoder(self.flavor, self.traits.name)
        framing = FRAMINGS[self.flavor.framing] if self.traits.streams else whole
        due = asyncio.get_running_loop().time() + self.traits.first_seconds
        async with aclosing(framing(response.aiter_bytes())) as lines:
            while (line := await self._next(lines, due, reading)) is not None:
                if delta := reading.take(line):
                    yield delta
                    due = asyncio.get_running_loop().time() + self.traits.gap_seconds
            # A whole answer is one, whether it says so or not.
            reading.ended |= reading.spoken and not self.traits.streams
            try:
                yield reading.done()
            finally:
                await _drained(lines)

    async def _next(self, lines: Pieces, due: float, reading: StreamDecoder) -> bytes | None:
        """The next object, or None at the end. Raises ChatErrors."""
        if reading.ended:
            return None
        try:
            with map_errors(self.traits.name, self.traits.hint):
                # A limit for each wait: none may span a yield.
                async with asyncio.timeout_at(due):
                    return await anext(lines, None)
        except ChatError:
            if reading.reason is None:
                raise
            return None  # the answer was whole: what is lost is what stands behind it


async def _drained(lines: Pieces) -> None:
    """Read to the end of the response: only then is its connection used again."""
    with suppress(TimeoutError, httpx2.HTTPError, ChatError):
        async with asyncio.timeout(DRAIN_SECONDS):
            await anext(lines, None)
