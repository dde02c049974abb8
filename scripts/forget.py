"""Deletes what is stored of a user.

These are conversations, with their turns and the feedback on them, and uploaded documents.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from shared.bootstrap.blob_uploads import make_blob_store
from shared.bootstrap.clients import Clients
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.bootstrap.memory import make_memory
from shared.bootstrap.uploads import uploads_folder
from shared.domain.errors import ChatError, NotFound
from shared.memory.base import Memory, PageRequest
from shared.settings import SHARED_FOLDER, Settings, SettingsError, read_settings
from shared.uploads.base import UploadLimits, Uploads
from shared.uploads.folder.reader import run_process
from shared.uploads.folder.store import FolderUploads

PAGE = PageRequest(0, 100)
NO_STORE = "No conversations are stored: set MEMORY_FILE in local.settings.json, or use --cosmos."
NOT_REMOVED = "The app no longer finds them, and removes their files at its next start."
REMOVED_SOON = "The app no longer finds them, and the reader of uploads removes their files."
NO_BLOBS = "--uploads needs the address of blobs, such as https://mine.blob.core.windows.net"
NO_LIMITS = UploadLimits(file_bytes=0, files=0, files_per_day=0)
COPIES = "Copies of answers have no owner: their users delete them by their ids."


def main(arguments: Sequence[str] | None = None, variables: Mapping[str, str] = os.environ) -> int:
    """Delete what is stored of a user, or count it. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.forget", description=__doc__)
    parser.add_argument("user", help="the object id in Entra ID; on a laptop: local")
    parser.add_argument("--yes", action="store_true", help="delete; without it they are counted")
    parser.add_argument("--cosmos", metavar="URL", help="the Azure Cosmos DB account of the app")
    parser.add_argument("--uploads", metavar="URL", help="the blobs of the app's uploads in Azure")
    options = parser.parse_args(arguments)
    try:
        environment = read_environment(variables)
        if options.cosmos:
            environment["AZURE_COSMOS_ENDPOINT"] = options.cosmos
        settings = read_settings(environment)
        settings = name_uploads(settings, options.uploads)
        return asyncio.run(run(settings, options.user, options.yes))
    except (SettingsError, UsageError) as error:
        print(error, file=sys.stderr)
        return 2
    except ChatError as error:
        print(f"{error.message} {error.cause or ''}".strip(), file=sys.stderr)
        print("When this is solved, run the command again: it continues.", file=sys.stderr)
        return 1


def name_uploads(settings: Settings, url: str | None) -> Settings:
    """Return settings that name the account with the blobs of uploads. Raises UsageError."""
    if url is None:
        return settings
    if not url.startswith("https://") or ".blob." not in url:
        raise UsageError(NO_BLOBS)
    queues = url.replace(".blob.", ".queue.", 1)
    names = {"azure_uploads_endpoint": url, "azure_uploads_queue_endpoint": queues}
    return settings.model_copy(update=names)


async def run(settings: Settings, user: str, deletes: bool) -> int:
    """Open the stores of these settings, and delete or count. Returns the exit status.

    Raises SettingsError, UsageError, ChatErrors.
    """
    async with AsyncExitStack() as stack:
        clients = Clients(settings)
        stack.push_async_callback(clients.close)
        memory = make_memory(clients)
        folder = uploads_folder(settings)
        counts = dict[str, int]()
        if memory is not None:
            stack.push_async_callback(memory.close)
            counts["conversations"] = await count_or_delete(memory, user, deletes)
        if settings.azure_uploads_endpoint:
            blobs = make_blob_store(clients, NO_LIMITS)
            stack.push_async_callback(blobs.close)
            counts["uploads"] = await count_or_delete_uploads(blobs, user, deletes)
            if deletes:
                print(REMOVED_SOON, file=sys.stderr)
        elif folder.is_dir():
            counts["uploads"] = await count_or_delete_folder(folder, user, deletes)
    if not counts:
        raise UsageError(NO_STORE)
    for kind, count in counts.items():
        print(f"{count} {kind} of {user} {'are deleted' if deletes else 'are stored'}.")
    print(COPIES if deletes else "To delete them, add --yes.")
    return 0


async def count_or_delete(memory: Memory, user: str, deletes: bool) -> int:
    """Count or delete a user's conversations. Returns their number. Raises ChatErrors."""
    return await (forget(memory, user) if deletes else count_conversations(memory, user))


async def count_or_delete_uploads(store: Uploads, user: str, deletes: bool) -> int:
    """Count or delete a user's uploads. Returns their number. Raises ChatErrors."""
    ids = await store.list_ids(user)
    for id in ids if deletes else ():
        with suppress(NotFound):  # the user deletes it at the same time
            await store.delete(user, id)
    return len(ids)


async def count_or_delete_folder(folder: Path, user: str, deletes: bool) -> int:
    """Do so for uploads in a folder, whose files are then removed. Raises ChatErrors."""
    store = FolderUploads(folder, NO_LIMITS, wake=lambda: None)
    count = await count_or_delete_uploads(store, user, deletes)
    if deletes and not await asyncio.to_thread(run_process, SHARED_FOLDER.parent, folder):
        print(NOT_REMOVED, file=sys.stderr)  # also if that of the app is at work
    return count


async def forget(memory: Memory, user: str) -> int:
    """Delete all conversations of a user. Returns their number. Raises ChatErrors."""
    count = 0
    while page := await memory.conversations.list(user, PAGE):
        for conversation in page:
            with suppress(NotFound):  # the user deletes it at the same time
                await memory.conversations.delete(user, conversation.id)
                count += 1
        print(f"{count} deleted", file=sys.stderr)
    return count


async def count_conversations(memory: Memory, user: str) -> int:
    """Return the number of a user's conversations. Raises ChatErrors."""
    count = 0
    while page := await memory.conversations.list(user, PageRequest(count, PAGE.size)):
        count += len(page)
    return count


if __name__ == "__main__":
    sys.exit(main())
