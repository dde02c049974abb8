"""`build(settings) -> Service`: the only file that chooses and makes adapters."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from shared import settings as configuration
from shared.auth import Access
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
        log.info("start: %s", " ".join(f"{name}={part}" for name, part in service.parts.items()))
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
    model, retriever = _model(settings), _samples()
    defaults = Overrides(top=settings.default_top, temperature=settings.default_temperature)
    words = read_words(HERE / "prompts")
    return Service(
        engine=Rag(retriever, model, words, defaults, settings.allow_client_prompts),
        access=Access(settings.sign_in, settings.force_security_filters),
        limits=Limits(settings.json_limit, settings.form_limit, settings.answer_seconds),
        parts={"model": model.name, "index": retriever.name},
    )


def _demo(_settings: Settings) -> Model:
    from shared.models.demo_model import DemoModel

    return DemoModel()


# The models by name. Any other is `package.module:factory`, a function Settings -> Model.
MODELS: Mapping[str, Callable[[Settings], Model]] = {"demo": _demo}


def _model(settings: Settings) -> Model:
    name = settings.chat_model
    return (MODELS.get(name) or _imported(name))(settings)


def _imported(name: str) -> Callable[[Settings], Model]:
    module, _, factory = name.partition(":")
    try:
        made: Callable[[Settings], Model] = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(MODELS)
        problem = f"CHAT_MODEL must be {known}, or a package.module:factory that can be imported"
        raise SettingsError((problem,)) from error
    return made


def _samples() -> Retriever:
    from shared.retrieval.local_index import LocalIndex, read_passages

    return LocalIndex(read_passages(HERE / "data" / "samples.jsonl"))
