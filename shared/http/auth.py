"""Who may call: the app's key, the user whom the platform's sign-in names, other sites' pages."""

from __future__ import annotations

import base64
import hmac
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json

from shared.domain.errors import BadRequest, Forbidden, Unauthorized
from shared.domain.hosts import is_loopback
from shared.domain.overrides import Overrides
from shared.domain.request import User

log = logging.getLogger("chat")

# Claims that replace the groups in a token of a user with too many of them.
OVERAGE_CLAIMS = ("hasgroups", "_claim_names", "groups:src1")
TENANT_CLAIMS = ("tid", "http://schemas.microsoft.com/identity/claims/tenantid")
ADMIN_ROLE = "Chat.Admin"  # app role for administrative routes
LOCAL_OWNER = "local"  # owner of every conversation in single-user mode
MAX_PRINCIPAL_LENGTH = 32 * 1024  # characters; the platform's own headers are far shorter
SECURITY_FILTERS = ("use_oid_security_filter", "use_groups_security_filter")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The access rules of the deployment."""

    sign_in: bool = False  # the platform's sign-in is on
    force_security_filters: bool = True  # every search of a signed-in user is filtered
    single_user: bool = False  # all callers are one person, as on a laptop
    keeps_tokens: bool = False  # for a search that checks the user's permissions itself

    def get_user(self, headers: Mapping[str, str]) -> User:
        """Read the signed-in user, or an anonymous one. Raises BadRequest.

        `headers` have lower-case names.
        """
        oid = self.get_oid(headers)
        if oid is None:
            return User()
        principal = _parse_principal(headers.get("x-ms-client-principal", ""))
        user = User(oid, *principal)
        return replace(user, token=_read_bearer(headers)) if self.keeps_tokens else user

    def get_oid(self, headers: Mapping[str, str]) -> str | None:
        """Return the id of the signed-in user, None for an anonymous one."""
        return (headers.get("x-ms-client-principal-id") or None) if self.sign_in else None

    def get_owner(self, headers: Mapping[str, str]) -> str:
        """Return the id that owns the caller's conversations. Raises Unauthorized."""
        owner = self.find_owner(headers)
        if owner is None and self.sign_in:
            raise Unauthorized("Sign in: a conversation belongs to the user who started it.")
        if owner is None:
            raise Unauthorized("Conversations need the platform's sign-in, which is off here.")
        return owner

    def find_owner(self, headers: Mapping[str, str]) -> str | None:
        """Return the id that owns the caller's conversations; None if the caller has no id."""
        return self.get_user(headers).oid or self.local_owner

    @property
    def local_owner(self) -> str | None:
        """The id that owns what unknown callers store; None if they may store nothing."""
        return LOCAL_OWNER if self.single_user and not self.sign_in else None

    def check_admin(self, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized or Forbidden unless the user has the admin role.

        Without sign-in the host's master key protects these routes instead.
        """
        user = self.get_user(headers)
        if self.sign_in and not user.is_signed_in:
            raise Unauthorized
        if self.sign_in and ADMIN_ROLE not in user.roles:
            raise Forbidden(f"This request requires the app role {ADMIN_ROLE}.")

    def apply_filters(self, user: User, overrides: Overrides) -> Overrides:
        """Return the overrides with the security filters that apply to this user.

        A request for a filter raises BadRequest where sign-in is off, and Unauthorized without a
        user. With sign-in on, both filters are on and no request can turn them off, unless
        `force_security_filters` is off.
        """
        field = next((name for name in SECURITY_FILTERS if overrides.is_requested(name)), None)
        if field and not self.sign_in:
            raise BadRequest("needs sign-in, which is off in this deployment", field=field)
        if field and not user.is_signed_in:
            raise Unauthorized("Sign in: the request uses a security filter.")
        on = user.is_signed_in and self.force_security_filters
        return (
            overrides.model_copy(update=dict.fromkeys(SECURITY_FILTERS, True)) if on else overrides
        )


def _read_bearer(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request; empty without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _parse_principal(principal: str) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
    """Parse groups, roles and tenant from `X-MS-CLIENT-PRINCIPAL`; empty if it is malformed.

    It is JSON in base64.

    Raises BadRequest if it is too long: to ignore it would silently remove the user's rights.
    """
    if len(principal) > MAX_PRINCIPAL_LENGTH:
        raise BadRequest(f"X-MS-CLIENT-PRINCIPAL has more than {MAX_PRINCIPAL_LENGTH} characters.")
    try:
        document: Any = from_json(base64.b64decode(principal))
        claims = document["claims"]
        if any(claim["typ"] in OVERAGE_CLAIMS for claim in claims):
            log.warning("sign-in: a user has more groups than a token holds, so none is known")
        groups = tuple(claim["val"] for claim in claims if claim["typ"] == "groups")
        role_types = ("roles", document.get("role_typ"))  # the platform may use a longer name
        roles = tuple(claim["val"] for claim in claims if claim["typ"] in role_types)
        tenants = (claim["val"] for claim in claims if claim["typ"] in TENANT_CLAIMS)
        return groups, roles, next(tenants, None)
    except (ValueError, KeyError, TypeError, AttributeError):
        # The value is not logged: it names a person.
        log.warning("sign-in: X-MS-CLIENT-PRINCIPAL cannot be read, so its user has no groups")
        return (), (), None


MISSING_KEY_MESSAGE = (
    "This route needs the key of this app (CHAT_API_KEY), as api-key or as Authorization: Bearer."
)


@dataclass(frozen=True, slots=True)
class ApiKeyPolicy:
    """The access to routes for which the platform requires no key."""

    key: str | None = None
    # On a laptop, without a key and without sign-in, everyone has access.
    allow_anonymous: bool = False

    def check(self, access: AccessPolicy, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized without the key or a signed-in user."""
        if self.key is None and self.allow_anonymous and not access.sign_in:
            return
        if access.get_user(headers).is_signed_in or self._has_key(headers):
            return
        raise Unauthorized(MISSING_KEY_MESSAGE)

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        # Both are compared, in constant time.
        candidates = (headers.get("api-key", ""), _read_bearer(headers))
        return any([self.key is not None and _is_equal(value, self.key) for value in candidates])


def _is_equal(value: str, key: str) -> bool:
    return hmac.compare_digest(value.encode(errors="replace"), key.encode())


ANY_ORIGIN = "*"
# Of a web page, in lower case: a URL parser would accept http://localhost:80.evil.example, too.
PAGE_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f.:]+\])(?::\d{1,5})?", re.ASCII)
CROSS_SITE_MESSAGE = (
    "A page of another origin sent this request. {hint} its origin to ALLOWED_ORIGINS."
)
SESSION_COOKIE = "AppServiceAuthSession"  # of the platform's sign-in; its parts have a number
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_SITE = ("same-origin", "none")  # values of Sec-Fetch-Site; none: a person, not a page
LAPTOP_HINT, HINT = "Open the page from localhost, or add", "Add"


