"""Makes the models and providers of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.bootstrap.clients import Clients, make_http_model
from shared.bootstrap.factories import import_factory
from shared.bootstrap.providers import make_providers, make_request_model_factory
from shared.domain.hosts import is_local
from shared.models import builtin_embedding
from shared.models.base import Model
from shared.models.router import Provider, Router, Side
from shared.settings import Settings, SettingsError, require_settings


def select_api(settings: Settings) -> tuple[str, str]:
    """Return the flavor of CHAT_MODEL_API, and its path under an endpoint."""
    if settings.chat_model_api == "responses":
        return "responses", "/responses"
    return "openai", "/chat/completions"


def _make_demo(clients: Clients) -> Provider:
    from shared.models.demo import DemoModel

    encode = builtin_embedding.encode if clients.uses_builtin_embedding else None
    return _single_model_provider("demo", DemoModel(encode=encode))


def _make_azure_openai(clients: Clients) -> Provider:
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT")
    _, name = require_settings(clients.settings, *names)
    url = clients.azure_openai_base_url + select_api(clients.settings)[1]
    hint = "does the app's identity have the role Cognitive Services OpenAI User on it?"
    model = _make_named_model(clients.settings, clients.azure_openai, url, name, hint)
    return _single_model_provider("azure-openai", model, "remote")


def _make_openai(clients: Clients) -> Provider:
    settings, names = clients.settings, ("OPENAI_BASE_URL", "OPENAI_CHAT_MODEL")
    base, name = require_settings(settings, *names)
    url = base.rstrip("/") + select_api(settings)[1]
    model = _make_named_model(settings, clients.openai, url, name, "is OPENAI_API_KEY right?")
    side: Side = "local" if is_local(base) else "remote"
    return _single_model_provider("openai", model, side)


def _make_named_model(settings: Settings, client: Any, url: str, name: str, hint: str) -> Model:
    """Make the model that the settings name, at the URL of its API."""
    from shared.models.formats.openai import known_capabilities

    reasoning, vision = known_capabilities(name)
    model: Model = make_http_model(
        settings,
        client,
        url,
        flavor=select_api(settings)[0],
        name=name,
        server_model=name,
        reasoning=reasoning
        if settings.chat_model_reasoning is None
        else settings.chat_model_reasoning,
        supports_images=vision
        if settings.chat_model_vision is None
        else settings.chat_model_vision,
        hint=hint,
    )
    return model


def _single_model_provider(name: str, model: Model, side: Side = "local") -> Provider:
    """Make a provider with one model."""
    return Provider(name, side, lambda _: model, (model.name,))


# The values of CHAT_MODEL. Any other is `package.module:factory`, a function Settings -> Model.
MODEL_FACTORIES: Mapping[str, Callable[[Clients], Provider]] = {
    "demo": _make_demo,
    "azure-openai": _make_azure_openai,
    "openai": _make_openai,
}
DEFAULT_MODEL = next(iter(MODEL_FACTORIES))


def make_router(clients: Clients) -> Router:
    """Make the router of all providers. Raises SettingsError."""
    settings = clients.settings
    providers = _make_configured_providers(clients)
    providers += make_providers(clients, [provider.name for provider in providers])
    if not providers:
        providers = [_make_named_provider(clients, DEFAULT_MODEL)]
    seconds = min(
        settings.local_first_token_seconds, settings.answer_timeout_seconds / 2
    )  # leaves time for another
    _check_aliases(settings.model_aliases, providers)
    return Router(
        [replace(provider, aliases=settings.model_aliases) for provider in providers],
        policy=settings.hybrid_policy,
        request_providers=make_request_model_factory(clients),
        seconds=seconds,
    )


def _check_aliases(aliases: Mapping[str, str], providers: Sequence[Provider]) -> None:
    """Raise SettingsError for an alias that is the name of a model, or stands for none."""
    names = {name for provider in providers for name in provider.models}
    if not names.isdisjoint(aliases):
        raise SettingsError(("MODEL_ALIASES has an alias that is the name of a model",))
    known = (any(each.has_model(name) for each in providers) for name in aliases.values())
    if not all(known):
        raise SettingsError(("MODEL_ALIASES names a model that the deployment does not have",))


def make_chat_model(clients: Clients) -> Model | None:
    """Make the first model outside of MODEL_PROVIDERS: its abilities are known."""
    providers = _make_configured_providers(clients)
    return providers[0].get_model(None) if providers else None


def _make_configured_providers(clients: Clients) -> list[Provider]:
    """Make the providers outside of MODEL_PROVIDERS. Raises SettingsError."""
    settings = clients.settings
    if settings.chat_model:
        return [_make_named_provider(clients, settings.chat_model)]
    providers = []
    if settings.azure_openai_endpoint:
        providers.append(_make_azure_openai(clients))
    if settings.openai_base_url:
        providers.append(_make_openai(clients))
    return providers


def _make_named_provider(clients: Clients, name: str) -> Provider:
    """Make the provider of a value of CHAT_MODEL. Raises SettingsError."""
    factory = MODEL_FACTORIES.get(name)
    if factory is not None:
        return factory(clients)
    model: Model = import_factory("CHAT_MODEL", name, MODEL_FACTORIES)(clients.settings)
    return _single_model_provider("custom", model)
