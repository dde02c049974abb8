"""Builds the service of the settings: its adapters, policies and limits."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from shared import settings as configuration
from shared.app import Service
from shared.bootstrap.clients import Clients
from shared.bootstrap.model_factory import import_factory, make_router
from shared.bootstrap.setting_names import describe_misspelt, read_names
from shared.domain.errors import ChatError
from shared.domain.overrides import Overrides
from shared.files.base import Files
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.http.call import Limits
from shared.http.capacity import AnswerSlots
from shared.http.cross_origin import CrossOriginPolicy, origin_of
from shared.http.health import Health, HealthCheck
from shared.http.json_encoding import Json
from shared.memory.base import Memory, Retention
from shared.models.router import Router
from shared.rag.flow import Rag
from shared.rag.prompt import read_prompts
from shared.retrieval.base import LimitedRetriever, Retriever, missing_members
from shared.retrieval.search_scope import SearchScope
from shared.settings import SHARED_FOLDER, Settings, SettingsError
from shared.telemetry.spans import NOOP_TRACER, Tracer

EXPORTERS = {"azure-monitor": "azure.monitor.opentelemetry.exporter:AzureMonitorTraceExporter"}
SAMPLE_INDEX = "samples"  # value of INDEX_FILE for the sample documents

UNRESTRICTED_INDEX = (
    "AZURE_SEARCH_FIELDS names no field with permissions, and sign-in is on: set "
    "AZURE_SEARCH_INDEX_PUBLIC to true if every caller may see every document"
)

log = logging.getLogger("chat")


def start(environment: Mapping[str, str]) -> Service:
    """Build the service of an environment; if that fails, one that reports the problems.

    An app that fails to load would give its operator no message.
    """
    _warn_of_misspelt_settings(environment)
    try:
        with _paused_garbage_collection():
            return build(configuration.read_settings(environment))
    except SettingsError as error:
        for problem in error.problems:
            log.error("settings: %s", problem, exc_info=error.__cause__)
        return _make_broken_service(error.problems)
    except Exception as error:
        log.error("start failed", exc_info=error)
        return _make_broken_service(("The app could not start: see its log.",))


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
    names = read_names(SHARED_FOLDER.parent / "local.settings.json")
    for sentence in describe_misspelt(name for name in names if name in environment):
        log.warning("settings: local.settings.json: %s", sentence)


def _make_broken_service(problems: tuple[str, ...]) -> Service:
    """Make a service that answers 503. It asks for no key: it cannot know the right one."""
    return Service(problems=problems, api_key=ApiKeyPolicy(allow_anonymous=True))


def build(settings: Settings) -> Service:
    """Build the service and log its parts. Imports only the adapters in use.

    Raises SettingsError.
    """
    clients = Clients(settings)
    models, retriever = make_router(clients), make_retriever(clients)
    files, memory = _make_files(clients, retriever), _make_memory(clients)
    service = Service(
        files=files,
        memory=memory,
        stores_every_chat=settings.conversations == "always",
        chat_answers=settings.chat_answers,
        index=settings.azure_search_index or "documents",
        engine=_make_rag(settings, models, retriever),
        access=AccessPolicy(
            settings.website_auth_enabled,
            settings.force_security_filters,
            single_user=settings.on_laptop,
        ),
        api_key=ApiKeyPolicy(
            settings.chat_api_key.get_secret_value() if settings.chat_api_key else None,
            allow_anonymous=settings.on_laptop,
        ),
        search_scope=_make_search_scope(settings),
        links=settings.link_base_url,
        base_url=settings.base_url,
        cross_origin=_make_cross_origin_policy(settings),
        has_page=settings.page == "on",
        answer_slots=AnswerSlots(settings.max_concurrent_answers),
        tracer=_make_tracer(settings),
        limits=Limits(
            settings.max_json_bytes,
            settings.max_form_bytes,
            settings.answer_timeout_seconds,
            settings.memory_seconds,
            settings.body_timeout_seconds,
        ),
        health=_make_health(clients, models, retriever, files=files, memory=memory),
    )
    names = " ".join(f"{kind}={name}" for kind, name in service.health.names.items())
    log.info("start: %s%s", names, _describe_index(retriever))
    _prefetch_tokens(clients)
    return service


def _prefetch_tokens(clients: Clients) -> None:
    """Request the tokens for search and model, if there is a managed identity.

    A developer's sign-in is left out: a CLI would take CPU time from the start.
    """
    settings = clients.settings
    uses_azure = settings.azure_search_endpoint or settings.azure_openai_endpoint
    if not settings.identity_endpoint or not uses_azure:
        return
    from shared.azure import identity

    scopes = [identity.SEARCH_SCOPE] if settings.azure_search_endpoint else []
    scopes += [identity.OPENAI_SCOPE] if settings.azure_openai_endpoint else []
    identity.prefetch_tokens(clients.identity, scopes)


def _describe_index(retriever: Retriever) -> str:
    """Describe what the index holds; empty if that is unknown, or if it cannot be read."""
    with suppress(ChatError):  # logged before, and reported by `/health`
        statistics = retriever.statistics()
        return f"; {statistics.describe()}" if statistics else ""
    return ""


def _index_details(retriever: Retriever) -> Json:
    """Return what the index holds; empty if that is unknown. Raises ChatErrors."""
    statistics = retriever.statistics()
    return statistics.to_json() if statistics else {}


def make_retriever(clients: Clients) -> Retriever:
    """Make the retriever of the first of these settings that has a value. Raises SettingsError."""
    settings = clients.settings
    if settings.retriever:
        return _make_custom_retriever(settings, settings.retriever)
    if settings.azure_search_endpoint:
        return _make_azure_search_retriever(clients)
    if settings.index_file:
        return _make_sqlite_retriever(clients)
    raise SettingsError(("RETRIEVER or AZURE_SEARCH_ENDPOINT is required",))


def _make_custom_retriever(settings: Settings, name: str) -> Retriever:
    """Make a retriever with the factory of RETRIEVER. Raises SettingsError."""
    retriever: Retriever = import_factory("RETRIEVER", name, ())(settings)
    if missing := missing_members(retriever):
        problem = f"RETRIEVER names a factory whose retriever has no {', '.join(missing)}"
        raise SettingsError((problem,))
    return retriever


def _make_azure_search_retriever(clients: Clients) -> Retriever:
    from shared.retrieval.azure_search.client import make_index
    from shared.retrieval.azure_search.field_mapping import IndexFields
    from shared.retrieval.azure_search.retriever import AzureSearchRetriever

    settings = clients.settings
    names = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX")
    endpoint, index = configuration.require_settings(settings, *names)
    fields = IndexFields(**(settings.azure_search_fields or {}))
    if (
        settings.website_auth_enabled
        and not fields.has_access_control
        and not settings.azure_search_index_public
    ):
        raise SettingsError((UNRESTRICTED_INDEX,))
    return AzureSearchRetriever(
        index=make_index(endpoint, index, clients.identity),
        fields=fields,
        seconds=settings.search_seconds,
        embed=None if settings.azure_search_vectorizer else clients.embed,
        vectorizer=settings.azure_search_vectorizer,
        semantic_configuration=settings.azure_search_semantic_configuration,
        fetch_image=_make_blob_files(clients).read_image
        if settings.azure_storage_endpoint
        else None,
    )


def _make_sqlite_retriever(clients: Clients) -> Retriever:
    """Open the index file, or else index the samples. Raises SettingsError."""
    from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever, read_passages

    name = clients.settings.index_file
    path, data = SHARED_FOLDER.parent / name, SHARED_FOLDER / "data"
    if name != SAMPLE_INDEX and path.is_file():
        model, embed = clients.embedding_model, clients.embed
        return SqliteRetriever.open(path, Embedding(model, embed) if model and embed else None)
    if name != SAMPLE_INDEX and "index_file" in clients.settings.model_fields_set:
        problem = "INDEX_FILE names a missing file: `make index DOCS=folder` creates it"
        raise SettingsError((problem,))
    return SqliteRetriever(read_passages(data / "samples.jsonl"), documents=data / "documents")


def _make_files(clients: Clients, retriever: Retriever) -> Files | None:
    """Make the file store of citations; None without one. Raises SettingsError."""
    settings = clients.settings
    if settings.azure_storage_endpoint:
        files: Files = _make_blob_files(clients)
        return files
    if settings.documents_path:
        return _make_folder_files(settings.documents_path)
    if settings.index_file:
        return _make_indexed_files(retriever)
    return None


def _make_blob_files(clients: Clients) -> Any:
    from shared.files.blobs import BlobFiles

    return BlobFiles(clients.blob_container, clients.settings.storage_seconds)


def _make_folder_files(path: str) -> Files:
    """Make the store of DOCUMENTS_PATH, relative to the app's folder. Raises SettingsError."""
    from shared.files.folder import FolderFiles

    folder = SHARED_FOLDER.parent / path
    if not folder.is_dir():
        raise SettingsError(("DOCUMENTS_PATH must be a folder that exists",))
    return FolderFiles(folder)


