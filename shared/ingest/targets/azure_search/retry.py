"""Which failures of Azure AI Search are waited out, and what do the others mean to an operator?

A run that fills an index has minutes, where a chat has seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from shared.azure import retry_after
from shared.azure.identity import NO_IDENTITY_MESSAGE
from shared.ingest.targets.index_writer import DocumentRejected, IndexUnavailable

Result = TypeVar("Result")

ROLE_SECONDS = 15  # between two tries, while a role spreads
BACKOFF_SECONDS = 60  # the longest wait that the service did not ask for
PASSING = (408, 409, 429, 500, 502, 503, 504)
# What a 200 that is no answer comes out of the SDK as.
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError)

ROLES = (
    "Azure AI Search refuses whoever runs this ({status}). On the service they need the roles "
    "Search Index Data Contributor (documents) and Search Service Contributor (the index), and "
    "it must allow access by roles; roles that were given just now take some minutes to act. "
    "A service that is full refuses so too."
)
NOT_FOUND = "Azure AI Search has no such index: is AZURE_SEARCH_ENDPOINT right?"
BUSY = "Azure AI Search is too busy ({status}), also after waiting. Run it again later."
SILENT = "Azure AI Search did not answer ({what}), also after trying again. Run it again later."
WRONG = "Azure AI Search did not accept the request ({status}, code {code!r:.80})."


class PartialFailure(AzureError):
    """Some documents of a batch were not taken, for a reason that passes."""


def _nobody(_said: str) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long is tried: `tries` of a call, `longest` seconds of a wait that the service asks for.

    `seconds` are a try's own, the upload of a batch included. `roles` are the seconds that a
    refusal (401, 403) is waited out: a role that was given just now takes minutes to act. `say`
    is told of each wait.
    """

    tries: int = 8
    longest: float = 300
    seconds: float = 180
    roles: float = 0
    say: Callable[[str], None] = _nobody
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def call_with_retry(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `call`, which is tried again while that may help. Raises Refused.

        The one place where the exceptions of the SDK become ours.
        """
        for tried in count(1):
            try:
                async with asyncio.timeout(self.seconds):
                    return await call()
            except (AzureError, TimeoutError) as failure:
                pause = self._pause(failure, tried)
                if pause is None:
                    raise meaning(failure) from failure
                self.say(f"Azure AI Search: {_told(failure)}; trying again in {pause:.0f} s.")
                await self.sleep(pause)
            except UNREADABLE as failure:
                raise meaning(failure) from failure
        raise AssertionError("count() does not end")

    def _pause(self, failure: Exception, tried: int) -> float | None:
        """Seconds until the next try; None where there is none."""
        status = status_of(failure)
        if status in (401, 403):
            return ROLE_SECONDS if tried * ROLE_SECONDS <= self.roles else None
        lasting = status is not None and status not in PASSING
        if lasting or isinstance(failure, ClientAuthenticationError) or tried >= self.tries:
            return None
        asked = retry_after.retry_after_seconds(_headers(failure))
        if asked is not None:
            return asked if asked <= self.longest else None
        return min(2.0 ** (tried - 1), BACKOFF_SECONDS) * random.uniform(0.7, 1.0)


def status_of(failure: Exception) -> int | None:
    """The status of a refusal; None for a failure on the way, and for an answer that was cut."""
    status = failure.status_code if isinstance(failure, HttpResponseError) else None
    if status is None and isinstance(failure, ClientAuthenticationError) and failure.response:
        status = failure.response.status_code
    return status if status is not None and status >= 400 else None


def _headers(failure: Exception) -> Mapping[str, str]:
    return getattr(getattr(failure, "response", None), "headers", None) or {}


def _told(failure: Exception) -> str:
    status = status_of(failure)
    return f"status {status}" if status else type(failure).__name__


def meaning(failure: Exception) -> DocumentRejected:
    """What a failure means to whoever runs this. Never the service's own words."""
    status = status_of(failure)
    if isinstance(failure, ClientAuthenticationError) and status is None:
        return IndexUnavailable(NO_IDENTITY_MESSAGE)
    match status:
        case None:
            return IndexUnavailable(SILENT.format(what=_told(failure)))
        case 401 | 403:
            return IndexUnavailable(ROLES.format(status=status))
        case 404:
            return IndexUnavailable(NOT_FOUND)
        case _ if status in PASSING:
            return IndexUnavailable(BUSY.format(status=status))
        case 413:
            return DocumentRejected(
                "It is too large for Azure AI Search: one passage exceeds a request."
            )
        case _:
            code = getattr(getattr(failure, "error", None), "code", None)
            return DocumentRejected(WRONG.format(status=status, code=code))
