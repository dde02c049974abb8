"""A store of conversations in a SQLite file, which workers of one machine may share."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

from shared.chat.errors import ChatError
from shared.memory.base import (
    UNLIMITED,
    Clock,
    Conversation,
    Definition,
    IdGenerator,
    Interaction,
    Memory,
    PageRequest,
    Retention,
    TooManyConversations,
    Turn,
    conversation_not_found,
    interaction_not_found,
)
from shared.memory.sqlite.connection import MemoryFile

EXPIRED_BATCH_SIZE = 100  # expired conversations that are deleted with each new one
INTERACTION_COLUMNS = """i.id, i.conversation, i.created,
    i.input, i.prompt_template, i.response, i.origin, i.additional_info"""
# A condition: of an owner, and not expired.
UNEXPIRED = "c.owner = ? AND (c.expires IS NULL OR c.expires > ?)"


def open_memory(
    path: Path,
    retention: Retention = UNLIMITED,
    seconds: float = 10,
    now: Clock = time.time,
) -> Memory:
    """Return the store in a file, which is created at the first call. Each may take `seconds`."""
    file, ids = MemoryFile(path, now, seconds), IdGenerator(now)
    return Memory(
        name="SQLite",
        conversations=SqliteConversations(file, ids, retention),
        interactions=SqliteInteractions(file, ids),
        pipelines=SqlitePipelines(file),
        ready=partial(file.run, _check_table),
        close=file.close,
    )


@dataclass(frozen=True, slots=True)
class SqliteConversations:
    """The Conversations of the store."""

    file: MemoryFile
    ids: IdGenerator
    retention: Retention

    async def create(self, owner: str, name: str) -> Conversation:
        """Create a conversation, and delete some expired ones."""
        new, now = self.ids.next(), self.file.now()
        seconds, limit = self.retention.seconds, self.retention.max_conversations
        expires = None if seconds is None else now + seconds

        def work(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")  # no other is created after the count
            if limit is not None and _is_full(owner, now, limit, connection):
                raise TooManyConversations(limit)
            row = (new.id, owner, name, new.created, expires)
            connection.execute("INSERT INTO conversation VALUES (?, ?, ?, ?, ?)", row)
            old = "SELECT id FROM conversation WHERE expires <= ? LIMIT ?"
            gone = connection.execute(
                f"DELETE FROM conversation WHERE id IN ({old})", (now, EXPIRED_BATCH_SIZE)
            )
            return gone.rowcount

        if await self.file.run(work):
            await self._checkpoint()
        return Conversation(new.id, name, new.created)

    async def get(self, owner: str, conversation: str) -> Conversation:
        """The one with that id. Raises NotFound."""
        return await self.file.run(
            partial(_read_conversation, owner, self.file.now(), conversation)
        )

    async def list(self, owner: str, page: PageRequest) -> tuple[Conversation, ...]:
        """Return a page of an owner's conversations, the newest first."""
        query = f"""SELECT c.id, c.name, c.created FROM conversation c WHERE {UNEXPIRED}
            ORDER BY c.id DESC LIMIT ? OFFSET ?"""
        values = (owner, self.file.now(), page.size, page.start)
        rows = await self.file.run(lambda connection: connection.execute(query, values).fetchall())
        return tuple(Conversation(*row) for row in rows)

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        """Rename a conversation. Raises NotFound."""
        now = self.file.now()

        def work(connection: sqlite3.Connection) -> None:
            _read_conversation(owner, now, conversation, connection)
            row = (name, conversation)
            connection.execute("UPDATE conversation SET name = ? WHERE id = ?", row)

        await self.file.run(work)

    async def delete(self, owner: str, conversation: str) -> None:
        """Delete a conversation with its interactions. Raises NotFound."""
        now = self.file.now()

        def work(connection: sqlite3.Connection) -> None:
            _read_conversation(owner, now, conversation, connection)
            connection.execute("DELETE FROM conversation WHERE id = ?", (conversation,))

        await self.file.run(work)
        await self._checkpoint()

    async def _checkpoint(self) -> None:
        """Checkpoint the file. If it is busy, the next deletion does it."""
        with suppress(ChatError):
            await self.file.checkpoint()


