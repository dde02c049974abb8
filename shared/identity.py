"""Who the app is towards Azure: the platform's managed identity, else azd's or az's sign-in.

Never a chain that tries everything: without settings that one probes the network, and waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.identity.aio import (
    AzureCliCredential,
    AzureDeveloperCliCredential,
    ChainedTokenCredential,
    ManagedIdentityCredential,
    get_bearer_token_provider,
)

from shared.errors import Misconfigured

NO_IDENTITY = (
    "The app has no identity that Azure accepts. On a laptop, run `azd auth login` or `az login`."
)
OPENAI_SCOPE = "https://cognitiveservices.azure.com/.default"


@cache
def credential(managed: bool, client_id: str | None) -> AsyncTokenCredential:
    """One credential for all services of a worker.

    `managed`: the platform offers an identity; `client_id` names a user-assigned one.
    """
    if managed:
        return ManagedIdentityCredential(client_id=client_id)
    return ChainedTokenCredential(AzureDeveloperCliCredential(), AzureCliCredential())


def bearer(made: AsyncTokenCredential, scope: str) -> Callable[[], Awaitable[str]]:
    """Tokens for a service, shared by all requests and renewed in time. Raises Misconfigured."""
    token = get_bearer_token_provider(made, scope)

    async def asked() -> str:
        try:
            return await token()
        except ClientAuthenticationError as error:
            cause = f"identity: {type(error).__name__}"
            raise Misconfigured(NO_IDENTITY, cause=cause) from error

    return asked
