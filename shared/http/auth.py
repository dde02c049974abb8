"""Who asks, from the platform's sign-in headers, and which passages they may be shown.

The headers are the platform's only where its sign-in is on: anywhere else anyone can send them.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from shared.chat.errors import BadRequest, Forbidden, Unauthorized
from shared.chat.overrides import Overrides
from shared.chat.request import User

log = logging.getLogger("chat")

# What stands in a token in the place of its groups, where those are too many.
OVERAGE_CLAIMS = ("hasgroups", "_claim_names", "groups:src1")
ADMIN_ROLE = "Chat.Admin"  # the app role of those who may change what holds for all
LOCAL_OWNER = "local"  # who owns every conversation where nobody signs in
MAX_PRINCIPAL_LENGTH = 32 * 1024  # characters; the platform's own headers are far below
SECURITY_FILTERS = ("use_oid_security_filter", "use_groups_security_filter")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The deployment's rules: whether sign-in is on, and whether it filters every search.

    `single_user`: whoever calls is taken for one and the same person, as on a laptop.
    """

    sign_in: bool = False
    force_security_filters: bool = True
    single_user: bool = True

    def get_user(self, headers: Mapping[str, str]) -> User:
        """The signed-in user, or nobody. `headers` by lower-case names. Raises BadRequest."""
        oid = headers.get("x-ms-client-principal-id")
        if not self.sign_in or not oid:
            return User()
        return User(oid, *_parse_principal(headers.get("x-ms-client-principal", "")))

    def get_owner(self, headers: Mapping[str, str]) -> str:
        """Whose conversations are meant. Raises Unauthorized."""
        user = self.get_user(headers)
        if user.oid is not None:
            return user.oid
        if self.sign_in:
            raise Unauthorized("Sign in: a conversation is kept for whoever began it.")
        if not self.single_user:
            raise Unauthorized("Conversations need the platform's sign-in, which is off here.")
        return LOCAL_OWNER

    def check_admin(self, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized or Forbidden for whoever may not change what holds for all.

        Without sign-in the host's keys say who may.
        """
        user = self.get_user(headers)
        if self.sign_in and not user.is_signed_in:
            raise Unauthorized
        if self.sign_in and ADMIN_ROLE not in user.roles:
            raise Forbidden(f"You may not do this: it needs the app role {ADMIN_ROLE}.")

    def apply_filters(self, user: User, overrides: Overrides) -> Overrides:
        """The overrides with the security filters that hold for this user.

        A filter without sign-in is a BadRequest, one without a user Unauthorized. With sign-in
        on, both filters are on and no request can turn them off, unless the settings say so.
        """
        asked = next((name for name in SECURITY_FILTERS if overrides.is_requested(name)), None)
        if asked and not self.sign_in:
            raise BadRequest("needs sign-in, which is off in this deployment", field=asked)
        if asked and not user.is_signed_in:
            raise Unauthorized("Sign in: the request asks for passages that only some may see.")
        on = user.is_signed_in and self.force_security_filters
        return (
            overrides.model_copy(update=dict.fromkeys(SECURITY_FILTERS, True)) if on else overrides
        )


def _parse_principal(principal: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The groups and roles of `X-MS-CLIENT-PRINCIPAL`, JSON in base64; none if it is not read.

    Raises BadRequest where it is too long: without it the user would lose rights unnoticed.
    """
    if len(principal) > MAX_PRINCIPAL_LENGTH:
        raise BadRequest(f"X-MS-CLIENT-PRINCIPAL has more than {MAX_PRINCIPAL_LENGTH} characters.")
    try:
        read: Any = from_json(base64.b64decode(principal))
        claims = read["claims"]
        if any(claim["typ"] in OVERAGE_CLAIMS for claim in claims):
            log.warning("sign-in: a user has more groups than a token holds, so none is known")
        groups = tuple(claim["val"] for claim in claims if claim["typ"] == "groups")
        kinds = ("roles", read.get("role_typ"))  # the platform may give it a longer name
        return groups, tuple(claim["val"] for claim in claims if claim["typ"] in kinds)
    except (ValueError, KeyError, TypeError, AttributeError):
        # without the value: it names a person
        log.warning("sign-in: X-MS-CLIENT-PRINCIPAL cannot be read, so its user has no groups")
        return (), ()
