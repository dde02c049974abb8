"""The client of an OpenAI endpoint: what goes out, what is tried again, what its failures mean."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import httpx2
from openai import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
    OpenAIError,
)

from shared.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    Misconfigured,
    TooManyRequests,
    Unavailable,
)
from shared.models.sse import CODES

Key = Callable[[], Awaitable[str]]

RETRIES = 1
LONGEST_WAIT = 2.0  # seconds of Retry-After that are waited for here; a longer one is the caller's
CONNECT_SECONDS = 5.0

# The headers that a request may have; the SDK would add others from the environment.
OURS = re.compile(
    r"host|accept(-encoding)?|connection|content-(type|length)|user-agent|x-stainless"
)


def make_client(base_url: str, key: Key) -> AsyncOpenAI:
    """The client for an endpoint, made once a worker. `key` is asked at every attempt."""

    async def only_ours(sent: httpx2.Request) -> None:
        """Nothing that the SDK takes from the environment goes out; the key is ours."""
        for name in [name for name in sent.headers if not OURS.match(name)]:
            del sent.headers[name]
        sent.headers["authorization"] = f"Bearer {await key()}"

    async def no_long_waits(received: httpx2.Response) -> None:
        """The SDK would wait up to two minutes: what is longer than ours, it shall not retry."""
        if (seconds(received.headers) or 0) > LONGEST_WAIT:
            received.headers["x-should-retry"] = "false"

    return AsyncOpenAI(
        base_url=base_url,
        api_key="set by only_ours",
        admin_api_key="",
        organization="",
        project="",
        webhook_secret="",
        max_retries=RETRIES,
        http_client=DefaultAsyncHttpxClient(
            event_hooks={"request": [only_ours], "response": [no_long_waits]},
            follow_redirects=False,
            timeout=httpx2.Timeout(600, connect=CONNECT_SECONDS),
        ),
    )


async def embed(client: AsyncOpenAI, name: str, limit: float, text: str) -> list[float]:
    """The vector of a text by the embedding model `name`, within `limit` seconds."""
    with translated(name, "does it exist at the same endpoint?"):
        async with asyncio.timeout(limit):
            made = await client.embeddings.create(model=name, input=text, encoding_format="float")
            return made.data[0].embedding


@contextmanager
def translated(name: str, hint: str) -> Iterator[None]:
    """The one place where the exceptions of the SDK and its transport become ours.

    `name` is the model's, `hint` what to look at where it refuses us.
    """
    try:
        yield
    except ChatError:
        raise
    except (TimeoutError, APITimeoutError, httpx2.TimeoutException) as error:
        raise DeadlineExceeded(cause=f"{name}: {type(error).__name__}") from error
    except APIStatusError as error:
        raise refusal(error, name, hint) from error
    except (APIConnectionError, httpx2.HTTPError, httpx2.StreamError, OpenAIError) as error:
        raise Unavailable(cause=f"{name}: {type(error).__name__}") from error
    except httpx2.InvalidURL as error:
        raise Misconfigured(cause=f"{name}: its endpoint is not a URL") from error


def refusal(error: APIStatusError, name: str, hint: str) -> ChatError:
    """What a refusal means. Its text may hold the user's words: the code alone is logged."""
    cause = f"{name}: status {error.status_code}, code {error.code}, param {error.param}"
    if error.status_code == 400 and (kind := CODES.get(error.code or "")):
        return kind(cause=cause)
    match error.status_code:
        case 429:
            wait = seconds(error.response.headers)
            return TooManyRequests(retry_after=wait, cause=cause)
        case 401 | 403:
            return Misconfigured(cause=f"{cause}: {hint}")
        case 404:
            return Misconfigured(cause=f"{cause}: there is no such deployment, model or endpoint")
        case 400 | 413 | 422 if error.param is None:
            return BadRequest("The model did not accept the question.", cause=cause)
        case 400 | 422:  # a parameter of ours that this model does not take
            return Misconfigured(cause=cause)
        case _:
            return Unavailable(retry_after=seconds(error.response.headers), cause=cause)


def seconds(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds, as the services write it; None for a date or nothing."""
    try:
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None
