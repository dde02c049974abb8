"""Exchanges the token of a user for one of Azure AI Search: the on-behalf-of flow of Entra ID.

The app identifies itself by its managed identity, which the registration of the sign-in trusts:
there is no secret.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.identity.aio import OnBehalfOfCredential
from pydantic_core import from_json

from shared.azure.errors import NO_IDENTITY_MESSAGE, describe_cause
from shared.azure.identity import SEARCH_SCOPE
from shared.azure.user_token import Registration
from shared.domain.errors import ChatError, Misconfigured, Unauthorized, Unavailable

EXCHANGE_SCOPE = "api://AzureADTokenExchange/.default"  # of the app's own proof of identity
CONSENT_REQUIRED = 65001  # Entra ID's number for a permission that nobody has granted
TRANSIENT_STATUSES = (429, 500, 502, 503, 504)
REFUSED = "Your sign-in does not allow a search in your name. Sign in again."
MORE_CLAIMS = "Your organization asks for more than this sign-in. Sign in again with its claims."
NO_PERMISSION = "has the registration the permission to search, with an administrator's consent?"


@dataclass(frozen=True, slots=True)
class TokenExchange:
    """Requests tokens for Azure AI Search. `seconds` limits each request."""

    identity: AsyncTokenCredential
    registration: Registration
    seconds: float

    async def __call__(self, user_token: str) -> AccessToken:
        """Return the token for a user's. Raises Unauthorized, Misconfigured, Unavailable."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self._request(user_token, await self._prove_identity())
        except TimeoutError as error:
            raise Unavailable(cause="user token: no answer in time") from error
        except ClientAuthenticationError as error:
            raise map_refusal(error) from None  # its message may name the user
        except AzureError as error:
            raise Unavailable(cause=f"user token: {describe_cause(error)}") from error

    async def _prove_identity(self) -> str:
        try:
            return (await self.identity.get_token(EXCHANGE_SCOPE)).token
        except ClientAuthenticationError as error:
            cause = f"identity: {type(error).__name__}"
            raise Misconfigured(NO_IDENTITY_MESSAGE, cause=cause) from error

    async def _request(self, user_token: str, proof: str) -> AccessToken:
        registration = self.registration
        async with OnBehalfOfCredential(
            registration.tenant,
            registration.client,
            client_assertion_func=lambda: proof,
            user_assertion=user_token,
        ) as credential:
            return await credential.get_token(SEARCH_SCOPE)


def map_refusal(error: ClientAuthenticationError) -> ChatError:
    """Map an error of an exchange. Only its codes are logged: the message names the user."""
    if error.response is None:
        return Unavailable(cause="user token: Entra ID's answer cannot be read")
    body = _read_body(error)
    code, numbers = body.get("error"), body.get("error_codes") or []
    cause = f"user token: status {error.status_code}, {code!r:.80}, {numbers!r:.80}"
    if claims := body.get("claims"):
        encoded = base64.b64encode(str(claims).encode()).decode()
        challenge = f'Bearer error="insufficient_claims", claims="{encoded}"'
        return Unauthorized(MORE_CLAIMS, challenge=challenge, cause=cause)
    if error.status_code in TRANSIENT_STATUSES or code == "temporarily_unavailable":
        return Unavailable(cause=cause)
    if CONSENT_REQUIRED in numbers or code not in ("invalid_grant", "interaction_required"):
        return Misconfigured(cause=f"{cause}: {NO_PERMISSION}")
    return Unauthorized(REFUSED, cause=cause)


def _read_body(error: ClientAuthenticationError) -> Mapping[str, Any]:
    try:
        body = from_json(error.response.text() if error.response else "")
    except (AzureError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}
