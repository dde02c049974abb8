"""Builds the index writer and the enricher from the settings and the arguments of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from tqdm import tqdm

from ingest.acl import ACL_FILE, AclError
from ingest.enrich import Enricher
from ingest.targets.index_writer import IndexWriter
from shared import settings as configuration
from shared.bootstrap.clients import Clients
from shared.bootstrap.models import make_chat_model
from shared.bootstrap.search import SAMPLE_INDEX
from shared.domain.errors import ChatError
from shared.settings import SHARED_FOLDER, Settings, SettingsError

if TYPE_CHECKING:
    from ingest.storage.address import StorageAddress
    from ingest.targets.azure_search.index_update import IndexSpec
    from shared.retrieval.azure_search.index_fields import IndexFields

MISSING_RULES = (
    f"{ACL_FILE} is missing or restricts no file, and the index restricts files of this folder "
    "({number}, such as {name}): this run would make them public. "
    f"Put {ACL_FILE} with its rules back, or make these files public by --no-rules "
    "(make index ARGS=--no-rules)."
)
OTHER_FOLDER = (
    "{index} was made from {previous}: its remaining passages are found, but\n"
    "their files cannot be opened any more. --prune removes them."
)
INDEXER_WITHOUT_PERMISSIONS = (
    "--indexer cannot write the permissions that AZURE_SEARCH_PERMISSIONS=user-token needs"
)
OTHER_SCHEMA = (
    "AZURE_SEARCH_FIELDS is for an index made elsewhere, which is read and never written: name "
    "another AZURE_SEARCH_INDEX, and leave the fields out"
)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The arguments of the command line."""

    folder: Path | None  # has the documents
    blobs: StorageAddress | None = None  # has them in place of a folder
    prune: bool = False  # remove what is no longer in the folder
    # There is no acl.yaml on purpose: files that the index restricts become public
    no_rules: bool = False
    permissions: bool = False  # the access lists of the storage account are the rules
    indexer: bool = False
    max_megabytes: int = 32  # of a file
    seconds: float = 60  # to read a file
    embedding_model: str | None = None  # of the embedding deployment, where the names differ
    storage: str | None = None  # the storage account's resource id
    # For how many seconds refusals are retried, as new role assignments take minutes to act
    roles: float = 0

    @property
    def place(self) -> str | None:
        """The folder or the address of the documents; None if the arguments have neither."""
        if self.blobs:
            return str(self.blobs)
        return str(self.folder) if self.folder else None

    @property
    def root(self) -> Path | None:
        """The folder from which the app can serve the files."""
        return self.folder.resolve() if self.folder else None


@dataclass(frozen=True, slots=True)
class IngestSetup:
    """The parts of a run."""

    writer: IndexWriter
    enricher: Enricher
    description: str  # names the index and the models for the operator


@asynccontextmanager
async def open_setup(
    settings: Settings, options: IngestOptions, restricted: bool
) -> AsyncIterator[IngestSetup]:
    """Build the index writer and the enricher, and close them. Raises SettingsError, ChatError.

    `restricted` says that the folder has access rules.
    """
    if options.embedding_model and not settings.azure_search_vectorizer:
        raise SettingsError(("--embedding-model needs --indexer or AZURE_SEARCH_VECTORIZER",))
    if settings.azure_search_endpoint:
        read_index_fields(settings)  # refused before a model is called
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        enricher = build_enricher(clients, read_prompt())
        dimensions = await get_embedding_dimensions(settings)
        writer = build_writer(clients, options, dimensions, restricted)
        stack.push_async_callback(writer.close)
        warn_about_other_folder(settings, options)
        vectors = f"vectors by {clients.embedding_model}" if dimensions else "by words alone"
        description = f"{describe_index(settings)}, {vectors}"
        if enricher.vision:
            description += f", images described by {enricher.vision.name}"
        yield IngestSetup(writer, enricher, description)


def read_prompt() -> str:
    """Return the system message for descriptions of images."""
    return (SHARED_FOLDER / "rag" / "prompts" / "describe.txt").read_text("utf-8").strip()


def build_enricher(clients: Clients, prompt: str) -> Enricher:
    """Build the enricher; it describes images by `prompt` where the chat model accepts images."""
    model, settings = make_chat_model(clients), clients.settings
    vision = model if model and "images" not in model.limits else None
    inputs = [clients.embedding_model or "", vision.name if vision else ""]
    if vision:
        inputs.append(sha256(prompt.encode()).hexdigest())
    if settings.azure_search_endpoint:
        inputs.append(json.dumps(settings.azure_search_fields or {}, sort_keys=True))
        if settings.azure_storage_endpoint:  # files are uploaded again when the container changes
            inputs += [settings.azure_storage_endpoint, settings.azure_storage_container]
    return Enricher(clients.embed, vision, prompt, fingerprint="\0".join(inputs))


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
    azure = f"Azure AI Search, index {settings.azure_search_index}"
    return azure if settings.azure_search_endpoint else settings.index_file


