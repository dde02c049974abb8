"""Makes the retriever."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shared.bootstrap.clients import Clients
from shared.bootstrap.factories import import_factory
from shared.domain.events import Source
from shared.models import builtin_embedding
from shared.retrieval.base import Retriever, missing_members
from shared.settings import SHARED_FOLDER, Settings, SettingsError, require_settings

if TYPE_CHECKING:
    from shared.retrieval.azure_search.knowledge_base.retriever import KnowledgeBaseRetriever
    from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource
    from shared.retrieval.azure_search.permissions import Permissions
    from shared.retrieval.azure_search.retriever import AzureSearchRetriever
    from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever

log = logging.getLogger("chat")

SAMPLE_INDEX = "samples"  # value of INDEX_FILE for the sample documents

UNRESTRICTED_INDEX = (
    "AZURE_SEARCH_FIELDS names no field with permissions, and sign-in is on: set "
    "AZURE_SEARCH_INDEX_PUBLIC to true if every caller may see every document"
)


TOKEN_WITHOUT_SIGN_IN = (
    "AZURE_SEARCH_PERMISSIONS=user-token needs sign-in: without it no request has a user's token"
)
TOKEN_AND_PUBLIC = (
    "AZURE_SEARCH_PERMISSIONS=user-token and AZURE_SEARCH_INDEX_PUBLIC contradict each other"
)
UNRESTRICTED_SOURCES = (
    "AZURE_SEARCH_KNOWLEDGE_SOURCES names a source that cannot be restricted to users, and sign-in "
    "is on: set AZURE_SEARCH_INDEX_PUBLIC to true if every caller may see all its documents"
)


def make_retriever(clients: Clients) -> Retriever:
    """Make the retriever of the first of these settings that has a value. Raises SettingsError."""
    settings = clients.settings
    if settings.retriever:
        return _make_custom_retriever(settings, settings.retriever)
    if settings.azure_search_knowledge_base:
        return make_knowledge_base_retriever(clients, settings.azure_search_knowledge_base)
    if settings.azure_search_endpoint:
        return _make_azure_search_retriever(clients)
    if settings.index_file:
        return _make_sqlite_retriever(clients)
    raise SettingsError(("RETRIEVER or AZURE_SEARCH_ENDPOINT is required",))


def _make_custom_retriever(settings: Settings, name: str) -> Retriever:
    """Make a retriever with the factory of RETRIEVER. Raises SettingsError."""
    retriever: Retriever = import_factory("RETRIEVER", name)(settings)
    if missing := missing_members(retriever):
        problem = f"RETRIEVER names a factory whose retriever has no {', '.join(missing)}"
        raise SettingsError((problem,))
    return retriever


def make_knowledge_base_retriever(clients: Clients, name: str) -> KnowledgeBaseRetriever:
    """Make the retriever of a knowledge base. Raises SettingsError."""
    from shared.retrieval.azure_search.knowledge_base.client import KnowledgeBase
    from shared.retrieval.azure_search.knowledge_base.planning import PlanningRetriever
    from shared.retrieval.azure_search.knowledge_base.retriever import KnowledgeBaseRetriever
    from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource

    retriever = _make_azure_search_retriever(clients)
    base = KnowledgeBase(retriever.index.client, retriever.index.endpoint, name)
    default = (KnowledgeSource(name=retriever.index.name),)
    settings = clients.settings
    sources = settings.azure_search_knowledge_sources or default
    _check_sources(settings, sources)
    if settings.azure_search_knowledge_effort in (None, "minimal"):
        return KnowledgeBaseRetriever(base, sources, retriever, settings.search_seconds)
    seconds = settings.rewrite_seconds + settings.search_seconds
    return PlanningRetriever(base, sources, retriever, seconds)


def _check_sources(settings: Settings, sources: Sequence[KnowledgeSource]) -> None:
    """Raise SettingsError for sources whose passages nothing restricts, beside sign-in."""
    by_token = settings.azure_search_permissions == "user-token"
    is_restricted = settings.website_auth_enabled and not settings.azure_search_index_public
    if is_restricted and not all(
        source.is_index or (by_token and source.has_permissions) for source in sources
    ):
        raise SettingsError((UNRESTRICTED_SOURCES,))


def _make_permissions(clients: Clients) -> Permissions:
    """Make what limits searches to what a user may see. Raises SettingsError."""
    from shared.retrieval.azure_search.permissions import FilterPermissions, TokenPermissions

    settings = clients.settings
    if settings.azure_search_permissions == "filter":
        return FilterPermissions()
    if not settings.website_auth_enabled:
        raise SettingsError((TOKEN_WITHOUT_SIGN_IN,))
    if settings.azure_search_index_public:
        raise SettingsError((TOKEN_AND_PUBLIC,))
    from shared.azure.on_behalf_of import TokenExchange
    from shared.azure.user_token import Registration, UserTokens

    names = require_settings(settings, "SIGN_IN_TENANT_ID", "SIGN_IN_CLIENT_ID")
    registration = Registration(*names)
    exchange = TokenExchange(clients.identity, registration, settings.search_seconds)
    return TokenPermissions(UserTokens(exchange, registration))


def _make_azure_search_retriever(clients: Clients) -> AzureSearchRetriever:
    from shared.retrieval.azure_search.client import make_index
    from shared.retrieval.azure_search.index_fields import IndexFields
    from shared.retrieval.azure_search.retriever import AzureSearchRetriever

    settings = clients.settings
    endpoint, index = require_settings(settings, "AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX")
    fields = IndexFields(**(settings.azure_search_fields or {}))
    is_open = not fields.has_access_control and not settings.azure_search_index_public
    if settings.website_auth_enabled and is_open:
        raise SettingsError((UNRESTRICTED_INDEX,))
    vectorizer, storage = settings.azure_search_vectorizer, settings.azure_storage_endpoint
    return AzureSearchRetriever(
        index=make_index(endpoint, index, clients.identity),
        fields=fields,
        seconds=settings.search_seconds,
        embed=None if vectorizer else clients.embed,
        vectorizer=vectorizer,
        semantic_configuration=settings.azure_search_semantic_configuration,
        fetch_image=clients.blob_files.read_image if storage else None,
        permissions=_make_permissions(clients),
    )


def _make_sqlite_retriever(clients: Clients) -> Retriever:
    """Open the index file, or else index the samples. Raises SettingsError."""
    from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages

    if clients.settings.embeddings == "builtin" and not builtin_embedding.is_available():
        log.warning("settings: EMBEDDINGS=builtin has no effect: %s", builtin_embedding.MISSING)
    name = clients.settings.index_file
    path, data = SHARED_FOLDER.parent / name, SHARED_FOLDER / "data"
    if name != SAMPLE_INDEX and path.is_file():
        return SqliteRetriever.open(path, make_embedding(clients))
    if name != SAMPLE_INDEX and "index_file" in clients.settings.model_fields_set:
        problem = "INDEX_FILE names a missing file: `make index DOCS=folder` creates it"
        raise SettingsError((problem,))
    passages = list(read_passages(data / "samples.jsonl"))
    if clients.uses_builtin_embedding:
        return index_with_vectors(passages, data / "documents")
    return SqliteRetriever(passages, documents=data / "documents")


def index_with_vectors(
    passages: Sequence[Source], documents: Path | None = None
) -> SqliteRetriever:
    """Index passages in memory, with vectors by the built-in embedding model."""
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    rows = builtin_embedding.encode([passage.content for passage in passages])
    vectors = dict(zip((passage.id for passage in passages), rows, strict=True))
    return SqliteRetriever(passages, _make_builtin_embedding(), documents, vectors)


def _make_builtin_embedding() -> Embedding:
    from shared.retrieval.sqlite.retriever import Embedding

    return Embedding(builtin_embedding.MODEL, builtin_embedding.embed, builtin_embedding.WEIGHT)


def make_embedding(clients: Clients) -> Embedding | None:
    """Return the embedding model of the settings, if they have one. Raises SettingsError."""
    from shared.retrieval.sqlite.retriever import Embedding

    if clients.uses_builtin_embedding:
        return _make_builtin_embedding()
    model, embed = clients.embedding_model, clients.embed
    return Embedding(model, embed) if model and embed else None
