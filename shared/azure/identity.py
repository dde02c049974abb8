"""Who the app is towards Azure: the platform's managed identity, else azd's or az's sign-in.

Never a chain that tries everything: without settings that one probes the network, and waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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

from shared.chat.errors import Misconfigured

NO_IDENTITY_MESSAGE = (
    "The app has no identity that Azure accepts. On a laptop, run `azd auth login` or `az login`."
)
OPENAI_SCOPE = "https://cognitiveservices.azure.com/.default"
CLI_SECONDS = 10  # for azd, and for az; then the SDK ends them


class DeveloperCredential(AsyncTokenCredential):
    """Whoever signed in on a laptop: the first of the tools that gives a token.

    The SDK's own chain stops at a tool that is there and fails, such as an azd whose sign-in has
    expired beside an az whose has not.
    """

    def __init__(self, *ways: AsyncTokenCredential) -> None:
        """Try `credentials` in order."""
        self.credentials = ways

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """A token of the first that gives one. Raises the last one's ClientAuthenticationError."""
        asking = asyncio.ensure_future(self._try_in_order(*scopes, **options))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        # The SDK ends its tool only by its own time limit: a caller that leaves must not cancel it.
        return await asyncio.shield(asking)

    async def _try_in_order(self, *scopes: str, **options: Any) -> AccessToken:
        failed: ClientAuthenticationError | None = None
        for way in self.credentials:
            try:
                return await way.get_token(*scopes, **options)
            except ClientAuthenticationError as error:
                failed = error
        raise failed or ClientAuthenticationError("no way to sign in")

    async def close(self) -> None:
        """Close every way."""
        for way in self.credentials:
            await way.close()

    async def __aexit__(self, *_: object) -> None:
        """Close every way."""
        await self.close()


@cache
def get_credential(managed: bool, client_id: str | None) -> AsyncTokenCredential:
    """One credential for all services of a worker.

    `managed`: the platform offers an identity; `client_id` names a user-assigned one.
    """
    if managed:
        return ManagedIdentityCredential(client_id=client_id)
    return DeveloperCredential(
        AzureDeveloperCliCredential(process_timeout=CLI_SECONDS),
        AzureCliCredential(process_timeout=CLI_SECONDS),
    )


def make_token_provider(made: AsyncTokenCredential, scope: str) -> Callable[[], Awaitable[str]]:
    """Tokens for a service, shared by all requests and renewed in time. Raises Misconfigured."""
    token = get_bearer_token_provider(made, scope)

    async def asked() -> str:
        try:
            return await token()
        except AzureError as error:
            cause = f"identity: {type(error).__name__}"
            raise Misconfigured(NO_IDENTITY_MESSAGE, cause=cause) from error

    return asked
