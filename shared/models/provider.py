"""Which model answers? The choice that the settings make, and the making of what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared import settings as configuration
from shared.clients import Clients
from shared.imported import imported
from shared.models import Model
from shared.settings import Settings


def _demo(_clients: Clients) -> Model:
    from shared.models.demo_model import DemoModel

    return DemoModel()


def _azure_openai(clients: Clients) -> Model:
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT")
    given, deployment = configuration.required(clients.settings, *names)
    base = f"{given.removesuffix('/v1').removesuffix('/openai')}/openai/v1"
    hint = "does the app's identity have the role Cognitive Services OpenAI User on it?"
    return _language_model(clients.azure_openai, base, deployment, clients.settings, hint)


def _openai(clients: Clients) -> Model:
    names = ("OPENAI_BASE_URL", "OPENAI_CHAT_MODEL")
    base, model = configuration.required(clients.settings, *names)
    return _language_model(
        clients.openai, base, model, clients.settings, "is OPENAI_API_KEY right?"
    )


def _language_model(client: Any, base: str, name: str, settings: Settings, hint: str) -> Model:
    from shared.models.flavors import Traits
    from shared.models.flavors.openai import OPENAI, known_of, limits
    from shared.models.served import ServedModel

    reasoning, seeing = known_of(name)
    traits = Traits(
        name=name,
        asked=name,
        max_prompt_tokens=settings.prompt_tokens,
        reasoning=reasoning if settings.reasoning is None else settings.reasoning,
        seeing=seeing if settings.vision is None else settings.vision,
        answer_tokens=settings.answer_tokens,
        effort=settings.reasoning_effort,
        accept_seconds=settings.accept_seconds,
        first_seconds=settings.first_seconds,
        gap_seconds=settings.gap_seconds,
        hint=hint,
    )
    url = f"{base.rstrip('/')}/chat/completions"
    return ServedModel(client, url, OPENAI, traits, limits(traits))


# The models by name. Any other is `package.module:factory`, a function Settings -> Model.
MODELS: Mapping[str, Callable[[Clients], Model]] = {
    "demo": _demo,
    "azure-openai": _azure_openai,
    "openai": _openai,
}


def chat_model(clients: Clients) -> Model:
    """The model that answers. Raises SettingsError."""
    name = clients.settings.chat_model or _configured(clients.settings)
    known = MODELS.get(name)
    if known is not None:
        return known(clients)
    made: Model = imported("CHAT_MODEL", name, MODELS)(clients.settings)
    return made


def _configured(settings: Settings) -> str:
    """The model that the other settings ask for: Azure's before any other."""
    if settings.azure_openai_endpoint:
        return "azure-openai"
    return "openai" if settings.openai_base_url else "demo"
