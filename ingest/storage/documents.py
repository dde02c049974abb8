"""Opens the documents of an address in Blob storage, with the rules of who may see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from azure.storage.filedatalake.aio import FileSystemClient
from tqdm import tqdm

from ingest import acl
from ingest.pipeline import AccessRules
from ingest.scan import Listing
from ingest.setup import IngestOptions
from ingest.storage.access_rules import AccessListReader
from ingest.storage.address import StorageAddress
from ingest.storage.blobs import BlobFile, BlobFolder
from ingest.storage_retry import make_retry_policy
from shared.bootstrap.clients import Clients
from shared.bootstrap.local_settings import UsageError
from shared.files.blobs import CONNECT_SECONDS, READ_SECONDS, make_container_client
from shared.settings import Settings

NO_LISTS = "{address}: --permissions needs an account with a hierarchical namespace."
UNUSED_LISTS = (
    "{address}: the account has access lists. Use --permissions to let only those find a document "
    "who may read it (make index ARGS=--permissions), or --no-rules to make all documents public."
)
OWN_CONTAINER = (
    "{address} is in the container of AZURE_STORAGE_CONTAINER, where the app keeps copies of "
    "indexed files: a run would delete documents. Index another container, or name another one "
    "there."
)
TWO_RULES = (
    f"--permissions contradicts {acl.ACL_FILE} in the folder: leave out --permissions, or remove "
    f"{acl.ACL_FILE} to let the access lists apply."
)


@asynccontextmanager
async def open_documents(
    settings: Settings, options: IngestOptions, address: StorageAddress
) -> AsyncIterator[tuple[Listing[BlobFile], AccessRules]]:
    """List the documents at an address, and read their rules. They can be read until the end.

    Raises UsageError, AclError, ChatError.
    """
    if is_own_container(settings, address):
        raise UsageError(OWN_CONTAINER.format(address=address))
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        copies = Path(stack.enter_context(TemporaryDirectory(prefix="documents-")))
        container = await stack.enter_async_context(
            make_container_client(
                address.endpoint,
                address.container,
                clients.identity,
                retry_policy=make_retry_policy(),
            )
        )
        folder = BlobFolder(address, container, copies)
        listing = await folder.list_files()
        if not listing.files:
            raise UsageError(f"{address} has no documents.")
        lists = await stack.enter_async_context(
            FileSystemClient(
                address.data_lake_endpoint,
                address.container,
                clients.identity,
                retry_policy=make_retry_policy(),
                connection_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
            )
        )
        reader = AccessListReader(lists, address.is_emulator)
        yield listing, await _read_rules(folder, reader, listing, options)


def is_own_container(settings: Settings, address: StorageAddress) -> bool:
    """Whether documents are in the container that the app keeps its copies of files in."""
    endpoint, container = settings.azure_storage_endpoint, settings.azure_storage_container
    if endpoint is None:
        return False
    own = StorageAddress(endpoint.rstrip("/").lower(), container, "")
    return (own.account, own.container) == (address.account, address.container)


async def _read_rules(
    folder: BlobFolder,
    reader: AccessListReader,
    listing: Listing[BlobFile],
    options: IngestOptions,
) -> AccessRules:
    has_file = acl.ACL_FILE in listing.acl_files
    await folder.check_folders_above()
    if has_file and (options.permissions or options.no_rules):
        raise acl.AclError(TWO_RULES if options.permissions else acl.CONTRADICTION)
    if options.no_rules:
        return acl.Acl()
    rules = acl.Acl() if options.permissions else await folder.read_rules(listing)
    if has_file:
        return rules
    if await reader.has_access_lists() != options.permissions:
        message = NO_LISTS if options.permissions else UNUSED_LISTS
        raise UsageError(message.format(address=folder.address))
    if not options.permissions:
        return rules
    names = [file.name for file in listing.files]
    with tqdm(desc="access lists", unit="list", disable=None, leave=False) as bar:
        return await reader.read_rules(folder.address.prefix, names, bar.update)
