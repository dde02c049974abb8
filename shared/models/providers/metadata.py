"""The metadata of a provider, with the fields of AOG v0.2's "service provider metadata".

`models`, `allow_to_select_model` and the flavor `responses` are this app's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from shared.domain.errors import describe_error
from shared.domain.messages import NOT_JSON_SAFE, is_json_safe

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


REFERENCE = re.compile(r"\$\{(\w+)\}", re.ASCII)
# URLs that all parsers read alike: ASCII, without user, backslash or blank.
URL = re.compile(
    r"(https?)://([a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
    r"(/[\w.~!$&'()*+,;=:@%/-]*)?(\?[\w.~!$&'()*+,;=:@%/?-]*)?",
    re.ASCII | re.IGNORECASE,
)
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# Set by the transport, or able to change the request.
FORBIDDEN_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect"
    r"|accept.*|proxy-.*|x-stainless-.*",
    re.I,
)
FORBIDDEN_FIELDS = {"messages", "input", "instructions", "stream"}  # set by the app
MAX_ERRORS = 3  # reported for one entry


def _parse_object(value: Any) -> Any:
    """An object, or one as a JSON string."""
    if not isinstance(value, str):
        return value
    try:
        return from_json(value or "{}")
    except ValueError:
        raise ValueError("must be an object, or one as a JSON string") from None


def _check_url(value: str) -> str:
    match = URL.fullmatch(value)
    if not match or int((match[3] or ":1")[1:]) not in range(1, 65536):
        raise ValueError("must be a URL such as https://host/v1/chat/completions")
    return value


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not HEADER.fullmatch(name) or FORBIDDEN_HEADERS.fullmatch(name):
            raise ValueError(f"must not set {name!r:.60}")
        if not re.fullmatch(r"[\x20-\x7e]*", value):
            raise ValueError(f"has a value that is no text of ASCII characters: {name:.60}")
    return headers


def _check_fields(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if forbidden := sorted(FORBIDDEN_FIELDS & body.keys()):
        raise ValueError(f"must not set {forbidden[0]}, which is the request's own")
    if not is_json_safe(body):
        raise ValueError(NOT_JSON_SAFE)
    return body


def _check_flag(value: Any) -> Any:
    if isinstance(value, bool):  # which would be taken for 0 or 1
        raise ValueError("must be one of 0 or 1")
    return value


def _check_printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be a text on one line")
    return value


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_printable)]


class Properties(BaseModel):
    """The capabilities of a provider."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")
    max_input_tokens: int | None = Field(default=None, ge=1)
    supported_response_mode: list[Literal["stream", "sync"]] = Field(
        default=["stream", "sync"], min_length=1, fail_fast=True
    )


class ProviderMetadata(BaseModel):
    """One provider of the list. All fields but the last two are those of AOG v0.2."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    provider_name: Name
    service_name: Literal["chat"] = "chat"
    service_source: Literal["local", "remote"] = "local"
    desc: str = ""
    method: Literal["POST"] = "POST"
    url: Annotated[str, AfterValidator(_check_url)]
    flavor: Literal["openai", "responses", "ollama", "aog"]
    properties: Properties = Properties()
    auth_type: Literal["none", "apikey"] = "none"
    auth_key: Annotated[dict[str, SecretStr], BeforeValidator(_parse_object)] = {}
    # Values may be resolved secrets, so repr omits them.
    extra_headers: Annotated[
        dict[str, str], BeforeValidator(_parse_object), AfterValidator(_check_headers)
    ] = Field(default={}, repr=False)
    extra_json_body: Annotated[
        dict[str, JsonValue], BeforeValidator(_parse_object), AfterValidator(_check_fields)
    ] = Field(default={}, repr=False)
    status: Annotated[Literal[0, 1], BeforeValidator(_check_flag)] = 0
    models: Annotated[list[Name], Field(fail_fast=True, max_length=1000)] = []
    allow_to_select_model: bool = True
    _unresolved: ProviderMetadata | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _reject_token(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("auth_type") == "token":
            raise ValueError(
                "auth_type token (ak, sk) has no header that these flavors define: use apikey, or "
                "extra_headers"
            )
        return value

    @model_validator(mode="after")
    def _check_key(self) -> ProviderMetadata:
        names = {"apikey"} if self.auth_type == "apikey" else set()
        if self.auth_key.keys() != names:
            expected = '{"apikey": ...}' if names else "{}"
            raise ValueError(f"auth_key must be {expected} where auth_type is {self.auth_type}")
        return self

    @property
    def unresolved(self) -> ProviderMetadata:
        """The provider as in its list, with references instead of secrets."""
        return self._unresolved or self

    def with_secrets(self, **fields: Any) -> ProviderMetadata:
        """Return the provider with resolved references."""
        resolved = self.model_copy(update=fields)
        resolved._unresolved = self
        return resolved

    @property
    def key(self) -> SecretStr | None:
        """The key for `Authorization: Bearer`; None without one."""
        return self.auth_key.get("apikey")


def describe_errors(failure: ValidationError) -> Iterator[str]:
    """Yield `.field: must be ...` for each error, without the value."""
    for error in failure.errors(include_url=False, include_input=False)[:MAX_ERRORS]:
        path = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]
        )
        yield f"{path:.100}: {describe_error(error)}"
