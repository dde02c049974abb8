"""`build(settings) -> Service`: the only file that chooses and makes adapters."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shared import settings as configuration
from shared.auth import Access
from shared.clients import Clients
from shared.health import Health, Part
from shared.http import Limits
from shared.models import Model
from shared.overrides import Overrides
from shared.prompt import read_words
from shared.rag import Rag
from shared.retrieval import Retriever
from shared.service import Service
from shared.settings import Settings, SettingsError

HERE = Path(__file__).parent

log = logging.getLogger("chat")


def start(environment: Mapping[str, str]) -> Service:
    """The service for an environment; one that only says what is wrong where it cannot be made.

    An app that fails to load tells its operator nothing.
    """
    try:
        service = build(configuration.read(environment))
        parts = service.health.names.items()
        log.info("start: %s", " ".join(f"{kind}={name}" for kind, name in parts))
        return service
    except SettingsError as wrong:
        for problem in wrong.problems:
            log.error("settings: %s", problem, exc_info=wrong.__cause__)
        return Service(problems=wrong.problems)
    except Exception as failure:
        log.error("start failed", exc_info=failure)
        return Service(problems=("The app could not start; its log names the cause.",))


def build(settings: Settings) -> Service:
    """The service that the settings ask for. Imports the adapters they name, and no other.

    Raises SettingsError.
    """
    clients = Clients(settings)
    model, retriever = chat_model(clients), _retriever(clients)
    defaults = Overrides(top=settings.default_top, temperature=settings.default_temperature)
    words = read_words(HERE / "prompts")
    return Service(
        engine=Rag(retriever, model, words, defaults, settings.allow_client_prompts),
        access=Access(settings.sign_in, settings.force_security_filters),
        limits=Limits(settings.json_limit, settings.form_limit, settings.answer_seconds),
        health=Health(
            {
                "model": Part(model.name, model.ready),
                "index": Part(retriever.name, retriever.ready),
            }
        ),
    )


def _demo(_clients: Clients) -> Model:
    from shared.models.demo_model import DemoModel

    return DemoModel()


def _azure_openai(clients: Clients) -> Model:
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT")
    _, deployment = configuration.required(clients.settings, *names)
    hint = "does the app's identity have the role Cognitive Services OpenAI User on it?"
    return _language_model(clients.azure_openai, deployment, clients.settings, hint)


def _openai(clients: Clients) -> Model:
    names = ("OPENAI_BASE_URL", "OPENAI_CHAT_MODEL")
    _, model = configuration.required(clients.settings, *names)
    return _language_model(clients.openai, model, clients.settings, "is OPENAI_API_KEY right?")


def _language_model(client: Any, name: str, settings: Settings, hint: str) -> Model:
    from shared.models.openai_model import OpenAIModel
    from shared.models.openai_request import Traits, known_of, limits

    known = known_of(name)
    traits = Traits(
        name=name,
        max_prompt_tokens=settings.prompt_tokens,
        reasoning=known.reasoning if settings.reasoning is None else settings.reasoning,
        seeing=known.seeing if settings.vision is None else settings.vision,
        answer_tokens=settings.answer_tokens,
        effort=settings.reasoning_effort,
        accept_seconds=settings.accept_seconds,
        first_seconds=settings.first_seconds,
        gap_seconds=settings.gap_seconds,
        hint=hint,
    )
    return OpenAIModel(client, traits, limits(traits))


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
    return known(clients) if known else _imported(name)(clients.settings)


def _configured(settings: Settings) -> str:
    """The model that the other settings ask for: Azure's before any other."""
    if settings.azure_openai_endpoint:
        return "azure-openai"
    return "openai" if settings.openai_base_url else "demo"


def _imported(name: str) -> Callable[[Settings], Model]:
    module, _, factory = name.partition(":")
    try:
        made: Callable[[Settings], Model] = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(MODELS)
        problem = f"CHAT_MODEL must be {known}, or a package.module:factory that can be imported"
        raise SettingsError((problem,)) from error
    return made


def _retriever(clients: Clients) -> Retriever:
    return _azure_search(clients) if clients.settings.search_endpoint else _samples()


def _samples() -> Retriever:
    from shared.retrieval.local_index import LocalIndex, read_passages

    return LocalIndex(read_passages(HERE / "data" / "samples.jsonl"))


def _azure_search(clients: Clients) -> Retriever:
    from shared.retrieval.azure_search import AzureSearch, Fields
    from shared.retrieval.azure_search_client import make_client

    settings = clients.settings
    names = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX")
    endpoint, index = configuration.required(settings, *names)
    return AzureSearch(
        client=make_client(endpoint, index, clients.identity),
        fields=Fields(**(settings.search_fields or {})),
        seconds=settings.search_seconds,
        embed=None if settings.search_vectorizer else clients.embed,
        vectorizer=settings.search_vectorizer,
        ranking=settings.search_ranking,
    )
