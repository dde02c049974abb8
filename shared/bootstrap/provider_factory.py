"""The making of providers that are described: by the list of the settings, or by a request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shared.bootstrap.clients import Clients
from shared.models.base import Model
from shared.models.providers.metadata import ProviderMetadata
from shared.models.providers.redaction import card
from shared.models.router import Inline, Provider, no_inline
from shared.settings import Settings


def make_model_config(settings: Settings, name: str, **more: Any) -> Any:
    """What the settings say of every model, and what is known of this one."""
    from shared.models.formats.base import ModelConfig

    common = {
        "max_prompt_tokens": settings.prompt_tokens,
        "answer_tokens": settings.answer_tokens,
        "accept_seconds": settings.accept_seconds,
        "first_seconds": settings.first_seconds,
        "gap_seconds": settings.gap_seconds,
    }
    return ModelConfig(name=name, **common | more)


def make_provider(clients: Clients, given: ProviderMetadata) -> Provider:
    """A provider of the list: one client for all of its models.

    A model is made anew for each request: where any may be named, none is kept.
    """
    client = clients.for_provider(given)
    return Provider(
        given.provider_name,
        given.service_source,
        partial(_make_model, clients.settings, client, given),
        models=tuple(given.models),
        selects=given.allow_to_select_model,
        available=given.status == 1,
        card=card(given, clients.settings.prompt_tokens),
    )


def _make_model(
    settings: Settings, client: Any, given: ProviderMetadata, name: str | None
) -> Model:
    """A model of a provider that is described; `name` is None for the one of its own choice."""
    from shared.models.formats.openai import known_of, limits
    from shared.models.formats.registry import FLAVORS
    from shared.models.openai.http_model import HttpModel

    streams = "stream" in given.properties.supported_response_mode
    seconds = settings.accept_seconds + (0 if streams else settings.first_seconds)
    traits = make_model_config(
        settings,
        name or given.provider_name,
        asked=name,
        max_prompt_tokens=given.properties.max_input_tokens or settings.prompt_tokens,
        reasoning=given.flavor == "openai" and known_of(name or "")[0],
        seeing=True,  # nobody knows, and its server says so itself
        effort=settings.reasoning_effort,
        accept_seconds=seconds,
        streams=streams,
        more=given.extra_json_body,
        hint="is what MODEL_PROVIDERS, or the request, says of its provider right?",
    )
    return HttpModel(client, given.url, FLAVORS[given.flavor], traits, limits(traits))


def request_provider_factory(clients: Clients) -> Inline:
    """What makes a model of a provider that a request describes; nothing without an allow-list."""
    hosts = clients.settings.request_provider_hosts
    if not hosts:
        return no_inline
    from shared.models.providers.request_provider import RequestProviderModel, described

    def made(given: Mapping[str, Any], name: str | None) -> Model:
        provider = described(given, hosts)
        default = provider.models[0] if provider.models else None
        asked = name if name and provider.allow_to_select_model else default
        known = _make_model(clients.settings, None, provider, asked)
        return RequestProviderModel(
            client=partial(clients.for_provider, provider, ours=False),
            served=partial(_make_model_with_client, clients.settings, provider, asked),
            name=known.name,
            max_prompt_tokens=known.max_prompt_tokens,
            limits=known.limits,
            count=known.count,
        )

    return made


def _make_model_with_client(
    settings: Settings, given: ProviderMetadata, name: str | None, client: Any
) -> Any:
    return _make_model(settings, client, given, name)
