"""The client of an OpenAI endpoint: its headers, its retries, the mapping of its errors."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import aiohttp
import httpx2
from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    DefaultAioHttpClient,
    NotFoundError,
    OpenAIError,
)
from pydantic_core import from_json

from shared.azure.errors import MAX_WAIT_SECONDS, describe_cause, is_dropped, retry_after_seconds
from shared.domain.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    Misconfigured,
    TooLong,
    TooManyRequests,
    Unavailable,
)
from shared.domain.hosts import is_loopback
from shared.models.formats.base import ERROR_CODES
from shared.models.formats.openai import SUPPORTED_OPTIONS

GetKey = Callable[[], Awaitable[str]]

MAX_RETRIES, BATCH_MAX_RETRIES = 1, 8
CONNECT_SECONDS = 5.0
# Parameters that the app itself sets: if one is rejected, the request is not at fault.
OWN_PARAMETERS = (
    "model",
    "stream",
    "stream_options",
    "store",
    "temperature",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
)
# Parameters of the Responses API, by their names in chat completions.
CHAT_PARAMETERS = {
    "max_output_tokens": "max_tokens",
    "reasoning.effort": "reasoning_effort",
    "text.format": "response_format",
    "text.verbosity": "verbosity",
}
# Parameters that an error may name to the client, who may have sent them.
REPORTED_PARAMETERS = (*OWN_PARAMETERS, *SUPPORTED_OPTIONS, "tools")
NOT_FOUND_HINT = (
    "there is no such deployment, model or endpoint, or the model has another API (CHAT_MODEL_API)"
)
ADDRESS_HINT = "is the address right?"
TOO_LONG_HINT = "is MAX_PROMPT_TOKENS below the model's context, with room for the answer?"
USER_AGENT = "serverless-rag-chat"
RAW_RESPONSE_HEADER = "x-stainless-raw-response"  # tells the SDK not to read the stream
STREAM_OPTIONS: Any = {"headers": {RAW_RESPONSE_HEADER: "stream"}}


# Of the SDK's two transports, aiohttp's needs a third of the CPU time for a stream.
class DropRetryClient(DefaultAioHttpClient):
    """Lets the SDK retry a dropped connection only.

    The SDK would retry every connection error, also a refused connection and a cut response.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. Raises the SDK's own exception, which it does not retry."""
        try:
            return await super().send(request, **options)
        except httpx2.TransportError as error:
            if is_dropped(error):
                raise
            raise APIConnectionError(request=request) from error


def fixed_key(value: str) -> GetKey:
    """Return a function that returns a key that never changes."""

    async def get_key() -> str:
        return value

    return get_key


def make_client(
    base_url: str,
    key: GetKey | None,
    patient: bool = False,
    headers: Mapping[str, str] | None = None,
) -> AsyncOpenAI:
    """Return a client of an endpoint.

    `key` is called at every attempt; None sends none. `headers` are sent with every request. A
    `patient` client is for a run over many documents: it waits as long as the service requests
    (the SDK up to two minutes), several times.
    """

    more = {name.lower(): value for name, value in (headers or {}).items()}

    async def set_headers(request: httpx2.Request) -> None:
        """Replace the headers: the SDK adds others, and values of the environment."""
        is_raw = request.headers.get(RAW_RESPONSE_HEADER) == "stream"
        request.headers = httpx2.Headers(
            {
                **({RAW_RESPONSE_HEADER: "stream"} if is_raw else {}),
                "host": request.url.netloc.decode(),
                "accept": "text/event-stream, application/x-ndjson, application/json",
                "accept-encoding": "gzip, deflate",
                "content-type": "application/json",
                "content-length": str(len(await request.aread())),
                "user-agent": USER_AGENT,
                **({"authorization": f"Bearer {await key()}"} if key else {}),
                **more,
            }
        )

    url = httpx2.URL(base_url)
    return AsyncOpenAI(
        base_url=base_url,
        api_key="set by set_headers",  # the SDK needs a value
        admin_api_key="",
        organization="",
        project="",
        webhook_secret="",
        max_retries=BATCH_MAX_RETRIES if patient else MAX_RETRIES,
        http_client=(DefaultAioHttpClient if patient else DropRetryClient)(
            event_hooks={
                "request": [set_headers],
                "response": [] if patient else [_limit_retry_wait],
            },
            follow_redirects=False,
            # This machine is called without a proxy.
            mounts={f"all://{url.netloc.decode()}": None} if is_loopback(url.host) else None,
            timeout=httpx2.Timeout(600, connect=CONNECT_SECONDS),
        ),
    )


async def _limit_retry_wait(response: httpx2.Response) -> None:
    """Disable the retry after a long wait: the SDK would wait up to two minutes.

    The wait is set in the header that the SDK prefers: it does not parse all that `retry_after`
    does.
    """
    if response.is_success:
        return
    wait = retry_after_seconds(response.headers)
    if wait is not None and wait > MAX_WAIT_SECONDS:
        response.headers["x-should-retry"] = "false"
    elif wait is not None:
        response.headers["retry-after-ms"] = str(round(wait * 1000))


