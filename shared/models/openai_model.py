"""Azure OpenAI, and whatever else speaks OpenAI's chat completions: Ollama, LM Studio, OpenAI."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from openai import AsyncOpenAI

from shared.chat import Delta, Message
from shared.errors import ChatError, Misconfigured
from shared.models import ModelStream, Prompt
from shared.models.openai_client import translated
from shared.models.sse import Reading, data
from shared.tokens import count_tokens

Lines = AsyncGenerator[bytes, None]

DRAIN_SECONDS = 0.5

# What is known of models by their names. A deployment may have any name: settings say otherwise.
REASONING = re.compile(r"(?:^|/)(?:o\d(?![a-z\d])|gpt-5(?!\d))(?!.*chat)", re.I)
SEEING = re.compile(
    r"(?:^|/)(?:o[13](?!-mini|-preview)(?![a-z\d])|o4-mini|gpt-5(?!\d)|gpt-4o|gpt-4\.1)"
    r"|vision|llava|-vl\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a model is and takes. `seconds`: to accept, to the first token, between tokens.

    `answer_tokens` is the most that it may write, None for its own limit. `effort` is a reasoning
    model's `reasoning_effort`. `hint` is what to look at where it refuses us, for the log.
    """

    name: str
    max_prompt_tokens: int
    reasoning: bool = False
    seeing: bool = False
    answer_tokens: int | None = None
    effort: str | None = None
    accept_seconds: float = 60
    first_seconds: float = 60
    gap_seconds: float = 30
    hint: str = ""


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
                if text := reading.take(line):
                    yield Delta(text)
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


def known(name: str) -> Traits:
    """What is known of a model by its name alone."""
    reasoning, seeing = bool(REASONING.search(name)), bool(SEEING.search(name))
    return Traits(name, max_prompt_tokens=0, reasoning=reasoning, seeing=seeing)


def limits(traits: Traits) -> Mapping[str, str]:
    """What a model cannot do, in sentences."""
    name, found = traits.name, {}
    if not traits.seeing:
        found["images"] = (
            f"The images were left out: {name} is not known to see them (CHAT_MODEL_VISION)."
        )
    if traits.reasoning:
        found["temperature"] = (
            f"temperature was left out: {name} is a reasoning model, without one."
        )
    return found


def request(traits: Traits, prompt: Prompt) -> dict[str, Any]:
    """The body of a request, with the parameters that this kind of model takes."""
    body: dict[str, Any] = {
        "model": traits.name,
        "messages": [_message(said) for said in prompt.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if prompt.seed is not None:
        body["seed"] = prompt.seed
    if not traits.reasoning:
        body["temperature"] = prompt.temperature
    elif traits.effort:
        body["reasoning_effort"] = traits.effort
    if traits.answer_tokens:
        body["max_completion_tokens" if traits.reasoning else "max_tokens"] = traits.answer_tokens
    return body


def _message(said: Message) -> dict[str, Any]:
    if not said.images:
        return {"role": said.role, "content": said.content}
    text = [{"type": "text", "text": said.content}] if said.content else []
    images = [{"type": "image_url", "image_url": {"url": url}} for url in said.images]
    return {"role": said.role, "content": [*text, *images]}
