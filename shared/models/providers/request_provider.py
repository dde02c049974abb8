"""Models of providers that a request describes, if the deployment allows their hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from openai import AsyncOpenAI
from pydantic import ValidationError

from shared.domain.errors import BadRequest, Forbidden, NoProvider
from shared.models.base import ModelStream, Prompt
from shared.models.openai.http_model import HttpModel
from shared.models.providers.metadata import ProviderMetadata, describe_errors

FIELD = "remote_service_provider"


def parse_request_provider(
    description: Mapping[str, Any], hosts: frozenset[str]
) -> ProviderMetadata:
    """Parse the description of a provider in a request.

    `hosts` are the allowed ones: `host`, or `host:port` if the port is not 443. Raises BadRequest,
    Forbidden, NoProvider.
    """
    fields = {"provider_name": FIELD, "service_source": "remote", **description}
    try:
        provider = ProviderMetadata.model_validate(fields)
    except ValidationError as failure:
        message = "; ".join(f"{FIELD}{error}" for error in describe_errors(failure))
        raise BadRequest(message) from None
    _check_host(provider.url, hosts)
    _check_values(provider)
    if "status" in description and provider.status == 0:
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
    """Reject references, which would send the deployment's secrets to the provider."""
    key = provider.key.get_secret_value() if provider.key else "-"
    if "${" in "".join((key, *provider.extra_headers.values())):
        raise BadRequest(f"{FIELD}: must not refer to variables of the deployment")
    if not key.isascii() or not key.isprintable() or " " in key or not key:
        raise BadRequest(f"{FIELD}.auth_key.apikey: must be one word of ASCII characters")


class RequestProviderModel:
    """A Model with a client of its own for each answer, which no other request shares."""

    def __init__(self, model: HttpModel, make_client: Callable[[], AsyncOpenAI]) -> None:
        self._model, self._make_client = model, make_client
        self.name, self.max_prompt_tokens = model.name, model.max_prompt_tokens
        self.limits, self.count = model.limits, model.count

    async def ready(self) -> None:
        """Do nothing: no health check calls it."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Send the prompt; entered with the headers of the response. Raises ChatErrors."""
        async with (
            self._make_client() as client,
            replace(self._model, client=client).open(prompt) as stream,
        ):
            yield stream