@dataclass(frozen=True, slots=True)
class SqliteInteractions:
    """The Interactions of the store."""

    file: MemoryFile
    ids: IdGenerator

    async def add(self, owner: str, conversation: str, turn: Turn) -> Interaction:
        """Append a turn to a conversation. Raises NotFound if the conversation is missing."""
        new, now = self.ids.next(), self.file.now()
        row = (new.id, owner, conversation, new.created, *astuple(turn))

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")  # the conversation cannot be deleted meanwhile
            _read_conversation(owner, now, conversation, connection)
            connection.execute("INSERT INTO interaction VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

        await self.file.run(work)
        return Interaction(new.id, conversation, new.created, turn)

    async def get(self, owner: str, interaction: str) -> Interaction:
        """The one with that id. Raises NotFound."""
        return await self.file.run(partial(_read_interaction, owner, self.file.now(), interaction))

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        """Return a page of a conversation. Raises NotFound."""
        order, now = ("DESC" if newest_first else "ASC"), self.file.now()
        query = f"""SELECT {INTERACTION_COLUMNS} FROM interaction i WHERE i.conversation = ?
            ORDER BY i.id {order} LIMIT ? OFFSET ?"""

        def work(connection: sqlite3.Connection) -> tuple[Interaction, ...]:
            _read_conversation(owner, now, conversation, connection)
            rows = connection.execute(query, (conversation, page.size, page.start))
            return tuple(map(_to_interaction, rows))

        return await self.file.run(work)

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        """Replace the additional information of an interaction. Raises NotFound."""
        now, row = self.file.now(), (additional_info, interaction)

        def work(connection: sqlite3.Connection) -> None:
            _read_interaction(owner, now, interaction, connection)
            connection.execute("UPDATE interaction SET additional_info = ? WHERE id = ?", row)

        await self.file.run(work)


@dataclass(frozen=True, slots=True)
class SqlitePipelines:
    """The Pipelines of the store."""

    file: MemoryFile

    async def put(self, name: str, definition: Definition) -> None:
        """Create or replace a pipeline."""
        row = (name, json.dumps(dict(definition)))
        statement = "INSERT OR REPLACE INTO pipeline VALUES (?, ?)"
        await self.file.run(lambda connection: connection.execute(statement, row))

    async def get(self, name: str) -> Definition | None:
        """Return the pipeline of that name; None if there is none."""
        query = "SELECT definition FROM pipeline WHERE name = ?"
        row = await self.file.run(lambda connection: connection.execute(query, (name,)).fetchone())
        return None if row is None else dict(json.loads(row[0]))

    async def all(self) -> Mapping[str, Definition]:
        """Return all pipelines by name."""
        query = "SELECT name, definition FROM pipeline ORDER BY name"
        rows = await self.file.run(lambda connection: connection.execute(query).fetchall())
        return {name: json.loads(definition) for name, definition in rows}

    async def delete(self, name: str) -> bool:
        """Delete a pipeline. Returns whether it existed."""
        statement = "DELETE FROM pipeline WHERE name = ?"
        cursor = await self.file.run(lambda connection: connection.execute(statement, (name,)))
        return cursor.rowcount > 0


def _check_table(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT 1 FROM conversation LIMIT 1")


def _is_full(owner: str, now: float, limit: int, connection: sqlite3.Connection) -> bool:
    """Whether an owner has as many conversations as the limit allows."""
    unexpired = f"SELECT 1 FROM conversation c WHERE {UNEXPIRED} LIMIT ?"
    query = f"SELECT count(*) FROM ({unexpired})"
    (count,) = connection.execute(query, (owner, now, limit)).fetchone()
    return bool(count >= limit)


def _read_conversation(
    owner: str, now: float, conversation: str, connection: sqlite3.Connection
) -> Conversation:
    query = f"SELECT c.id, c.name, c.created FROM conversation c WHERE {UNEXPIRED} AND c.id = ?"
    row = connection.execute(query, (owner, now, conversation)).fetchone()
    if row is None:
        raise conversation_not_found(conversation)
    return Conversation(*row)


def _read_interaction(
    owner: str, now: float, interaction: str, connection: sqlite3.Connection
) -> Interaction:
    query = f"""SELECT {INTERACTION_COLUMNS}
        FROM interaction i JOIN conversation c ON c.id = i.conversation
        WHERE {UNEXPIRED} AND i.id = ?"""
    row = connection.execute(query, (owner, now, interaction)).fetchone()
    if row is None:
        raise interaction_not_found(interaction)
    return _to_interaction(row)


def _to_interaction(row: tuple[str, ...]) -> Interaction:
    return Interaction(row[0], row[1], row[2], Turn(*row[3:]))
