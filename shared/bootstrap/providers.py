"""Makes providers from the metadata of MODEL_PROVIDERS or of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from shared.bootstrap.clients import Clients, get_max_prompt_tokens, make_http_model
from shared.models.base import Model
from shared.models.providers.metadata import ProviderMetadata
from shared.models.providers.provider_list import IDENTITY
from shared.models.router import Provider, RequestProviderFactory, reject_request_provider
from shared.settings import Settings, SettingsError

OPENAI_FLAVORS = ["openai", "responses"]  # whose reasoning models take no temperature


def make_providers(clients: Clients, others: Sequence[str]) -> list[Provider]:
    """Make the providers of MODEL_PROVIDERS. `others` are the names of those of other settings.

    Raises SettingsError.
    """
    providers = [_make_provider(clients, metadata) for metadata in clients.settings.model_providers]
    names = [*others, *(provider.name for provider in providers)]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        problem = f"MODEL_PROVIDERS must not name a provider {duplicates[0]}: the settings make one"
        raise SettingsError((problem,))
    if providers and not others and not any(provider.available for provider in providers):
        raise SettingsError(("MODEL_PROVIDERS must have a provider with status 1",))
    return providers


def _make_provider(clients: Clients, metadata: ProviderMetadata) -> Provider:
    """Make a provider of MODEL_PROVIDERS, with one client for all of its models.

    Models are made for each request: clients may name any number of them.
    """
    client = _make_client(clients, metadata)
    clients.others.append(client)
    return Provider(
        metadata.provider_name,
        metadata.service_source,
        partial(_make_model, clients.settings, client, metadata),
        models=tuple(metadata.models),
        allows_selection=metadata.allow_to_select_model,
        available=metadata.status == 1,
    )


def _make_model(
    settings: Settings, client: Any, metadata: ProviderMetadata, name: str | None
) -> Any:
    """Make a model of a described provider; without `name` the provider chooses it."""
    from shared.models.formats.openai import known_capabilities

    streams = "stream" in metadata.properties.supported_response_mode
    return make_http_model(
        settings,
        client,
        metadata.url,
        metadata.flavor,
        name=name or metadata.provider_name,
        server_model=name,
        max_prompt_tokens=metadata.properties.max_input_tokens
        or get_max_prompt_tokens(settings, metadata.url),
        reasoning=metadata.flavor in OPENAI_FLAVORS and known_capabilities(name or "")[0],
        supports_images=True,  # unknown; if not, its server responds with an error
        # Without streaming, the headers come with the whole answer.
        accept_seconds=settings.model_accept_seconds
        + (0 if streams else settings.model_first_token_seconds),
        supports_streaming=streams,
        extra_body=metadata.extra_json_body,
        hint="is the description of its provider in MODEL_PROVIDERS, or in the request, right?",
    )


def make_request_model_factory(clients: Clients) -> RequestProviderFactory:
    """Make the factory of models whose provider a request describes.

    Without an allow-list of hosts it rejects every request.
    """
    hosts = clients.settings.inline_provider_hosts
    if not hosts:
        return reject_request_provider
    from shared.models.providers.request_provider import (
        RequestProviderModel,
        parse_request_provider,
    )

    def make(description: Mapping[str, Any], name: str | None) -> Model:
        metadata = parse_request_provider(description, hosts)
        default = metadata.models[0] if metadata.models else None
        selected = name if name and metadata.allow_to_select_model else default
        model = _make_model(clients.settings, None, metadata, selected)
        return RequestProviderModel(model, partial(_make_client, clients, metadata, trusted=False))

    return make


def _make_client(clients: Clients, provider: ProviderMetadata, trusted: bool = True) -> Any:
    """Make a client for a provider of the settings (`trusted`), or of a request.

    The latter never gets a token of the app's identity.
    """
    from shared.models.openai.client import make_client

    key = _make_key_provider(clients, provider, trusted)
    return make_client(provider.url, key, headers=provider.extra_headers)


def _make_key_provider(clients: Clients, provider: ProviderMetadata, trusted: bool) -> Any:
    """Make a function that returns the provider's key; None without a key."""
    from shared.models.openai.client import fixed_key

    if provider.key is None:
        return None
    value = provider.key.get_secret_value()
    if trusted and value == IDENTITY:
        from shared.azure import identity

        return identity.make_token_provider(clients.identity, identity.OPENAI_SCOPE)
    return fixed_key(value)
