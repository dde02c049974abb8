"""The model of a provider that a request describes: called only where the deployment allows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from openai import AsyncOpenAI
from pydantic import ValidationError

from shared.chat.errors import BadRequest, Forbidden, NoProvider
from shared.models.base import ModelStream, Prompt
from shared.models.openai.http_model import HttpModel
from shared.models.providers.metadata import ProviderMetadata, describe_errors

FIELD = "remote_service_provider"


def parse_request_provider(given: Mapping[str, Any], hosts: frozenset[str]) -> ProviderMetadata:
    """The provider that a request describes.

    `hosts` are those that may be called: `host`, or `host:port` where the port is not 443. Raises
    BadRequest that names what is wrong, Forbidden, NoProvider.
    """
    named = {"provider_name": FIELD, "service_source": "remote", **given}
    try:
        provider = ProviderMetadata.model_validate(named)
    except ValidationError as failure:
        told = "; ".join(f"{FIELD}{mistake}" for mistake in describe_errors(failure))
        raise BadRequest(told) from None
    _check_host(provider.url, hosts)
    _check_values(provider)
    if "status" in given and provider.status == 0:
        raise NoProvider(f"{FIELD}.status: is 0, so that it is not available.")
    return provider


def _check_host(url: str, hosts: frozenset[str]) -> None:
    parts = urlsplit(url)
    if parts.scheme.lower() != "https":
        raise Forbidden(f"{FIELD}.url: must be https.")
    host = parts.netloc.lower().removesuffix(":443")
    if host not in hosts:
        raise Forbidden(
            f"{FIELD}.url: this deployment does not call that host (INLINE_PROVIDER_HOSTS)."
        )


def _check_values(provider: ProviderMetadata) -> None:
    """References are for the deployment's own list: here they would hand out its secrets."""
    key = provider.key.get_secret_value() if provider.key else "-"
    if "${" in "".join((key, *provider.extra_headers.values())):
        raise BadRequest(f"{FIELD}: must not refer to variables of the deployment")
    if not key.isascii() or not key.isprintable() or " " in key or not key:
        raise BadRequest(f"{FIELD}.auth_key.apikey: must be one word of ASCII characters")


@dataclass(frozen=True, slots=True)
class RequestProviderModel:
    """A Model whose client lives as long as one answer: nothing of it is left for another."""

    make_client: Callable[[], AsyncOpenAI]
    make_model: Callable[[AsyncOpenAI], HttpModel]
    name: str
    max_prompt_tokens: int
    limits: Mapping[str, str]
    count: Callable[[str], int]

    async def ready(self) -> None:
        """Nobody asks: it is there for one request."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Ask; entered when the response's headers are there. Raises ChatErrors."""
        async with self.make_client() as client, self.make_model(client).open(prompt) as stream:
            yield stream
