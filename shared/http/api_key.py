"""Checks the app's own key, for clients that cannot send the platform's."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from shared.chat.errors import Unauthorized
from shared.http.auth import AccessPolicy

MISSING_KEY_MESSAGE = (
    "This route needs the key of this app (CHAT_API_KEY), as api-key or as Authorization: Bearer."
)


@dataclass(frozen=True, slots=True)
class ApiKeyPolicy:
    """The access to routes for which the platform requires no key.

    `allow_anonymous`: on a laptop, without a key and without sign-in, everyone has access.
    """

    key: str | None = None
    allow_anonymous: bool = True

    def check(self, access: AccessPolicy, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized without the key or a signed-in user."""
        if self.key is None and self.allow_anonymous and not access.sign_in:
            return
        if access.get_user(headers).is_signed_in or self._has_key(headers):
            return
        raise Unauthorized(MISSING_KEY_MESSAGE)

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        # Both are compared, in constant time.
        candidates = (headers.get("api-key", ""), bearer)
        return any([self.key is not None and _is_equal(value, self.key) for value in candidates])


def _is_equal(value: str, key: str) -> bool:
    return hmac.compare_digest(value.encode(errors="replace"), key.encode())
