"""Builds the app of the settings: its adapters, policies and limits."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from shared.bootstrap.aog import make_aog_config
from shared.bootstrap.clients import Clients
from shared.bootstrap.copies import find_copies
from shared.bootstrap.factories import import_factory
from shared.bootstrap.files import make_files
from shared.bootstrap.health import make_health
from shared.bootstrap.local_settings import UsageError, describe_misspelt, read_local_settings
from shared.bootstrap.memory import make_memory
from shared.bootstrap.models import make_router
from shared.bootstrap.search import make_retriever
from shared.bootstrap.uploads import make_uploads
from shared.domain.errors import ChatError
from shared.domain.overrides import Overrides
from shared.http.auth import AccessPolicy, ApiKeyPolicy, CrossOriginPolicy, origin_of
from shared.http.call import AnswerSlots, Limits
from shared.models.router import Router
from shared.protocols.ai_chat.history import HistoryConfig
from shared.protocols.ai_chat.routes import AiChatConfig
from shared.protocols.content import ContentConfig
from shared.protocols.exchange import App
from shared.protocols.feedback.copies import CopiesConfig
from shared.protocols.mcp.documents import McpConfig
from shared.protocols.openai.data_sources import SearchScope
from shared.protocols.openai.models import TaskModelsConfig
from shared.protocols.openai.routes import ChatCompletionsConfig
from shared.protocols.openapi.security import OpenApiConfig
from shared.protocols.opensearch.search import OpenSearchConfig
from shared.protocols.page.config import PageConfig
from shared.protocols.upload_form import UploadsConfig
from shared.rag.inputs import Rag
from shared.rag.prompt import read_prompts
from shared.rag.search import select_search_step
from shared.retrieval.base import Retriever
from shared.settings import SHARED_FOLDER, Settings, SettingsError, read_settings
from shared.telemetry.access_log import NOOP_TRACER, Tracer

EXPORTERS = {"azure-monitor": "azure.monitor.opentelemetry.exporter:AzureMonitorTraceExporter"}
log = logging.getLogger("chat")


def start(environment: Mapping[str, str]) -> App:
    """Build the app of an environment; if that fails, one that reports the problems.

    An app that fails to load would give its operator no message.
    """
    _warn_of_misspelt_settings(environment)
    try:
        with _paused_garbage_collection():
            return build(read_settings(environment))
    except SettingsError as error:
        for problem in error.problems:
            log.error("settings: %s", problem, exc_info=error.__cause__)
        return _make_broken_app(error.problems)
    except Exception as error:
        log.error("start failed", exc_info=error)
        return _make_broken_app(("The app could not start: see its log.",))


@contextmanager
def _paused_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, and exempt all objects that exist at the end.

    It would check the modules of the SDKs again and again while they are imported, an eighth of
    the start, and later stop all streams for as long as one check takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _warn_of_misspelt_settings(environment: Mapping[str, str]) -> None:
    """Log the names in local.settings.json that are close to a setting.

    Other variables of the environment are not the app's.
    """
    with suppress(UsageError, OSError):
        names = [name for name in read_local_settings()["Values"] if name in environment]
        for sentence in describe_misspelt(names):
            log.warning("settings: local.settings.json: %s", sentence)


def _make_broken_app(problems: tuple[str, ...]) -> App:
    """Make an app that answers 503. It asks for no key: it cannot know the right one."""
    return App(problems=problems, api_key=ApiKeyPolicy(allow_anonymous=True))


def build(settings: Settings) -> App:
    """Build the app and log its parts. Imports only the adapters in use.

    Raises SettingsError.
    """
    clients = Clients(settings)
    models, retriever = make_router(clients), make_retriever(clients)
    access = AccessPolicy(
        settings.website_auth_enabled,
        settings.force_security_filters,
        single_user=settings.on_laptop,
        keeps_tokens=settings.azure_search_permissions == "user-token",
    )
    files = make_files(clients, retriever)
    uploads = make_uploads(clients, access.local_owner)
    if uploads:
        retriever, files = uploads.include(retriever, files)
    memory = make_memory(clients)
    copies = CopiesConfig(find_copies(clients), settings.feedback_copies == "on")
    stores = {
        "files": files,
        "memory": memory,
        "uploads": uploads.check if uploads else None,
        "copies": copies.open,
    }
    health = make_health(clients, models, retriever, stores=stores)
    app = App(
        memory=memory,
        rag=_make_rag(clients, models, retriever),
        access=access,
        api_key=ApiKeyPolicy(
            settings.chat_api_key.get_secret_value() if settings.chat_api_key else None,
            allow_anonymous=settings.on_laptop,
        ),
        links=settings.link_base_url,
        cross_origin=_make_cross_origin_policy(settings),
        answer_slots=AnswerSlots(settings.max_concurrent_answers),
        tracer=_make_tracer(settings),
        limits=Limits(
            json_bytes=settings.max_json_bytes,
            form_bytes=settings.max_form_bytes,
            request_seconds=settings.answer_timeout_seconds,
            memory_seconds=settings.memory_seconds,
            body_seconds=settings.body_timeout_seconds,
        ),
        configs=(
            health,
            ContentConfig(files),
            copies,
            UploadsConfig(uploads.store if uploads else None),
            *_configure_protocols(clients),
        ),
    )
    names = " ".join(f"{kind}={name}" for kind, name in health.names.items())
    log.info("start: %s%s", names, _describe_index(retriever))
    clients.prefetch_tokens()
    return app


def _describe_index(retriever: Retriever) -> str:
    """Describe what the index holds; empty if that is unknown, or if it cannot be read."""
    with suppress(ChatError):  # logged before, and reported by `/health`
        statistics = retriever.statistics()
        return f"; {statistics.describe()}" if statistics else ""
    return ""


def _make_rag(clients: Clients, models: Router, retriever: Retriever) -> Rag:
    settings = clients.settings
    return Rag(
        retriever,
        models,
        read_prompts(SHARED_FOLDER / "rag" / "prompts"),
        Overrides(top=settings.default_top, temperature=settings.default_temperature),
        settings.allow_client_prompts,
        search_step=select_search_step(retriever),
        rewrite_seconds=settings.rewrite_seconds,
        minimum_relevance=_minimum_relevance(settings, models),
        thoughts=settings.thoughts == "on",
    )


def _minimum_relevance(settings: Settings, models: Router) -> float | None:
    """Return the minimum of the settings, or else that of the demo model.

    It quotes whatever it gets, where a language model can tell that it does not fit.
    """
    if settings.minimum_relevance is None and models.default.name == "demo":
        from shared.models.demo import MINIMUM_RELEVANCE

        return MINIMUM_RELEVANCE
    return settings.minimum_relevance


def _configure_protocols(clients: Clients) -> tuple[object, ...]:
    """Make the configurations of protocols, one a line."""
    settings = clients.settings
    return (
        AiChatConfig(settings.chat_answers),
        HistoryConfig(settings.conversations == "always"),
        make_aog_config(clients),
        McpConfig(settings.base_url),
        ChatCompletionsConfig(settings.citation_links == "on"),
        TaskModelsConfig(settings.task_models == "on"),
        OpenSearchConfig(settings.azure_search_index or "documents"),
        PageConfig(
            settings.page == "on",
            settings.page_title,
            settings.page_color,
            settings.page_questions,
            uploads=settings.uploads == "on",
        ),
        _make_search_scope(settings),
        OpenApiConfig(
            settings.openapi == "on",
            settings.base_url,
            function_keys=settings.needs_function_keys and not settings.on_laptop,
            app_key=settings.chat_api_key is not None,
            sign_in=settings.website_auth_enabled,
        ),
    )


def _make_search_scope(settings: Settings) -> SearchScope:
    """Make the limits on what a request may search."""
    names = settings.azure_search_fields or {}
    return SearchScope(
        settings.azure_search_endpoint,
        settings.azure_search_index,
        filters=settings.allow_client_filters,
        private=tuple(names.get(name, name) for name in ("oids", "groups")),
        scores=settings.strictness_scores,
    )


def _make_cross_origin_policy(settings: Settings) -> CrossOriginPolicy:
    """Make the policy for other pages: the app's own addresses are always allowed."""
    urls = (settings.public_url, settings.azure_url)
    return CrossOriginPolicy(
        settings.allowed_origins | {origin_of(url) for url in urls if url},
        settings.codespace_name,
        settings.github_codespaces_port_forwarding_domain,
        on_laptop=settings.on_laptop,
    )


def _make_tracer(settings: Settings) -> Tracer:
    """Make the tracer with the exporter of the settings, or one that does nothing.

    Raises SettingsError.
    """
    name = settings.trace_exporter
    if name is None:
        return NOOP_TRACER
    from shared.telemetry.open_telemetry import OpenTelemetryTracer

    exporter = import_factory("TRACE_EXPORTER", EXPORTERS.get(name, name), EXPORTERS)
    try:
        return OpenTelemetryTracer(exporter(), settings.trace_ratio)
    except Exception as error:  # exporters read the environment and raise any exception
        problem = "TRACE_EXPORTER names an exporter that cannot be created: see the log"
        raise SettingsError((problem,)) from error
