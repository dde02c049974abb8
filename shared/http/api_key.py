"""The app's own key, for clients that send no header of the platform's."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from shared.chat.errors import Unauthorized
from shared.http.auth import AccessPolicy

CLOSED = (
    "This needs the key of this app, as api-key or as Authorization: Bearer. Whoever runs it sets "
    "CHAT_API_KEY."
)


@dataclass(frozen=True, slots=True)
class ApiKeyPolicy:
    """Who may call the routes that are open to the platform.

    `open`: on a laptop, where neither a key nor a sign-in is set up, anyone may.
    """

    key: str | None = None
    open: bool = True

    def check(self, access: AccessPolicy, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized for a call without the key or a sign-in."""
        if self.key is None and self.open and not access.sign_in:
            return
        if access.get_user(headers).is_signed_in or self._has_key(headers):
            return
        raise Unauthorized(CLOSED)

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        # each in constant time, and always both
        sent = (headers.get("api-key", ""), bearer)
        return any([self.key is not None and _is_same(key, self.key) for key in sent])


def _is_same(sent: str, key: str) -> bool:
    return hmac.compare_digest(sent.encode(errors="replace"), key.encode())