def origin_of(url: str) -> str:
    """Return the origin of a web address as browsers write it."""
    parts = urlsplit(url.lower())
    default_port = ":443" if parts.scheme == "https" else ":80"
    return f"{parts.scheme}://{parts.netloc.removesuffix(default_port)}"


@dataclass(frozen=True, slots=True)
class CrossOriginPolicy:
    """Rejects requests of other sites' pages: on a laptop all, elsewhere those that use a session.

    There is no sign-in on a laptop, and any page can make a browser send forms and image requests
    to localhost, or any request through DNS rebinding. So no rule compares `Origin` with `Host`.
    Elsewhere a browser adds the cookie of the sign-in to forms of any page.
    """

    # On a laptop loopback and the forwarded ports of a codespace are allowed, too.
    allowed_origins: frozenset[str] = frozenset()
    codespace: str | None = None  # its name
    codespaces_domain: str | None = None  # of its forwarded ports
    on_laptop: bool = field(default=False, kw_only=True)

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise Forbidden for a request that another site's page must not send.

        `headers` have lower-case names.
        """
        if not self.on_laptop:
            self._check_session(method, headers)
            return
        self.check_origin(headers)
        # Links are allowed: no other site can read the response to a navigation.
        navigation = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        cross_site = headers.get("sec-fetch-site") == "cross-site"
        if cross_site and not navigation and "origin" not in headers:
            raise self._forbidden()

    def _check_session(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise Forbidden for a request that may change something by the cookie of the sign-in.

        The page may have any domain, so the app relies on the browser's `Sec-Fetch-Site`. Browsers
        from before April 2023 do not send it, and need an allowed `Origin`.
        """
        if method in SAFE_METHODS or SESSION_COOKIE not in headers.get("cookie", ""):
            return
        # `*` allows pages to call, not to use the session of their visitors.
        allowed, origin = self.allowed_origins - {ANY_ORIGIN}, headers.get("origin", "").lower()
        if headers.get("sec-fetch-site") not in OWN_SITE and origin not in allowed:
            raise self._forbidden()

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Raise Forbidden for an `Origin` that is not allowed; a request without one may pass."""
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed(origin.lower()):
            raise self._forbidden()

    def is_local(self, host: str) -> bool:
        """Whether a host name is loopback, or a forwarded port of the codespace."""
        if is_loopback(host):
            return True
        name, domain = re.escape(self.codespace or ""), re.escape(self.codespaces_domain or "")
        forwarded = re.fullmatch(rf"{name}-\d+\.{domain}", host, re.ASCII)
        return bool(self.codespace and self.codespaces_domain and forwarded)

    def _is_allowed(self, origin: str) -> bool:
        if origin in self.allowed_origins or ANY_ORIGIN in self.allowed_origins:
            return True
        page = PAGE_ORIGIN.fullmatch(origin) if self.on_laptop else None
        return page is not None and self.is_local(page[1].strip("[]"))

    def _forbidden(self) -> Forbidden:
        hint = LAPTOP_HINT if self.on_laptop else HINT
        return Forbidden(CROSS_SITE_MESSAGE.format(hint=hint))
