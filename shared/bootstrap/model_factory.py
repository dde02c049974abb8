"""Makes the models and providers of the settings."""

from __future__ import annotations

import importlib
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from shared import settings as configuration
from shared.bootstrap.clients import Clients, make_model_config
from shared.bootstrap.provider_factory import make_provider, make_request_model_factory
from shared.models.base import Model
from shared.models.router import Provider, Router, Side
from shared.settings import SettingsError


def import_factory(setting: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """Import a factory. `known` are the setting's other values. Raises SettingsError."""
    module, _, factory = name.partition(":")
    try:
        imported: Callable[..., Any] = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        names = ", ".join((*known, ""))
        choice = f"{names}or a" if names else "a"
        problem = f"{setting} must be {choice} package.module:factory that can be imported"
        raise SettingsError((problem,)) from error
    return imported


DEFAULT_MODEL = "demo"
CHAT_PATH = "/chat/completions"


def _make_demo(_clients: Clients) -> Provider:
    from shared.models.demo import DemoModel

    model = DemoModel()
    card = _provider_card("demo", "demo", model.name, model.max_prompt_tokens)
    return _single_model_provider(model, card)


def _make_azure_openai(clients: Clients) -> Provider:
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT")
    endpoint, name = configuration.require_settings(clients.settings, *names)
    base = f"{endpoint.removesuffix('/v1').removesuffix('/openai')}/openai/v1"
    hint = "does the app's identity have the role Cognitive Services OpenAI User on it?"
    return _make_http_provider(
        clients, clients.azure_openai, base, name, ("azure-openai", "remote", hint)
    )


def _make_openai(clients: Clients) -> Provider:
    names = ("OPENAI_BASE_URL", "OPENAI_CHAT_MODEL")
    base, name = configuration.require_settings(clients.settings, *names)
    side: Side = "local" if is_local(base) else "remote"
    row = ("openai", side, "is OPENAI_API_KEY right?")
    return _make_http_provider(clients, clients.openai, base, name, row)


def is_local(url: str) -> bool:
    """Whether the host of a URL is this machine, or in a private network."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_private


def _make_http_provider(
    clients: Clients, client: Any, base: str, model: str, row: tuple[str, Side, str]
) -> Provider:
    """Make a provider with the one model that the settings name."""
    from shared.models.formats.openai import OPENAI, known_capabilities, model_limits
    from shared.models.openai.http_model import HttpModel

    settings, (provider, side, hint) = clients.settings, row
    reasoning, vision = known_capabilities(model)
    config = make_model_config(
        settings,
        model,
        server_model=model,
        reasoning=reasoning if settings.reasoning is None else settings.reasoning,
        supports_images=vision if settings.vision is None else settings.vision,
        reasoning_effort=settings.reasoning_effort,
        hint=hint,
    )
    url = base.rstrip("/") + CHAT_PATH
    has_key = provider == "azure-openai" or settings.openai_api_key is not None
    fields = {"service_source": side, "url": url, "auth_type": "apikey" if has_key else "none"}
    card = _provider_card(provider, "openai", model, settings.prompt_tokens, **fields)
    return _single_model_provider(
        HttpModel(client, url, OPENAI, config, model_limits(config)), card
    )


def _provider_card(name: str, flavor: str, model: str, tokens: int, **more: Any) -> dict[str, Any]:
    """Make the public metadata of a provider, in the form of MODEL_PROVIDERS."""
    return {
        "provider_name": name,
        "service_name": "chat",
        "service_source": "local",
        "desc": "",
        "method": "POST",
        "url": "",
        "flavor": flavor,
        "properties": {"max_input_tokens": tokens, "supported_response_mode": ["stream", "sync"]},
        "auth_type": "none",
        "extra_headers": {},
        "extra_json_body": {},
        "status": 1,
        "models": [model],
        "allow_to_select_model": True,
        **more,
    }


def _single_model_provider(model: Model, card: Mapping[str, Any]) -> Provider:
    name, side = card["provider_name"], card["service_source"]
    return Provider(name, side, lambda _: model, models=(model.name,), metadata=card)


# The values of CHAT_MODEL. Any other is `package.module:factory`, a function Settings -> Model.
MODEL_FACTORIES: Mapping[str, Callable[[Clients], Provider]] = {
    "demo": _make_demo,
    "azure-openai": _make_azure_openai,
    "openai": _make_openai,
}


def make_router(clients: Clients) -> Router:
    """Make the router of all providers. Raises SettingsError."""
    settings = clients.settings
    providers = _make_configured_providers(clients)
    providers += (make_provider(clients, metadata) for metadata in settings.providers)
    names = [provider.name for provider in providers]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        problem = f"MODEL_PROVIDERS must not name a provider {duplicates[0]}: the settings make one"
        raise SettingsError((problem,))
    if not any(provider.available for provider in providers):
        raise SettingsError(("MODEL_PROVIDERS must have a provider with status 1",))
    seconds = min(settings.local_seconds, settings.answer_seconds / 2)  # leaves time for another
    return Router(
        providers,
        settings.policy,
        request_providers=make_request_model_factory(clients),
        seconds=seconds,
    )


def make_chat_model(clients: Clients) -> Model | None:
    """Make the first model outside of MODEL_PROVIDERS: its abilities are known."""
    providers = _make_configured_providers(clients)
    return providers[0].get_model(None) if providers else None


def _make_configured_providers(clients: Clients) -> list[Provider]:
    """Make the providers outside of MODEL_PROVIDERS; the demo model if there is no other."""
    settings = clients.settings
    names = [
        name
        for name, value in (
            ("azure-openai", settings.azure_openai_endpoint),
            ("openai", settings.openai_base_url),
        )
        if value
    ]
    if settings.chat_model:
        names = [settings.chat_model]
    elif not names and not configuration.first_setting(settings, ["MODEL_PROVIDERS"]):
        names = [DEFAULT_MODEL]
    return [_make_named_provider(clients, name) for name in names]


def _make_named_provider(clients: Clients, name: str) -> Provider:
    factory = MODEL_FACTORIES.get(name)
    if factory is not None:
        return factory(clients)
    model: Model = import_factory("CHAT_MODEL", name, MODEL_FACTORIES)(clients.settings)
    return _single_model_provider(
        model, _provider_card("custom", "custom", model.name, model.max_prompt_tokens)
    )
