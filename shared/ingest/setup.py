"""Which index is filled, and by which models? What the settings ask for, made for a run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from shared import settings as configuration
from shared.bootstrap.build import SAMPLE_INDEX
from shared.bootstrap.clients import Clients
from shared.bootstrap.model_factory import make_chat_model
from shared.chat.errors import ChatError
from shared.ingest.enrich import Enricher, ImageDescriber
from shared.ingest.targets.index_writer import IndexWriter
from shared.ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.retrieval.sqlite.schema import IndexMeta
from shared.settings import SHARED_FOLDER, Settings, SettingsError

if TYPE_CHECKING:
    from shared.ingest.targets.azure_search.index_definition import IndexSpec

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The options of the command line.

    `prune` removes what is no longer in the folder. `no_rules` confirms that the folder has no
    acl.yaml on purpose: files that the index restricts become public. `max_megabytes` limits a
    file's size. `embedding_model` is the model of the embedding deployment, where the names differ.
    `storage_id` is the storage account's resource id. `role_wait` is for how many seconds refusals
    are retried, as new role assignments take minutes to act.
    """

    prune: bool = False
    no_rules: bool = False
    indexer: bool = False
    max_megabytes: int = 32
    embedding_model: str | None = None
    storage_id: str | None = None
    role_wait: float = 0


@dataclass(frozen=True, slots=True)
class IngestSetup:
    """What a run works with; `description` is what it tells of them before it begins."""

    writer: IndexWriter
    enricher: Enricher
    description: str
    close: Callable[[], Awaitable[None]]


async def build_setup(
    settings: Settings, folder: Path, options: IngestOptions, restricted: bool, say: Notify
) -> IngestSetup:
    """The index and the models that the settings ask for. Raises SettingsError, ChatError.

    `restricted` is whether the folder has rules of who may see what.
    """
    if options.embedding_model and not settings.search_vectorizer:
        raise SettingsError(("--embedding-model needs --indexer or AZURE_SEARCH_VECTORIZER",))
    check_search_fields(settings)
    words = (SHARED_FOLDER / "rag" / "prompts" / "describe.txt").read_text("utf-8").strip()
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        enrich = build_enricher(clients, words)
        dimensions = await get_embedding_dimensions(settings)
        if settings.search_endpoint:
            target = build_azure_search_writer(clients, dimensions, options, restricted, say)
            told = f"Azure AI Search, index {settings.search_index}"
        else:
            target, told = build_sqlite_writer(clients, folder, dimensions), settings.index_file
            warn_about_other_folder(SHARED_FOLDER.parent / told, folder, options.prune, say)
        stack.push_async_callback(target.close)
        told += f", vectors by {clients.embedding_model}" if dimensions else ", by words alone"
        if enrich.describe:
            told += f", pictures described by {enrich.describe.model.name}"
        close = stack.pop_all().aclose
    return IngestSetup(target, enrich, told, close)


def build_enricher(clients: Clients, words: str) -> Enricher:
    """What models add: vectors, and descriptions, asked by `words`, where the chat's model sees."""
    model = make_chat_model(clients)
    describe = ImageDescriber(model, words) if model and "images" not in model.limits else None
    names = (clients.embedding_model or "", describe.model.name if describe else "")
    made_with = (*names, *_prompt_hash(describe), *_storage_location(clients.settings))
    return Enricher(clients.embed, describe, fingerprint="\0".join(made_with))


def _prompt_hash(describe: ImageDescriber | None) -> tuple[str, ...]:
    """By which words pictures are described: with others the descriptions are other ones."""
    return (sha256(describe.prompt.encode()).hexdigest(),) if describe else ()


def _storage_location(settings: Settings) -> tuple[str, ...]:
    """Where passages and files go in Azure: what lies elsewhere has to be put again."""
    if settings.search_endpoint is None:
        return ()
    fields = json.dumps(settings.search_fields or {}, sort_keys=True)
    storage = settings.storage_endpoint
    return (fields, storage, settings.storage_container) if storage else (fields,)


