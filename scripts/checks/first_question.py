"""Asks the deployed app one question, streamed, as a caller may; and once without credentials."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from scripts.checks.resource_manager import UnavailableError, get_token, send

TEXT = "What is the annual deductible of Northwind Standard for one person?"
BODY = {"messages": [{"role": "user", "content": TEXT}]}
WEB_API_VERSION = "2023-12-01"
MAX_LINE_BYTES = 1_000_000
MAX_LINES = 100_000
MAX_CHARACTERS, MAX_SOURCES = 240, 3
REFUSALS = (302, 401, 403)  # 302: to the sign-in page (AZURE_AUTH_UNAUTHENTICATED)
RETRYABLE = (408, 429, 500, 502, 503, 504)
NO_TOKEN = (
    "azd has no token for the app: `python scripts/sign_in.py --allow-azure-cli`, `azd provision`, "
    "and the role Chat.User (docs/sign-in.md)."
)
NO_KEY = "the app's function key cannot be read: {reason}"
REASONS = {
    401: "the credentials are refused",
    403: "the credentials are valid, but not accepted: scripts/sign_in.py ran without "
    "--allow-azure-cli, or the role Chat.User is missing",
    404: "there is no such route: the package did not load",
    429: "the quota of the model is used up, or too small: AZURE_OPENAI_CHAT_CAPACITY",
}


@dataclass(frozen=True)
class Answer:
    """An answer: its text, the documents that it was given, seconds until its first words."""

    text: str
    sources: tuple[str, ...]
    first_seconds: float

    def describe(self) -> str:
        """Return the lines for a terminal."""
        words = textwrap.shorten(self.text, MAX_CHARACTERS, placeholder=" ...")
        lines = textwrap.wrap(words, 96, initial_indent="  ", subsequent_indent="  ")
        sources = ", ".join(self.sources[:MAX_SOURCES]) or "none"
        return "\n".join([*lines, f"  Sources: {sources}"])


class QuestionError(Exception):
    """The app did not answer; the message says what it did instead.

    `retryable`: a new role, a start or a busy model can be the cause.
    """

    def __init__(self, message: str, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, which would carry the credentials to another address."""

    def redirect_request(self, *_: object) -> None:
        """Follow none: urlopen raises the response as an error."""


def find_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the header with which azd's user may call the app. Raises UnavailableError."""
    callers = environment.get("SERVICE_API_CALLERS", "keys")
    if callers == "anyone":
        return {}
    if callers == "keys":
        return {"x-functions-key": read_key(environment)}
    scope = f"api://{environment.get('AZURE_AUTH_CLIENT_ID', '')}/user_impersonation"
    try:
        return {"Authorization": f"Bearer {get_token(environment, scope)}"}
    except UnavailableError:
        raise UnavailableError(NO_TOKEN) from None


def read_key(environment: Mapping[str, str]) -> str:
    """Return the function key that every function of the app accepts. Raises UnavailableError."""
    names = ("AZURE_SUBSCRIPTION_ID", "AZURE_RESOURCE_GROUP", "SERVICE_API_NAME")
    if missing := [name for name in names if not environment.get(name)]:
        raise UnavailableError(NO_KEY.format(reason=f"azd's environment has no {missing[0]}."))
    subscription, group, app = (environment[name] for name in names)
    path = (
        f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Web/sites/{app}"
        "/host/default/listkeys"
    )
    try:
        keys = send(environment, "POST", path, WEB_API_VERSION)
        return str((keys or {})["functionKeys"]["default"])
    except UnavailableError as error:
        raise UnavailableError(NO_KEY.format(reason=error)) from None
    except (KeyError, TypeError):
        raise UnavailableError(NO_KEY.format(reason=f"{app} has none.")) from None


def is_open(address: str, timeout: float) -> bool:
    """Whether the app accepts a call without credentials. Raises QuestionError.

    The body is no question, so that such an app costs nothing: its response is a 400.
    """
    try:
        with post(f"{address}/chat", {}, {}, timeout):
            return True
    except QuestionError as error:
        status = getattr(error.__cause__, "code", None)
        if status is None or status in RETRYABLE:
            raise
        return status not in REFUSALS


def stream_answer(address: str, headers: Mapping[str, str], timeout: float) -> Answer:
    """Ask POST /chat/stream. Raises QuestionError; it ends without an error line."""
    start = time.monotonic()
    texts: list[str] = []
    sources: dict[str, None] = {}
    first_seconds = 0.0
    with post(f"{address}/chat/stream", headers, BODY, timeout) as response:
        for line in read_lines(response):
            if error := line.get("error"):
                raise QuestionError(f"the stream ends with an error: {error}", retryable=True)
            content = (line.get("delta") or {}).get("content")
            if content and not texts:
                first_seconds = time.monotonic() - start
            texts.append(content or "")
            sources |= dict.fromkeys(list_sources(line))
    return finish("".join(texts), sources, first_seconds)


def complete_answer(address: str, headers: Mapping[str, str], timeout: float) -> Answer:
    """Ask POST /chat, which does not stream. Raises QuestionError."""
    start = time.monotonic()
    with post(f"{address}/chat", headers, BODY, timeout) as response:
        (line,) = [*read_lines(response), {}][:1]
    content = (line.get("message") or {}).get("content") or ""
    return finish(content, dict.fromkeys(list_sources(line)), time.monotonic() - start)


def finish(text: str, sources: Mapping[str, None], first_seconds: float) -> Answer:
    """Return the answer. Raises QuestionError if it has no words."""
    if not text.strip():
        raise QuestionError("the answer has no words", retryable=False)
    return Answer(text, tuple(sources), first_seconds)


def list_sources(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the documents in a line's `context`, each passage as `name: text`."""
    data_points = (line.get("context") or {}).get("data_points") or {}
    for passage in data_points.get("text") or ():
        yield str(passage).partition(": ")[0]


def read_lines(response: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a response, one a line. Raises QuestionError."""
    try:
        for _ in range(MAX_LINES):
            line = response.readline(MAX_LINE_BYTES)
            if not line:
                return
            value = json.loads(line) if line.strip() else {}
            if not isinstance(value, dict):
                raise ValueError
            yield value
    except (OSError, HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise QuestionError(f"the answer breaks off: {reason}", retryable=True) from error
    except ValueError:
        raise QuestionError("the response is not JSON by lines", retryable=False) from None


def post(
    url: str, headers: Mapping[str, str], body: Mapping[str, Any], timeout: float
) -> HTTPResponse:
    """Send a request; return the open response if its status is 200. Raises QuestionError."""
    request = Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    try:
        response: HTTPResponse = build_opener(NoRedirects).open(request, timeout=timeout)
        return response
    except HTTPError as error:
        with error:
            reason = describe_error(error)
        message = f"{error.code} from {urlsplit(url).path}: {reason}"
        raise QuestionError(message, error.code in RETRYABLE) from error
    except (OSError, HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise QuestionError(f"no answer from {url}: {reason}", retryable=True) from None


def describe_error(error: HTTPError) -> str:
    """Return what an error response means: our words for its status, and its own sentence."""
    try:
        value = json.loads(error.read(MAX_LINE_BYTES))
        sentence = str(value.get("error", "")) if isinstance(value, dict) else ""
    except (OSError, HTTPException, ValueError):
        sentence = ""
    words = [
        REASONS.get(error.code, ""),
        sentence or ("" if error.code in REASONS else error.reason),
    ]
    return "; ".join(filter(None, words))