def _make_indexed_files(retriever: Retriever) -> Files | None:
    """Make the store of the folder that the SQLite index was made from."""
    from shared.files.folder import IndexFolderFiles
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    if not isinstance(retriever, SqliteRetriever):
        return None
    return IndexFolderFiles(lambda: retriever.documents)


def _make_memory(clients: Clients) -> Memory | None:
    """Make the store of conversations; None if they are not stored."""
    settings = clients.settings
    limits = settings.max_conversations, settings.max_stored_megabytes * 1_000_000
    retention = Retention(settings.retention_seconds, *limits)
    if settings.azure_cosmos_endpoint:
        return _make_cosmos_memory(clients, settings.azure_cosmos_endpoint, retention)
    if settings.memory_file:
        return _make_sqlite_memory(settings, settings.memory_file, retention)
    return None


def _make_cosmos_memory(clients: Clients, endpoint: str, retention: Retention) -> Memory:
    from shared.memory.cosmos.items import ContainerLocation
    from shared.memory.cosmos.store import open_cosmos

    settings = clients.settings
    location = ContainerLocation(
        endpoint, settings.azure_cosmos_database, settings.azure_cosmos_container
    )
    return open_cosmos(location, clients.identity, retention, settings.memory_seconds)


def _make_sqlite_memory(settings: Settings, name: str, retention: Retention) -> Memory:
    from shared.memory.sqlite.store import open_memory

    return open_memory(SHARED_FOLDER.parent / name, retention, settings.memory_seconds)


