"""The tokens by which Azure AI Search knows the signed-in users, in their own names."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

import jwt
from azure.core.credentials import AccessToken

from shared.domain.errors import Unauthorized
from shared.domain.request import User

MAX_TOKENS = 1000
MARGIN_SECONDS = 300  # before it expires, a token is not used any more
NO_TOKEN = (
    "This deployment searches in your name, and needs your token: send it as Authorization: "
    "Bearer. The session of a browser is not enough."
)
OTHER_TOKEN = "The token in Authorization is not the one that you signed in with."


@dataclass(frozen=True, slots=True)
class Registration:
    """The app registration of the sign-in."""

    tenant: str
    client: str


@dataclass(frozen=True, slots=True)
class _Entry:
    token: str = field(repr=False)
    deadline: float  # seconds since 1970


class UserTokens:
    """The tokens of users for Azure AI Search, by the hash of the token that a user sent."""

    def __init__(
        self,
        exchange: Callable[[str], Awaitable[AccessToken]],
        registration: Registration,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`exchange` returns the token for a user's; it raises ChatErrors, and ends by itself."""
        self._exchange, self.registration, self._now = exchange, registration, now
        self._tokens: OrderedDict[bytes, _Entry] = OrderedDict()
        self._exchanges: dict[bytes, asyncio.Future[AccessToken]] = {}

    async def get(self, user: User) -> str:
        """Return the token of a user. Raises Unauthorized, Misconfigured, Unavailable."""
        if not user.token:
            raise Unauthorized(NO_TOKEN)
        expires = check_claims(user, user.token, self.registration, self._now())
        key = sha256(user.token.encode()).digest()
        entry = self._tokens.get(key)
        if entry is not None and self._now() < entry.deadline:
            self._tokens.move_to_end(key)
            return entry.token
        task = self._exchanges.get(key)
        if task is None:
            task = self._exchanges[key] = asyncio.ensure_future(self._exchange(user.token))
            task.add_done_callback(partial(self._store, key, expires))
        # A caller that goes away must not end the exchange for the others.
        return (await asyncio.shield(task)).token

    def _store(self, key: bytes, expires: float, task: asyncio.Future[AccessToken]) -> None:
        del self._exchanges[key]
        if task.cancelled() or task.exception() is not None:
            return
        token = task.result()
        deadline = min(expires, token.expires_on) - MARGIN_SECONDS
        if deadline <= self._now():
            return
        self._tokens[key] = _Entry(token.token, deadline)
        self._tokens.move_to_end(key)
        while len(self._tokens) > MAX_TOKENS:
            self._tokens.popitem(last=False)


def check_claims(user: User, token: str, registration: Registration, now: float) -> float:
    """Return when a token expires, in seconds since 1970.

    Raises Unauthorized unless it is the user's, for this app. The platform has checked the
    signature of the token that it read, and Entra ID checks that of the exchanged one.
    """
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        expires = float(claims["exp"])
        own = (claims["oid"], claims["tid"]) == (user.oid, user.tenant or registration.tenant)
        audience = claims["aud"]
    except (jwt.PyJWTError, KeyError, OverflowError, TypeError, ValueError):
        raise Unauthorized(OTHER_TOKEN) from None
    audiences = (registration.client, f"api://{registration.client}")
    if not own or audience not in audiences or claims["tid"] != registration.tenant:
        raise Unauthorized(OTHER_TOKEN)
    if expires <= now:
        raise Unauthorized
    return expires