async def get_embedding_dimensions(settings: Settings) -> int:
    """How many numbers a vector has; 0 without an embedding model. Raises SettingsError, ChatError.

    By clients that do not wait: what is set up wrong is told at once.
    """
    clients = Clients(settings)
    if clients.embed is None:
        return 0
    try:
        (vector,) = await clients.embed(["How many numbers has this?"])
        return len(vector)
    except ChatError as failure:
        if failure.message != failure.default:  # it says what to do
            raise
        said = f"{clients.embedding_model} gives no vectors ({failure.cause or failure}): "
        raise SettingsError(
            (f"{said}does it run at this endpoint, and may you use it?",)
        ) from failure
    finally:
        await clients.close(identity=False)


def build_sqlite_writer(clients: Clients, folder: Path, dimensions: int) -> IndexWriter:
    """The index in a file beside the app. Raises SettingsError."""
    if clients.settings.index_file == SAMPLE_INDEX:
        raise SettingsError(("INDEX_FILE must name a file to write: it says `samples`",))
    model = clients.embedding_model if dimensions else None
    index = SHARED_FOLDER.parent / clients.settings.index_file
    return SqliteIndexWriter(index, IndexMeta(folder.resolve(), model, dimensions))


def warn_about_other_folder(index: Path, folder: Path, prune: bool, say: Notify) -> None:
    """Say so where an index holds another folder's documents: their files cannot be opened."""
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    if prune or not index.is_file():
        return
    with suppress(ChatError):  # one that cannot be read is made anew
        before = SqliteRetriever(index).documents
        if before and before != folder.resolve():
            say(f"{index.name} was made from {before}: what is left of it can be found, and its")
            say("files cannot be opened any more. --prune takes it out.")


def build_azure_search_writer(
    clients: Clients, dimensions: int, options: IngestOptions, restricted: bool, say: Notify
) -> IndexWriter:
    """The index in Azure AI Search, its files in Blob storage where that is set."""
    from shared.ingest.targets.azure_search.retry import RetryPolicy
    from shared.ingest.targets.azure_search.search_clients import make_clients
    from shared.ingest.targets.azure_search.writer import AzureSearchWriter

    settings = clients.settings
    names = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX")
    endpoint, index = configuration.require_settings(settings, *names)
    search = make_clients(endpoint, index, clients.identity)
    wanted = build_index_spec(settings, dimensions, options)
    fill = partial(AzureSearchWriter, search, wanted, restricted=restricted)
    patience = RetryPolicy(role_wait=options.role_wait, notify=say)
    if settings.storage_endpoint is None:
        return fill(patience)
    from shared.ingest.targets.blob_upload import make_uploader
    from shared.ingest.targets.indexed_files import IndexedFiles

    files = make_uploader(settings.storage_endpoint, settings.storage_container, clients.identity)
    return IndexedFiles(fill(patience, files.put_image), files)


def check_search_fields(settings: Settings) -> None:
    """Raise SettingsError where the settings are those of an index that is not ours to write."""
    from shared.retrieval.azure_search.field_mapping import IndexFields

    if settings.search_endpoint and not IndexFields(**(settings.search_fields or {})).is_own_schema:
        raise SettingsError(
            (
                "AZURE_SEARCH_FIELDS is for an index made elsewhere, which is read and never "
                "written: name another AZURE_SEARCH_INDEX, and leave the fields out",
            )
        )


def build_index_spec(settings: Settings, dimensions: int, options: IngestOptions) -> IndexSpec:
    """What the index in Azure AI Search is like."""
    from shared.ingest.targets.azure_search.index_definition import IndexSpec, Vectorizer
    from shared.retrieval.azure_search.field_mapping import IndexFields

    endpoint, deployment = settings.azure_openai_endpoint, settings.azure_openai_embedding
    vectorizer = None
    if settings.search_vectorizer and endpoint and deployment:
        vectorizer = Vectorizer(endpoint, deployment, options.embedding_model or deployment)
    (index,) = configuration.require_settings(settings, "AZURE_SEARCH_INDEX")
    fields = IndexFields(**(settings.search_fields or {}))
    return IndexSpec(index, fields, dimensions or None, vectorizer)