def _make_rag(settings: Settings, models: Router, retriever: Retriever) -> Rag:
    return Rag(
        LimitedRetriever(retriever),
        models,
        read_prompts(SHARED_FOLDER / "rag" / "prompts"),
        Overrides(top=settings.default_top, temperature=settings.default_temperature),
        settings.allow_client_prompts,
        rewrite_seconds=settings.answer_timeout_seconds / 4,
        thoughts=settings.thoughts == "on",
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


def _make_health(
    clients: Clients, models: Router, retriever: Retriever, **stores: Files | Memory | None
) -> Health:
    """Make the checks of `/health`, for the components in use.

    Only on a laptop it tells what the index holds: elsewhere anybody may ask.
    """
    model = models.default
    details = partial(_index_details, retriever) if clients.settings.on_laptop else None
    checks = {
        "model": HealthCheck(model.name, model.ready),
        "index": HealthCheck(retriever.name, retriever.ready, details),
    }
    checks |= {
        kind: HealthCheck(part.name, part.ready)
        for kind, part in stores.items()
        if part is not None
    }
    for provider in models.other_providers:
        other = provider.get_model(None)
        checks[f"model of {provider.name}"] = HealthCheck(other.name, other.ready)
    if name := clients.embedding_model:
        checks["vectors"] = HealthCheck(name, clients.check_embedding)
    return Health(checks, shows_causes=clients.settings.on_laptop)