async def check_ready(client: AsyncOpenAI, url: str, name: str, hint: str) -> None:
    """Request the list of models, once. A 404 is a success: some servers have no list.

    It does not tell whether a deployment exists. Raises ChatErrors.
    """
    with map_errors(name, hint), suppress(NotFoundError):
        await client.with_options(max_retries=0).get(url, cast_to=httpx2.Response)


async def embed(
    client: AsyncOpenAI, name: str, limit: float, texts: Sequence[str]
) -> list[list[float]]:
    """Return the vectors of texts by the embedding model `name`, within `limit` seconds.

    The SDK's own method would make an object of each number. Raises ChatErrors: Misconfigured for
    an answer of status 200 that is no embedding.
    """
    body = {"model": name, "input": list(texts), "encoding_format": "base64"}
    with map_errors(name, "does it exist at the same endpoint?"):
        async with asyncio.timeout(limit):
            response = await client.post("/embeddings", cast_to=httpx2.Response, body=body)
    try:
        rows = sorted(
            from_json(response.content, allow_inf_nan=False)["data"], key=lambda row: row["index"]
        )
        vectors = [decode_vector(row["embedding"]) for row in rows]
    except (LookupError, TypeError, ValueError, struct.error) as error:  # a 200 with another body
        raise Misconfigured(cause=f"{name}: an answer without vectors: {ADDRESS_HINT}") from error
    if len(vectors) != len(texts):
        cause = f"{name}: {len(vectors)} vectors for {len(texts)} texts: {ADDRESS_HINT}"
        raise Misconfigured(cause=cause)
    return vectors


def decode_vector(vector: str | list[float]) -> list[float]:
    """Return the numbers of a vector: in base64, or as they are from servers that ignore this."""
    if isinstance(vector, str):
        data = base64.b64decode(vector, validate=True)
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return [float(number) for number in vector]


@contextmanager
def map_errors(name: str, hint: str) -> Iterator[None]:
    """Map exceptions of the SDK and its transport to ChatErrors.

    `name` is the model's; `hint` is added to the log line of an authentication error.
    """
    try:
        yield
    except SDK_ERRORS as error:
        raise to_chat_error(error, name, hint) from error


SDK_ERRORS = (
    TimeoutError,
    OpenAIError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    aiohttp.ClientError,
)


def to_chat_error(error: Exception, name: str, hint: str) -> ChatError:
    """Map one of SDK_ERRORS; see `map_errors`."""
    if isinstance(error, TimeoutError | httpx2.ReadTimeout):
        return DeadlineExceeded(cause=f"{name}: {type(error).__name__}")
    if isinstance(error, APIStatusError):
        return map_status(error, name, hint)
    if isinstance(error, httpx2.InvalidURL):
        return Misconfigured(cause=f"{name}: its endpoint is not a URL")
    return Unavailable(cause=f"{name}: {describe_cause(error)}")


def map_status(error: APIStatusError, name: str, hint: str) -> ChatError:
    """Map an error response. Its text may quote the request: only the code is logged."""
    # repr: a line break in them would begin a line of the log
    details = f"code {error.code!r:.80}, param {error.param!r:.80}"
    cause = f"{name}: status {error.status_code}, {details}"
    failure = _map_kind(error, cause, hint)
    failure.upstream_status = _status(error)
    failure.upstream_param = param if (param := _param(error)) in REPORTED_PARAMETERS else None
    return failure


def _status(error: APIStatusError) -> int:
    """Return the status. Azure answers 400 where a model does not have this API, OpenAI 404."""
    return 404 if error.code == "OperationNotSupported" else error.status_code


def _param(error: APIStatusError) -> str | None:
    """Return the parameter at fault, by its name in chat completions, which the client knows."""
    return CHAT_PARAMETERS.get(str(error.param), error.param)


def _map_kind(error: APIStatusError, cause: str, hint: str) -> ChatError:
    kind = ERROR_CODES.get(error.code or "") or ERROR_CODES.get(error.type or "")
    if error.status_code == 400 and kind is not None:
        return kind(cause=f"{cause}: {TOO_LONG_HINT}" if kind is TooLong else cause)
    match _status(error):
        case 429:
            wait = retry_after_seconds(error.response.headers)
            return TooManyRequests(retry_after=wait, cause=cause)
        case 401 | 403:
            return Misconfigured(cause=f"{cause}: {hint}")
        case 404 | 405 | 501:
            return Misconfigured(cause=f"{cause}: {NOT_FOUND_HINT}")
        case 400 | 422 if _param(error) in OWN_PARAMETERS:  # one that this model does not take
            return Misconfigured(cause=cause)
        case 400 | 413 | 422:
            return BadRequest("The model did not accept the question.", cause=cause)
        case _:
            return Unavailable(retry_after=retry_after_seconds(error.response.headers), cause=cause)
