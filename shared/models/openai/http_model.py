"""The Model of an HTTP server: Azure OpenAI, OpenAI, Ollama, LM Studio, another AOG gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

import httpx2
from openai import AsyncOpenAI

from shared.domain.concurrency import TimeLimit
from shared.domain.errors import ChatError, Misconfigured
from shared.models.base import ModelStream, Prompt
from shared.models.formats.base import ModelConfig, ModelFormat, merge_json
from shared.models.openai.client import (
    ADDRESS_HINT,
    SDK_ERRORS,
    STREAM_OPTIONS,
    check_ready,
    map_errors,
    to_chat_error,
)
from shared.models.openai.stream_decoder import READERS, BodyReader, StreamDecoder
from shared.text import count_tokens

DRAIN_SECONDS = 0.5
CONTENT_TYPES = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


@dataclass(slots=True)
class HttpModel:
    """A Model at the `url` of a server, with the format of its requests and responses."""

    client: AsyncOpenAI
    url: str
    format: ModelFormat
    config: ModelConfig
    limits: Mapping[str, str] = field(default_factory=dict)
    name: str = field(init=False)  # of the model, or of its deployment
    max_prompt_tokens: int = field(init=False)
    count = staticmethod(count_tokens)

    def __post_init__(self) -> None:
        self.name, self.max_prompt_tokens = self.config.name, self.config.max_prompt_tokens

    async def ready(self) -> None:
        """Request the list of models of its server. Raises ChatErrors."""
        if address := self.format.ready_url(self.url):
            await check_ready(self.client, address, self.name, self.config.hint)

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Send the prompt; entered with the headers of the response. Raises ChatErrors."""
        body = self.format.build_body(self.config, prompt)
        if self.config.extra_body:
            body = merge_json(body, self.config.extra_body)
        request = {"cast_to": httpx2.Response, "body": body, "options": STREAM_OPTIONS}
        async with AsyncExitStack() as stack:
            with map_errors(self.name, self.config.hint):
                async with asyncio.timeout(self.config.accept_seconds):
                    response = await self.client.post(self.url, **request)
                    stack.push_async_callback(response.aclose)
            self._check_content_type(response)
            yield await stack.enter_async_context(aclosing(self._events(response)))

    def _check_content_type(self, response: httpx2.Response) -> None:
        """Raise Misconfigured for another content type, such as of a web page at a wrong URL."""
        expected = (
            CONTENT_TYPES[self.format.framing]
            if self.config.supports_streaming
            else "application/json"
        )
        kind = response.headers.get("content-type", "none")
        if not kind.lower().startswith(expected):
            status = response.status_code
            cause = f"{self.name}: status {status}, type {kind!r:.80}: {ADDRESS_HINT}"
            raise Misconfigured(cause=cause)

    async def _events(self, response: httpx2.Response) -> ModelStream:
        decoder = StreamDecoder(self.format, self.name)
        reader = READERS[self.format.framing]() if self.config.supports_streaming else BodyReader()
        now, first_seconds = asyncio.get_running_loop().time, self.config.first_seconds
        chunk: bytes | None = b""
        async with aclosing(response.aiter_bytes()) as chunks:
            with closing(TimeLimit(now() + first_seconds)) as limit:
                while chunk is not None and not decoder.has_ended:
                    chunk = await self._next_chunk(chunks, limit, decoder)
                    objects = reader.end() if chunk is None else reader.feed(chunk)
                    for delta in decoder.decode_all(objects):
                        yield delta
                        limit.deadline = now() + self.config.gap_seconds
            # A response without streaming is complete, even without a finish reason.
            decoder.has_ended |= decoder.has_content and not self.config.supports_streaming
            try:
                yield decoder.done()
            finally:
                await _drain(chunks)

    async def _next_chunk(
        self, chunks: AsyncIterator[bytes], limit: TimeLimit, decoder: StreamDecoder
    ) -> bytes | None:
        """The next bytes of a response, or None at its end. Raises ChatErrors."""
        try:
            with limit:
                return await anext(chunks, None)
        except SDK_ERRORS as error:
            if decoder.finish_reason is None:
                raise to_chat_error(error, self.name, self.config.hint) from error
            return None  # the answer is complete: only what follows it is lost


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the response to its end, so that its connection can be reused."""
    with suppress(TimeoutError, httpx2.HTTPError, ChatError):
        async with asyncio.timeout(DRAIN_SECONDS):
            await anext(chunks, None)
