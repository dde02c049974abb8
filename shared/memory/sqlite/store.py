"""A store of conversations in a SQLite file, which workers of one machine may share."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from shared.memory import base
from shared.memory.sqlite.connection import MemoryFile

EXPIRED_BATCH_SIZE = 100  # expired conversations that are deleted with each new one
# A condition: of an owner, and not expired.
UNEXPIRED = "c.owner = ? AND (c.expires IS NULL OR c.expires > ?)"
CONVERSATIONS = f"SELECT c.id, c.name, c.created FROM conversation c WHERE {UNEXPIRED}"
TURN_COLUMNS = tuple(field.name for field in fields(base.Turn))  # named as its fields
INTERACTIONS = f"""SELECT i.id, i.conversation, i.created, i.{", i.".join(TURN_COLUMNS)}
    FROM interaction i"""
UNEXPIRED_INTERACTIONS = f"""{INTERACTIONS} JOIN conversation c ON c.id = i.conversation
    WHERE {UNEXPIRED}"""
# The bytes of an owner's turns: answered by an index alone, also of those that have expired.
OWNED_BYTES = "SELECT total(i.all_bytes) FROM interaction i WHERE i.owner = ?"
UNEXPIRED_BYTES = f"""SELECT total(i.all_bytes) FROM interaction i
    CROSS JOIN conversation c ON c.id = i.conversation WHERE i.owner = c.owner AND {UNEXPIRED}"""
DELETE_SOME_TURNS = f"""DELETE FROM interaction WHERE id IN (
    SELECT i.id FROM interaction i JOIN conversation c ON c.id = i.conversation
    WHERE {UNEXPIRED} AND c.id = ? LIMIT 5
)"""


def open_memory(
    path: Path,
    retention: base.Retention = base.UNLIMITED,
    seconds: float = 10,
    now: base.Clock = time.time,
) -> base.Memory:
    """Return the store in a file, which is created at the first call. Each may take `seconds`."""
    file, ids = MemoryFile(path, now, seconds), base.IdGenerator(now)

    async def ready() -> None:
        await file.fetch("SELECT 1 FROM conversation LIMIT 1")

    return base.Memory(
        name="SQLite",
        conversations=SqliteConversations(file, ids, retention),
        interactions=SqliteInteractions(file, ids, retention),
        pipelines=SqlitePipelines(file),
        new_id=ids.next,
        ready=ready,
        close=file.close,
    )


@dataclass(frozen=True, slots=True)
class SqliteConversations:
    """The Conversations of the store."""

    file: MemoryFile
    ids: base.IdGenerator
    retention: base.Retention

    async def create(self, owner: str, name: str) -> base.Conversation:
        """Create a conversation, and delete some expired ones."""
        new, now = self.ids.next(), self.file.now()
        row = (new.id, owner, name, new.created, self.retention.expiry(new.created))
        expired = "SELECT id FROM conversation WHERE expires <= ? LIMIT ?"

        def work(connection: sqlite3.Connection) -> int:
            self.file.check_space()
            connection.execute("BEGIN IMMEDIATE")  # no other is created after the count
            _check_conversations(connection, owner, now, self.retention.max_conversations)
            _check_bytes(connection, owner, now, self.retention.max_bytes)
            connection.execute("INSERT INTO conversation VALUES (?, ?, ?, ?, ?)", row)
            delete = f"DELETE FROM conversation WHERE id IN ({expired})"
            return connection.execute(delete, (now, EXPIRED_BATCH_SIZE)).rowcount

        if await self.file.run(work):
            await self.file.checkpoint()
        return base.Conversation(new.id, name, new.created)

    async def get(self, owner: str, conversation: str) -> base.Conversation:
        values = (owner, self.file.now(), conversation)
        rows = await self.file.fetch(f"{CONVERSATIONS} AND c.id = ?", values)
        if not rows:
            raise base.conversation_not_found(conversation)
        return base.Conversation(*rows[0])

    async def list(self, owner: str, page: base.PageRequest) -> tuple[base.Conversation, ...]:
        query = f"{CONVERSATIONS} ORDER BY c.id DESC LIMIT ? OFFSET ?"
        rows = await self.file.fetch(query, (owner, self.file.now(), page.size, page.start))
        return tuple(base.Conversation(*row) for row in rows)

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        statement = f"UPDATE conversation AS c SET name = ? WHERE {UNEXPIRED} AND c.id = ?"
        if not await self.file.change(statement, (name, owner, self.file.now(), conversation)):
            raise base.conversation_not_found(conversation)

    async def delete(self, owner: str, conversation: str) -> None:
        statement = f"DELETE FROM conversation AS c WHERE {UNEXPIRED} AND c.id = ?"
        values = (owner, self.file.now(), conversation)
        if not await self.file.delete(statement, values, DELETE_SOME_TURNS):
            raise base.conversation_not_found(conversation)


@dataclass(frozen=True, slots=True)
class SqliteInteractions:
    """The Interactions of the store."""

    file: MemoryFile
    ids: base.IdGenerator
    retention: base.Retention

    async def add(
        self,
        owner: str,
        conversation: str,
        turn: base.Turn,
        id: base.GeneratedId | None = None,
    ) -> base.Interaction:
        new = id or self.ids.next()
        row = (new.id, owner, conversation, new.created, *astuple(turn))
        columns = ("id", "owner", "conversation", "created", *TURN_COLUMNS)
        # One statement: the conversation cannot be deleted meanwhile.
        statement = f"""INSERT INTO interaction ({", ".join(columns)})
            SELECT {", ".join("?" * len(columns))} FROM conversation c
            WHERE {UNEXPIRED} AND c.id = ?"""
        values = (*row, owner, self.file.now(), conversation)
        if not await self._write(owner, statement, values):
            raise base.conversation_not_found(conversation)
        return base.Interaction(new.id, conversation, new.created, turn)

    async def get(self, owner: str, interaction: str) -> base.Interaction:
        query = f"{UNEXPIRED_INTERACTIONS} AND i.id = ?"
        rows = await self.file.fetch(query, (owner, self.file.now(), interaction))
        if not rows:
            raise base.interaction_not_found(interaction)
        return _to_interaction(rows[0])

    async def find(self, owner: str, request: str) -> base.Interaction:
        query = f"{UNEXPIRED_INTERACTIONS} AND i.request = ? ORDER BY i.id DESC LIMIT 1"
        rows = await self.file.fetch(query, (owner, self.file.now(), request))
        if not request or not rows:
            raise base.answer_not_found(request)
        return _to_interaction(rows[0])

    async def list(
        self, owner: str, conversation: str, page: base.PageRequest, newest_first: bool = True
    ) -> tuple[base.Interaction, ...]:
        order, now = ("DESC" if newest_first else "ASC"), self.file.now()
        query = f"{INTERACTIONS} WHERE i.conversation = ? ORDER BY i.id {order} LIMIT ? OFFSET ?"

        def work(connection: sqlite3.Connection) -> tuple[base.Interaction, ...]:
            parent = connection.execute(f"{CONVERSATIONS} AND c.id = ?", (owner, now, conversation))
            if not parent.fetchone():
                raise base.conversation_not_found(conversation)
            rows = connection.execute(query, (conversation, page.size, page.start))
            return tuple(map(_to_interaction, rows))

        return await self.file.run(work)

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        await self._set(owner, interaction, "additional_info", additional_info)

    async def rate(self, owner: str, interaction: str, feedback: str) -> None:
        await self._set(owner, interaction, "feedback", feedback)

    async def _set(self, owner: str, interaction: str, column: str, text: str) -> None:
        statement = f"""UPDATE interaction AS i SET {column} = ? WHERE EXISTS (
            SELECT 1 FROM conversation c WHERE {UNEXPIRED} AND c.id = i.conversation
        ) AND i.id = ?"""
        values = (text, owner, self.file.now(), interaction)
        if not await self._write(owner, statement, values):
            raise base.interaction_not_found(interaction)

    async def _write(self, owner: str, statement: str, values: Sequence[object]) -> int:
        """Run a statement that stores text. Returns the number of changed rows."""
        now, limit = self.file.now(), self.retention.max_bytes

        def work(connection: sqlite3.Connection) -> int:
            self.file.check_space()
            connection.execute("BEGIN IMMEDIATE")  # nothing else is stored after the sum
            _check_bytes(connection, owner, now, limit)
            return connection.execute(statement, values).rowcount

        return await self.file.run(work)

    async def delete(self, owner: str, interaction: str) -> None:
        statement = f"""DELETE FROM interaction AS i WHERE EXISTS (
            SELECT 1 FROM conversation c WHERE {UNEXPIRED} AND c.id = i.conversation
        ) AND i.id = ?"""
        if not await self.file.delete(statement, (owner, self.file.now(), interaction)):
            raise base.interaction_not_found(interaction)


@dataclass(frozen=True, slots=True)
class SqlitePipelines:
    """The Pipelines of the store."""

    file: MemoryFile

    async def put(self, name: str, definition: base.Definition) -> None:
        row = (name, json.dumps(dict(definition)))
        await self.file.change("INSERT OR REPLACE INTO pipeline VALUES (?, ?)", row)

    async def get(self, name: str) -> base.Definition | None:
        rows = await self.file.fetch("SELECT definition FROM pipeline WHERE name = ?", (name,))
        return dict(json.loads(rows[0][0])) if rows else None

    async def all(self) -> Mapping[str, base.Definition]:
        rows = await self.file.fetch("SELECT name, definition FROM pipeline ORDER BY name")
        return {name: json.loads(definition) for name, definition in rows}

    async def delete(self, name: str) -> bool:
        return await self.file.change("DELETE FROM pipeline WHERE name = ?", (name,)) > 0


def _check_conversations(
    connection: sqlite3.Connection, owner: str, now: float, limit: int | None
) -> None:
    """Raise TooManyConversations if an owner has as many as the limit allows."""
    if limit is None:
        return
    query = f"SELECT count(*) FROM ({CONVERSATIONS} LIMIT ?)"
    (count,) = connection.execute(query, (owner, now, limit)).fetchone()
    if count >= limit:
        raise base.TooManyConversations(limit)


def _check_bytes(connection: sqlite3.Connection, owner: str, now: float, limit: int | None) -> None:
    """Raise TooManyBytes if the turns of an owner have as many as the limit allows."""
    if limit is None:
        return
    # The second sum takes a look at each conversation: only at the limit.
    for query, values in ((OWNED_BYTES, (owner,)), (UNEXPIRED_BYTES, (owner, now))):
        (size,) = connection.execute(query, values).fetchone()
        if size < limit:
            return
    raise base.TooManyBytes(limit)


def _to_interaction(row: tuple[str, ...]) -> base.Interaction:
    return base.Interaction(row[0], row[1], row[2], base.Turn(*row[3:]))
