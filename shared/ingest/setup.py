"""Builds the index writer and the enricher that the settings ask for."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from shared import settings as configuration
from shared.bootstrap.build import SAMPLE_INDEX
from shared.bootstrap.clients import Clients
from shared.bootstrap.model_factory import make_chat_model
from shared.chat.errors import ChatError
from shared.ingest.acl import ACL_FILE, Acl, AclError, path_matches
from shared.ingest.enrich import Enricher, ImageDescriber
from shared.ingest.scan import Listing
from shared.ingest.targets.index_writer import IndexWriter
from shared.settings import SHARED_FOLDER, Settings, SettingsError

if TYPE_CHECKING:
    from shared.ingest.targets.azure_search.index_update import IndexSpec

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
    """The parts of a run; `description` names the index and the models for the operator."""

    writer: IndexWriter
    enricher: Enricher
    description: str
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """What an index writer is built from.

    `dimensions` is 0 without vectors; `restricted` says that the folder has access rules.
    """

    folder: Path
    options: IngestOptions
    notify: Notify
    dimensions: int = 0
    restricted: bool = False


async def build_setup(
    settings: Settings, folder: Path, options: IngestOptions, restricted: bool, notify: Notify
) -> IngestSetup:
    """Build the index writer and the enricher. Raises SettingsError, ChatError.

    `restricted` says that the folder has access rules.
    """
    if options.embedding_model and not settings.search_vectorizer:
        raise SettingsError(("--embedding-model needs --indexer or AZURE_SEARCH_VECTORIZER",))
    check_search_fields(settings)
    prompt = (SHARED_FOLDER / "rag" / "prompts" / "describe.txt").read_text("utf-8").strip()
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        enricher = build_enricher(clients, prompt)
        dimensions = await get_embedding_dimensions(settings)
        request = WriterOptions(folder, options, notify, dimensions, restricted)
        writer, description = build_writer(clients, request), describe_index(settings)
        warn_about_other_folder(settings, folder, options.prune, notify)
        stack.push_async_callback(writer.close)
        vectors = f"vectors by {clients.embedding_model}" if dimensions else "by words alone"
        description += f", {vectors}"
        if enricher.describe:
            description += f", pictures described by {enricher.describe.model.name}"
        close = stack.pop_all().aclose
    return IngestSetup(writer, enricher, description, close)


def build_enricher(clients: Clients, prompt: str) -> Enricher:
    """Build the enricher; it describes images by `prompt` where the chat model accepts images."""
    model = make_chat_model(clients)
    describe = ImageDescriber(model, prompt) if model and "images" not in model.limits else None
    names = (clients.embedding_model or "", describe.model.name if describe else "")
    inputs = (*names, *_prompt_hash(describe), *_storage_location(clients.settings))
    return Enricher(clients.embed, describe, fingerprint="\0".join(inputs))


def _prompt_hash(describe: ImageDescriber | None) -> tuple[str, ...]:
    """A hash of the prompt, as descriptions depend on it; empty without a describer."""
    return (sha256(describe.prompt.encode()).hexdigest(),) if describe else ()


def _storage_location(settings: Settings) -> tuple[str, ...]:
    """The fields and the container in Azure: files are uploaded again when these change."""
    if settings.search_endpoint is None:
        return ()
    fields = json.dumps(settings.search_fields or {}, sort_keys=True)
    storage = settings.storage_endpoint
    return (fields, storage, settings.storage_container) if storage else (fields,)


async def get_embedding_dimensions(settings: Settings) -> int:
    """Embed a text to get the size of a vector; 0 without an embedding model.

    The clients do not retry, so that a wrong setting is reported at once. Raises SettingsError,
    ChatError.
    """
    clients = Clients(settings)
    if clients.embed is None:
        return 0
    try:
        (vector,) = await clients.embed(["How many numbers has this?"])
        return len(vector)
    except ChatError as failure:
        if failure.message != failure.default:  # the message is specific
            raise
        reason = f"{clients.embedding_model} gives no vectors ({failure.cause or failure}): "
        raise SettingsError(
            (f"{reason}does it run at this endpoint, and may you use it?",)
        ) from failure
    finally:
        await clients.close(identity=False)


def describe_index(settings: Settings) -> str:
    """The name of the index, for the first line of a run."""
    if settings.search_endpoint:
        return f"Azure AI Search, index {settings.search_index}"
    return settings.index_file


def build_writer(clients: Clients, request: WriterOptions) -> IndexWriter:
    """Build the writer of the index that the settings name. Raises SettingsError."""
    name = configuration.first_setting(clients.settings, WRITERS)
    if name is None:
        raise SettingsError((f"{' or '.join(WRITERS)} is required",))
    return WRITERS[name](clients, request)


def build_sqlite_writer(clients: Clients, request: WriterOptions) -> IndexWriter:
    """Build the writer of the embedded index. Raises SettingsError."""
    from shared.ingest.targets.sqlite.writer import SqliteIndexWriter
    from shared.retrieval.sqlite.schema import IndexMeta

    if clients.settings.index_file == SAMPLE_INDEX:
        raise SettingsError(("INDEX_FILE must name a file to write: it says `samples`",))
    model = clients.embedding_model if request.dimensions else None
    index = SHARED_FOLDER.parent / clients.settings.index_file
    return SqliteIndexWriter(index, IndexMeta(request.folder.resolve(), model, request.dimensions))


def warn_about_other_folder(settings: Settings, folder: Path, prune: bool, notify: Notify) -> None:
    """Notify where the index has documents of another folder: their files cannot be opened."""
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    index = SHARED_FOLDER.parent / settings.index_file
    if settings.search_endpoint or prune or not index.is_file():
        return
    with suppress(ChatError):  # an index that cannot be read is replaced
        previous = SqliteRetriever(index).documents
        if previous and previous != folder.resolve():
            notify(f"{index.name} was made from {previous}: its remaining passages are found, but")
            notify("their files cannot be opened any more. --prune removes them.")


def build_azure_search_writer(clients: Clients, request: WriterOptions) -> IndexWriter:
    """Build the writer of Azure AI Search; files go to Blob storage where that is set."""
    from shared.ingest.targets.azure_search.retry import RetryPolicy
    from shared.ingest.targets.azure_search.writer import AzureSearchWriter, make_clients

    settings = clients.settings
    names = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX")
    endpoint, index = configuration.require_settings(settings, *names)
    search = make_clients(endpoint, index, clients.identity)
    index_spec = build_index_spec(settings, request.dimensions, request.options)
    make_writer = partial(AzureSearchWriter, search, index_spec, restricted=request.restricted)
    retry_policy = RetryPolicy(role_wait=request.options.role_wait, notify=request.notify)
    if settings.storage_endpoint is None:
        return make_writer(retry_policy)
    from shared.ingest.targets.azure_search.blob_upload import make_uploader
    from shared.ingest.targets.azure_search.writer import IndexedFiles

    files = make_uploader(settings.storage_endpoint, settings.storage_container, clients.identity)
    return IndexedFiles(make_writer(retry_policy, files.put_image), files)


def check_search_fields(settings: Settings) -> None:
    """Raise SettingsError where AZURE_SEARCH_FIELDS describes an index of other origin."""
    from shared.retrieval.azure_search.field_mapping import IndexFields

    if settings.search_endpoint and not IndexFields(**(settings.search_fields or {})).is_own_schema:
        raise SettingsError(
            (
                "AZURE_SEARCH_FIELDS is for an index made elsewhere, which is read and never "
                "written: name another AZURE_SEARCH_INDEX, and leave the fields out",
            )
        )


def build_index_spec(settings: Settings, dimensions: int, options: IngestOptions) -> IndexSpec:
    """Build the specification of the index in Azure AI Search."""
    from shared.ingest.targets.azure_search.index_update import IndexSpec, Vectorizer
    from shared.retrieval.azure_search.field_mapping import IndexFields

    endpoint, deployment = settings.azure_openai_endpoint, settings.azure_openai_embedding
    vectorizer = None
    if settings.search_vectorizer and endpoint and deployment:
        vectorizer = Vectorizer(endpoint, deployment, options.embedding_model or deployment)
    (index,) = configuration.require_settings(settings, "AZURE_SEARCH_INDEX")
    fields = IndexFields(**(settings.search_fields or {}))
    return IndexSpec(index, fields, dimensions or None, vectorizer)


# The index writers: the first one whose setting has a value is built.
WRITERS: Mapping[str, Callable[[Clients, WriterOptions], IndexWriter]] = {
    "AZURE_SEARCH_ENDPOINT": build_azure_search_writer,
    "INDEX_FILE": build_sqlite_writer,
}


MISSING_RULES = (
    "{rules} is missing or restricts no file, and the index restricts files of this folder "
    "({number}, such as {name}): this run would make them public. Put {rules} with its rules "
    "back, or make these files public by --no-rules (make index ARGS=--no-rules)."
)
CONTRADICTION = (
    "--no-rules contradicts {rules} in the folder: leave out --no-rules, or remove {rules} to make "
    "its files public."
)


def check_no_rules(folder: Path) -> None:
    """Raise AclError where a folder has rules, as --no-rules states that it has none."""
    if os.path.lexists(folder / ACL_FILE):
        raise AclError(CONTRADICTION.format(rules=ACL_FILE))


def public_by_default(listing: Listing, rules: Acl) -> set[str]:
    """The documents that no rule matches, in a folder whose rules restrict no file.

    Empty where a rule restricts a file: then the other documents are public on purpose, as are
    those that an entry with empty lists matches.
    """
    if any(access.oids or access.groups for _, access in rules.rules):
        return set()
    names = (normalize("NFC", file.name) for file in listing.files)
    return {name for name in names if not any(path_matches(path, name) for path, _ in rules.rules)}


async def check_restricted_files(
    settings: Settings, folder: Path, options: IngestOptions, names: Set[str], notify: Notify
) -> None:
    """Raise AclError where the index restricts files of `names`, unless options allow it.

    Changes nothing and calls no model. Also raises SettingsError, DocumentRejected.
    """
    if options.no_rules or not names:
        return
    restricted = await _restricted_files(settings, folder, options, notify)
    if files := sorted(names & restricted):
        raise AclError(MISSING_RULES.format(rules=ACL_FILE, number=len(files), name=files[0]))


async def _restricted_files(
    settings: Settings, folder: Path, options: IngestOptions, notify: Notify
) -> set[str]:
    check_search_fields(settings)
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        writer = build_writer(clients, WriterOptions(folder, options, notify))
        stack.push_async_callback(writer.close)
        return {normalize("NFC", name) for name in await writer.restricted_files()}
