"""Deletes what is stored of a user: conversations, with their turns and the feedback on them."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress

from shared.bootstrap.clients import Clients
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.bootstrap.memory import make_memory
from shared.domain.errors import ChatError, NotFound
from shared.memory.base import Memory, PageRequest
from shared.settings import SettingsError, read_settings

PAGE = PageRequest(0, 100)
NO_STORE = "No conversations are stored: set MEMORY_FILE in local.settings.json, or use --cosmos."
COPIES = "Copies of answers have no owner: their users delete them by their ids."


def main(arguments: Sequence[str] | None = None, variables: Mapping[str, str] = os.environ) -> int:
    """Delete the conversations of a user, or count them. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.forget", description=__doc__)
    parser.add_argument("user", help="the object id in Entra ID; on a laptop: local")
    parser.add_argument("--yes", action="store_true", help="delete; without it they are counted")
    parser.add_argument("--cosmos", metavar="URL", help="the Azure Cosmos DB account of the app")
    options = parser.parse_args(arguments)
    try:
        environment = read_environment(variables)
        if options.cosmos:
            environment["AZURE_COSMOS_ENDPOINT"] = options.cosmos
        return asyncio.run(run(environment, options.user, options.yes))
    except (SettingsError, UsageError) as error:
        print(error, file=sys.stderr)
        return 2
    except ChatError as error:
        print(f"{error.message} {error.cause or ''}".strip(), file=sys.stderr)
        print("When this is solved, run the command again: it continues.", file=sys.stderr)
        return 1


async def run(environment: Mapping[str, str], user: str, deletes: bool) -> int:
    """Open the store of these settings, and delete or count. Returns the exit status.

    Raises SettingsError, UsageError, ChatErrors.
    """
    async with AsyncExitStack() as stack:
        clients = Clients(read_settings(environment))
        stack.push_async_callback(clients.close)
        memory = make_memory(clients)
        if memory is None:
            raise UsageError(NO_STORE)
        stack.push_async_callback(memory.close)
        count = await (forget(memory, user) if deletes else count_conversations(memory, user))
    print(f"{count} conversations of {user} {'are deleted' if deletes else 'are stored'}.")
    print(COPIES if deletes else "To delete them, add --yes.")
    return 0


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