def build_writer(
    clients: Clients, options: IngestOptions, dimensions: int = 0, restricted: bool = False
) -> IndexWriter:
    """Build the writer of the index that the settings name. Raises SettingsError.

    `dimensions` is 0 without vectors; `restricted` says that the folder has access rules.
    """
    if clients.settings.azure_search_endpoint:
        return build_azure_search_writer(clients, options, dimensions, restricted)
    if clients.settings.index_file:
        return build_sqlite_writer(clients, options, dimensions)
    raise SettingsError(("AZURE_SEARCH_ENDPOINT is required",))


def build_sqlite_writer(clients: Clients, options: IngestOptions, dimensions: int) -> IndexWriter:
    """Build the writer of the embedded index. Raises SettingsError."""
    from ingest.targets.sqlite.writer import SqliteIndexWriter
    from shared.retrieval.sqlite.schema import IndexMeta

    if clients.settings.index_file == SAMPLE_INDEX:
        raise SettingsError(("INDEX_FILE must name a file to write: it says `samples`",))
    model = clients.embedding_model if dimensions else None
    index = SHARED_FOLDER.parent / clients.settings.index_file
    return SqliteIndexWriter(index, IndexMeta(options.root, model, dimensions))


def warn_about_other_folder(settings: Settings, options: IngestOptions) -> None:
    """Warn where the index has documents of another folder: their files cannot be opened."""
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    index = SHARED_FOLDER.parent / settings.index_file
    if settings.azure_search_endpoint or options.prune or not index.is_file():
        return
    with suppress(ChatError):  # an index that cannot be read is replaced
        previous = SqliteRetriever(index).documents
        if previous and previous != options.root:
            tqdm.write(OTHER_FOLDER.format(index=index.name, previous=previous))


def find_indexed_folder(settings: Settings) -> Path | None:
    """Return the folder that the embedded index was made from; None without such an index."""
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    index = SHARED_FOLDER.parent / settings.index_file
    if settings.azure_search_endpoint or not index.is_file():
        return None
    with suppress(ChatError):  # an index that cannot be read
        return SqliteRetriever(index).documents
    return None


def build_azure_search_writer(
    clients: Clients, options: IngestOptions, dimensions: int, restricted: bool
) -> IndexWriter:
    """Build the writer of Azure AI Search; files go to Blob storage where that is set.

    Raises SettingsError.
    """
    from ingest.targets.azure_search import writer
    from ingest.targets.azure_search.blob_upload import make_uploader
    from ingest.targets.azure_search.retry import RetryPolicy
    from shared.retrieval.azure_search.client import API_VERSION, PERMISSIONS_API_VERSION

    settings = clients.settings
    index_spec = build_index_spec(settings, dimensions, options)
    retry_policy = RetryPolicy(role_wait=options.roles, notify=tqdm.write)
    (endpoint,) = configuration.require_settings(settings, "AZURE_SEARCH_ENDPOINT")
    version = PERMISSIONS_API_VERSION if index_spec.checks_permissions else API_VERSION
    search = writer.make_clients(endpoint, index_spec.index, clients.identity, version)
    make_writer = partial(
        writer.AzureSearchWriter, search, index_spec, retry_policy, restricted=restricted
    )
    if settings.azure_storage_endpoint is None:
        return make_writer()
    files = make_uploader(
        settings.azure_storage_endpoint, settings.azure_storage_container, clients.identity
    )
    return writer.IndexedFiles(make_writer(files.put_image), files)


def read_index_fields(settings: Settings) -> IndexFields:
    """Return the fields of the index to write.

    Raises SettingsError where AZURE_SEARCH_FIELDS describes an index of other origin.
    """
    from shared.retrieval.azure_search.index_fields import IndexFields

    fields = IndexFields(**(settings.azure_search_fields or {}))
    if not fields.is_own_schema:
        raise SettingsError((OTHER_SCHEMA,))
    return fields


def build_index_spec(settings: Settings, dimensions: int, options: IngestOptions) -> IndexSpec:
    """Build the specification of the index in Azure AI Search. Raises SettingsError."""
    from ingest.targets.azure_search.index_update import IndexSpec, Vectorizer

    fields = read_index_fields(settings)
    (index,) = configuration.require_settings(settings, "AZURE_SEARCH_INDEX")
    endpoint, deployment = (
        settings.azure_openai_endpoint,
        settings.azure_openai_embedding_deployment,
    )
    vectorizer = None
    if settings.azure_search_vectorizer and endpoint and deployment:
        vectorizer = Vectorizer(endpoint, deployment, options.embedding_model or deployment)
    by_token = settings.azure_search_permissions == "user-token"
    if by_token and options.indexer:
        raise SettingsError((INDEXER_WITHOUT_PERMISSIONS,))
    return IndexSpec(index, fields, dimensions or None, vectorizer, checks_permissions=by_token)


async def check_restricted_files(
    settings: Settings, options: IngestOptions, names: Set[str]
) -> None:
    """Raise AclError where the index restricts files of `names`, unless options allow it.

    Changes nothing and calls no model. Also raises SettingsError, DocumentRejected.
    """
    if options.no_rules or not names:
        return
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        writer = build_writer(clients, options)
        stack.push_async_callback(writer.close)
        restricted = {normalize("NFC", name) for name in await writer.restricted_files()}
    if files := sorted(names & restricted):
        raise AclError(MISSING_RULES.format(number=len(files), name=files[0]))
