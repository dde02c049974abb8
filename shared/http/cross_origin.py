"""Rejects requests of other sites' pages: on a laptop to all routes, elsewhere to some.

There is no sign-in on a laptop, and any page can make a browser send forms and image requests to
localhost, or any request through DNS rebinding. So no rule compares `Origin` with `Host`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from shared.domain.errors import Forbidden

ANY_ORIGIN = "*"
# Of a web page, in lower case: a URL parser would accept http://localhost:80.evil.example, too.
PAGE_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f.:]+\])(?::\d{1,5})?", re.ASCII)
CROSS_SITE_MESSAGE = (
    "A page of another origin sent this request. {hint} its origin to ALLOWED_ORIGINS."
)
LAPTOP_HINT, HINT = "Open the page from localhost, or add", "Add"


def is_loopback(host: str) -> bool:
    """Whether a host name, or an address without brackets, is loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return the origin of a web address as browsers write it."""
    parts = urlsplit(url.lower())
    default_port = ":443" if parts.scheme == "https" else ":80"
    return f"{parts.scheme}://{parts.netloc.removesuffix(default_port)}"


@dataclass(frozen=True, slots=True)
class CrossOriginPolicy:
    """Allows `allowed_origins`; on a laptop also loopback and the forwarded ports of a codespace.

    `codespace` is its name, `codespaces_domain` the domain of its forwarded ports.
    """

    allowed_origins: frozenset[str] = frozenset()
    codespace: str | None = None
    codespaces_domain: str | None = None
    on_laptop: bool = field(default=False, kw_only=True)

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise Forbidden for a cross-site request to any route of an app on a laptop.

        Elsewhere a key or a sign-in protects the routes. `headers` have lower-case names.
        """
        if not self.on_laptop:
            return
        self.check_origin(headers)
        # Links are allowed: no other site can read the response to a navigation.
        navigation = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        cross_site = headers.get("sec-fetch-site") == "cross-site"
        if cross_site and not navigation and "origin" not in headers:
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
