"""Redacts the secrets of a provider's metadata."""

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
# A scheme and a key, a known kind of key, or a long random text.
SECRET_VALUE = re.compile(r"^(?:bearer|basic|token|digest|apikey)\s|^sk-|^[\w+/=.~-]{24,}$", re.I)


def redact_provider(provider: ProviderMetadata, tokens: int) -> Mapping[str, Any]:
    """Return public metadata: no key, no value of a header, no other secret, and no null.

    `tokens` is the default of `max_input_tokens`.
    """
    provider = provider.unresolved
    metadata = provider.model_dump(exclude={"auth_key"})
    metadata["url"] = redact_url(provider.url)
    metadata["properties"]["max_input_tokens"] = provider.properties.max_input_tokens or tokens
    # Any header may be a credential, whatever its name.
    metadata["extra_headers"] = dict.fromkeys(provider.extra_headers, REDACTED)
    metadata["extra_json_body"] = redact_value("", metadata["extra_json_body"])
    return metadata


def redact_value(name: str, value: Any) -> Any:
    """Redact a value whose name or form is that of a secret, and references; omit null."""
    if SECRET_NAME.search(name) and not isinstance(value, bool):
        return REDACTED
    if isinstance(value, Mapping):
        return {k: redact_value(k, v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [redact_value(name, each) for each in value if each is not None]
    secret = isinstance(value, str) and (SECRET_VALUE.search(value) or REFERENCE.search(value))
    return REDACTED if secret else value


def redact_url(url: str) -> str:
    """Redact the values of a URL's query, but for `api-version`."""
    parts = urlsplit(url)
    query = [(k, v if k == "api-version" else REDACTED) for k, v in parse_qsl(parts.query)]
    return urlunsplit(parts._replace(query=urlencode(query, safe="*")))
