"""Authenticates to Azure: with the managed identity, else with the sign-in of azd or az.

Not with DefaultAzureCredential: without settings it probes the network and waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.identity.aio import (
    AzureCliCredential,
    AzureDeveloperCliCredential,
    ManagedIdentityCredential,
    get_bearer_token_provider,
)

from shared.azure.errors import NO_IDENTITY_MESSAGE
from shared.domain.errors import Misconfigured

OPENAI_SCOPE = "https://cognitiveservices.azure.com/.default"
SEARCH_SCOPE = "https://search.azure.com/.default"
CLI_SECONDS = 10  # time limit of a token request by azd or az
PREFETCH_SECONDS = 5

log = logging.getLogger("chat")
_prefetches: set[asyncio.Task[None]] = set()  # an event loop does not keep its tasks alive


class DeveloperCredential(AsyncTokenCredential):
    """The developer's sign-in: the token of the first CLI that returns one.

    The SDK's own chain stops at an installed CLI that fails, such as azd with an expired sign-in,
    and does not try az.
    """

    def __init__(self, *credentials: AsyncTokenCredential) -> None:
        """Try `credentials` in order."""
        self.credentials = credentials

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Return the first token. Raises the last ClientAuthenticationError if all fail."""
        task = asyncio.ensure_future(self._try_in_order(*scopes, **options))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        # The SDK ends a CLI's process only on its own timeout, so callers must not cancel the task.
        return await asyncio.shield(task)

    async def _try_in_order(self, *scopes: str, **options: Any) -> AccessToken:
        last_error: ClientAuthenticationError | None = None
        for credential in self.credentials:
            try:
                return await credential.get_token(*scopes, **options)
            except ClientAuthenticationError as error:
                last_error = error
        raise last_error or ClientAuthenticationError("no credentials")

    async def close(self) -> None:
        """Close all credentials."""
        for credential in self.credentials:
            await credential.close()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@cache
def get_credential(managed: bool, client_id: str | None) -> AsyncTokenCredential:
    """Return the credential of the process, shared by all clients.

    `managed`: use a managed identity; `client_id` names a user-assigned one.
    """
    if managed:
        return ManagedIdentityCredential(client_id=client_id)
    return DeveloperCredential(
        AzureDeveloperCliCredential(process_timeout=CLI_SECONDS),
        AzureCliCredential(process_timeout=CLI_SECONDS),
    )


def make_token_provider(
    credential: AsyncTokenCredential, scope: str
) -> Callable[[], Awaitable[str]]:
    """Make a function that returns a valid, cached token. It raises Misconfigured."""
    get_bearer_token = get_bearer_token_provider(credential, scope)

    async def get_token() -> str:
        try:
            return await get_bearer_token()
        except AzureError as error:
            cause = f"identity: {type(error).__name__}"
            raise Misconfigured(NO_IDENTITY_MESSAGE, cause=cause) from error

    return get_token


def prefetch_tokens(credential: AsyncTokenCredential, scopes: Iterable[str]) -> None:
    """Request tokens in the background, which the credential caches for the first answer.

    Does nothing without an event loop: Functions' worker loads the app in its own, and the dev
    server has none yet.
    """
    with suppress(RuntimeError):
        task = asyncio.get_running_loop().create_task(_request_tokens(credential, scopes))
        _prefetches.add(task)
        task.add_done_callback(_prefetches.discard)


async def _request_tokens(credential: AsyncTokenCredential, scopes: Iterable[str]) -> None:
    """Request tokens. A failure is left to the answer that needs the token: it reports it."""
    try:
        async with asyncio.timeout(PREFETCH_SECONDS):
            await asyncio.gather(*map(credential.get_token, scopes))
    except (AzureError, TimeoutError) as error:
        log.debug("start: no token yet: %s", type(error).__name__)
