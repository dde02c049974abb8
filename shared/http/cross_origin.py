"""Rejects requests of other sites' pages to an app on a laptop.

There is no sign-in there, and any page can make a browser send forms and image requests to
localhost, or any request through DNS rebinding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from shared.chat.errors import Forbidden

ANY_ORIGIN = "*"
# Of a web page, in lower case: a URL parser would accept http://localhost:80.evil.example, too.
PAGE_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f.:]+\])(?::\d{1,5})?", re.ASCII)
CROSS_SITE_MESSAGE = (
    "A page of another origin sent this request. Open the page from localhost, or add its origin "
    "to ALLOWED_ORIGINS."
)


def is_loopback(host: str) -> bool:
    """Whether a host name, or an address without brackets, is loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class CrossOriginPolicy:
    """Allows loopback origins, `allowed_origins` and the forwarded ports of a codespace.

    `codespace` is its name, `codespaces_domain` the domain of its forwarded ports.
    """

    allowed_origins: frozenset[str] = frozenset()
    codespace: str | None = None
    codespaces_domain: str | None = None

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise Forbidden for a cross-site request. `headers` have lower-case names."""
        origin = headers.get("origin")
        if origin is None:
            # Links are allowed: no other site can read the response to a navigation.
            navigation = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
            allowed = navigation or headers.get("sec-fetch-site") != "cross-site"
        else:
            allowed = self._is_allowed(origin.lower())
        if not allowed:
            raise Forbidden(CROSS_SITE_MESSAGE)

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
        page = PAGE_ORIGIN.fullmatch(origin)
        return page is not None and self.is_local(page[1].strip("[]"))
