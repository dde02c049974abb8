"""What is told of a provider: all but its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from shared.models.providers.metadata import REFERENCE, ProviderMetadata

REDACTED = "***"
SECRET_NAME = re.compile(
    r"auth|key|token(?!s$)|secret|cookie|credential|pass|pwd|session|signature|connection|access"
    r"|jwt|otp|hmac|subscription|^(?:x-)?tokens$|(?:^|[-_])pin$|^(?:code|sig)$",
    re.I,
)
# A scheme and a key, a known kind of key, or something long that nobody could read.
SECRET_VALUE = re.compile(r"^(?:bearer|basic|token|digest|apikey)\s|^sk-|^[\w+/=.~-]{24,}$", re.I)


def redact_provider(provider: ProviderMetadata, tokens: int) -> Mapping[str, Any]:
    """What is told of a provider: no key, no header's value, no other secret, and no null.

    `tokens` is the default of its budget.
    """
    provider = provider.unresolved
    told = provider.model_dump(exclude={"auth_key"})
    told["url"] = redact_url(provider.url)
    told["properties"]["max_input_tokens"] = provider.properties.max_input_tokens or tokens
    # Any header may be what lets a caller in: neither its name nor its form tells.
    told["extra_headers"] = dict.fromkeys(provider.extra_headers, REDACTED)
    told["extra_json_body"] = redact_value("", told["extra_json_body"])
    return told


def redact_value(name: str, value: Any) -> Any:
    """A value as it may be told: what its name or its form calls a secret is hidden, and so is what
    refers to one; null is left out."""
    if SECRET_NAME.search(name) and not isinstance(value, bool):
        return REDACTED
    if isinstance(value, Mapping):
        return {k: redact_value(k, v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [redact_value(name, each) for each in value if each is not None]
    secret = isinstance(value, str) and (SECRET_VALUE.search(value) or REFERENCE.search(value))
    return REDACTED if secret else value


def redact_url(url: str) -> str:
    """An address without the values in its query, but for the version of an API."""
    parts = urlsplit(url)
    query = [(k, v if k == "api-version" else REDACTED) for k, v in parse_qsl(parts.query)]
    return urlunsplit(parts._replace(query=urlencode(query, safe="*")))
