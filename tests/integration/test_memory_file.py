"""The SQLite store of conversations: crashes, concurrent workers, foreign files."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shared.domain.errors import ChatError, Misconfigured, Unavailable
from shared.memory.base import (
    Memory,
    PageRequest,
    Retention,
    TooManyBytes,
    TooManyConversations,
    Turn,
)
from shared.memory.sqlite.connection import map_errors
from shared.memory.sqlite.store import OWNED_BYTES, UNEXPIRED_BYTES, open_memory
from tests.support.servers import ROOT
from tests.support.stores import FakeClock, sqlite_memory

# Creates conversations until it is killed. Prints a line for each interaction and each deletion.
WRITER = """
import asyncio, sys
from pathlib import Path
from shared.memory.base import Turn
from shared.memory.sqlite.store import open_memory

async def main(owner, most):
    memory = open_memory(Path(sys.argv[1]))
    for number in range(most):
        conversation = (await memory.conversations.create(owner, "c")).id
        for turn in range(3):
            created = await memory.interactions.add(owner, conversation, Turn(str(turn)))
            print(conversation, created.id, flush=True)
        if number % 2:
            await memory.conversations.delete(owner, conversation)
            print(conversation, "deleted", flush=True)
    await memory.close()

asyncio.run(main(sys.argv[2], int(sys.argv[3])))
"""


def writer(path: Path, owner: str, most: int) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", WRITER, str(path), owner, str(most)]
    return subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def run(path: Path, work: Callable[[Memory], Awaitable[Any]], **how: Any) -> Any:
    async def go() -> Any:
        memory = open_memory(path, **how)
        try:
            return await work(memory)
        finally:
            await memory.close()

    return asyncio.run(go())


@pytest.mark.parametrize("lines", [1, 5, 8, 20])
def test_acknowledged_writes_survive_a_kill(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "memory.db"
    with writer(path, "anna", 1_000_000) as process:
        assert process.stdout is not None
        output = [process.stdout.readline().split() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        output += [line.split() for line in process.stdout.read().splitlines()]
    deleted = {conversation for conversation, what in output if what == "deleted"}
    expected = {(a, b) for a, b in output if b != "deleted" and a not in deleted}

    async def look(memory: Memory) -> set[tuple[str, str]]:
        everything = await memory.conversations.list("anna", PageRequest(0, 100_000))
        stored = set()
        for conversation in everything:
            page = await memory.interactions.list("anna", conversation.id, PageRequest(0, 10))
            stored |= {(conversation.id, each.id) for each in page}
        return stored

    stored = run(path, look)
    assert {conversation for conversation, _ in stored}.isdisjoint(deleted)
    # The last write may have been committed without its line of output.
    last = {a for a, _ in stored - expected} | {a for a, _ in expected - stored}
    assert len(last) <= 1
    assert len(stored - expected) <= 1


def test_concurrent_workers_lose_no_writes(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    workers = [writer(path, f"owner-{number % 2}", 20) for number in range(4)]
    output = [worker.communicate(timeout=120)[0].splitlines() for worker in workers]

    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    assert [len(lines) for lines in output] == [70, 70, 70, 70]

    async def count(memory: Memory) -> list[int]:
        owners = [f"owner-{number}" for number in range(3)]
        return [
            len(await memory.conversations.list(owner, PageRequest(0, 1000))) for owner in owners
        ]

    assert run(path, count) == [20, 20, 0]


def test_a_foreign_file_is_not_changed(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    text = tmp_path / "notes.txt"
    text.write_text("no database at all " * 100)
    before = other.read_bytes(), text.read_bytes()
    for path in (other, text, tmp_path, tmp_path / "nowhere" / "memory.db"):
        with pytest.raises(Misconfigured) as failure:
            run(path, lambda memory: memory.ready())

        assert (failure.value.cause or "").startswith("MEMORY_FILE: ")
    assert (other.read_bytes(), text.read_bytes()) == before


def test_a_locked_file_is_unavailable_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    run(path, lambda memory: memory.conversations.create("anna", "first"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable):
            run(path, lambda memory: memory.conversations.create("anna", "second"), seconds=0.3)
        other.execute("ROLLBACK")

    assert run(path, lambda memory: memory.conversations.create("anna", "third")).name == "third"


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    run(path, lambda memory: memory.ready())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_deleted_and_expired_texts_are_erased_from_the_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "memory.db", FakeClock()

    def occurrences(words: bytes) -> int:
        return sum(each.read_bytes().count(words) for each in tmp_path.iterdir())

    async def fill(memory: Memory) -> str:
        created = [await memory.conversations.create("anna", f"name {n}") for n in range(2)]
        for n, each in enumerate(created):
            await memory.interactions.add("anna", each.id, Turn(f"my secret number {n}"))
        return created[0].id

    async def work(memory: Memory) -> None:  # the file stays open, as in a server
        deleted = await fill(memory)
        assert occurrences(b"my secret number") >= 2
        other = await memory.interactions.add("anna", deleted, Turn("one turn alone"))
        await memory.interactions.delete("anna", other.id)
        assert occurrences(b"one turn alone") == 0
        await memory.conversations.delete("anna", deleted)
        assert occurrences(b"my secret number 0") == 0
        assert occurrences(b"my secret number 1") == 1
        clock.at += 101
        await memory.conversations.create("ben", "")

        assert occurrences(b"my secret number") == 0
        assert occurrences(b"name 1") == 0

    run(path, work, retention=Retention(100.0), now=clock)


def test_a_write_that_timed_out_is_not_done_later(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    run(path, lambda memory: memory.ready())

    async def work(memory: Memory) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writes = [memory.conversations.create("anna", str(n)) for n in range(5)]
            ends = await asyncio.gather(*writes, return_exceptions=True)
            cancelled = asyncio.ensure_future(memory.conversations.create("anna", "left"))
            await asyncio.sleep(0.05)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            other.execute("ROLLBACK")
        assert [type(end) for end in ends] == [Unavailable] * 5
        assert await memory.conversations.list("anna", PageRequest()) == ()

    run(path, work, seconds=0.3)


def test_a_busy_file_blocks_no_other_thread(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    run(path, lambda memory: memory.ready())

    async def work(memory: Memory) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [
                asyncio.ensure_future(memory.conversations.create("anna", "")) for _ in range(50)
            ]
            await asyncio.sleep(0.1)
            await asyncio.to_thread(str)
            assert not any(each.done() for each in waiting)
            other.execute("ROLLBACK")
        await asyncio.gather(*waiting)

    run(path, work, seconds=60)


def test_a_deletion_does_not_wait_for_readers(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM conversation").fetchall()
            async with asyncio.timeout(60):  # only a wait for the reader takes so long
                await memory.conversations.delete("anna", created.id)
                assert await memory.conversations.list("anna", PageRequest()) == ()

    run(path, work, seconds=600)


def test_all_workers_use_a_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def work(memory: Memory) -> None:
        other = open_memory(path)
        await memory.conversations.create("anna", "old")
        for each in tmp_path.iterdir():
            each.unlink()
        created = await other.conversations.create("anna", "new")
        try:
            assert await memory.conversations.list("anna", PageRequest()) == (created,)
        finally:
            await other.close()

    run(path, work)


def test_workers_may_create_the_file_concurrently(tmp_path: Path) -> None:
    async def begin(path: Path) -> None:
        memories = [open_memory(path) for _ in range(8)]
        created = (each.conversations.create("anna", "") for each in memories)
        await asyncio.gather(*created)
        assert len(await memories[0].conversations.list("anna", PageRequest(0, 100))) == 8
        for each in memories:
            await each.close()

    for number in range(20):
        asyncio.run(begin(tmp_path / f"{number}.db"))


def test_concurrent_workers_respect_the_limit(tmp_path: Path) -> None:
    async def begin() -> list[Any]:
        memories = [open_memory(tmp_path / "memory.db", Retention(None, 5)) for _ in range(4)]
        created = (each.conversations.create("anna", "") for each in memories * 3)
        ends = await asyncio.gather(*created, return_exceptions=True)
        assert len(await memories[0].conversations.list("anna", PageRequest(0, 100))) == 5
        for each in memories:
            await each.close()
        return ends

    failures = [end for end in asyncio.run(begin()) if isinstance(end, BaseException)]

    assert [type(each) for each in failures] == [TooManyConversations] * 7


def test_an_expired_conversation_does_not_count_for_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        for name in ("first", "second"):
            await memory.conversations.create("anna", name)
            clock.at += 101
        assert await memory.conversations.list("anna", PageRequest()) == ()

    run(tmp_path / "memory.db", work, retention=Retention(100.0, 1), now=clock)


def test_a_removed_file_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def work(memory: Memory) -> None:
        await memory.conversations.create("anna", "before")
        for each in tmp_path.iterdir():
            each.unlink()
        created = await memory.conversations.create("anna", "after")

        assert await memory.conversations.list("anna", PageRequest()) == (created,)
        assert path.exists()

    run(path, work)


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    return error


FAILURES: list[tuple[Exception, type[ChatError]]] = [
    (sqlite_error(sqlite3.SQLITE_BUSY), Unavailable),
    (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), Unavailable),
    (sqlite_error(sqlite3.SQLITE_FULL), Unavailable),
    (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), Unavailable),
    (sqlite_error(sqlite3.SQLITE_CANTOPEN), Misconfigured),
    (sqlite_error(sqlite3.SQLITE_READONLY), Misconfigured),
    (sqlite_error(sqlite3.SQLITE_NOTADB), Misconfigured),
    (sqlite_error(sqlite3.SQLITE_CORRUPT), Misconfigured),
    (sqlite3.ProgrammingError("closed"), Misconfigured),
    (PermissionError(13, "Permission denied"), Misconfigured),
]


@pytest.mark.parametrize(("raised", "failure"), FAILURES, ids=repr)
def test_errors_of_sqlite_and_the_file_are_mapped(
    raised: Exception, failure: type[ChatError]
) -> None:
    with pytest.raises(failure) as caught, map_errors():
        raise raised

    assert caught.value.cause


# The tables of version 1, as its code created them.
VERSION_1 = f"""
CREATE TABLE conversation (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,
    expires REAL
);
CREATE TABLE interaction (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    created TEXT NOT NULL, input TEXT NOT NULL, prompt_template TEXT NOT NULL,
    response TEXT NOT NULL, origin TEXT NOT NULL, additional_info TEXT NOT NULL
);
CREATE TABLE pipeline (name TEXT PRIMARY KEY, definition TEXT NOT NULL);
INSERT INTO conversation VALUES ('c1', 'anna', 'Old', '2026-01-01T00:00:00.000000Z', NULL);
INSERT INTO interaction VALUES
    ('001', 'anna', 'c1', '2026-01-01T00:00:00.000000Z', 'Hello?', '', 'Yes.', 'chat', '');
PRAGMA application_id = {int.from_bytes(b"ragm", "big")};
PRAGMA user_version = 1;
"""


def test_a_file_of_version_1_is_updated(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1)

    async def work(_: Memory) -> list[Any]:
        workers = [open_memory(path) for _ in range(4)]  # each updates the file, or finds it so
        pages = [memory.interactions.list("anna", "c1", PageRequest()) for memory in workers]
        found = await asyncio.gather(*pages)
        added = await workers[0].interactions.add("anna", "c1", Turn("More?", parent="001"))
        newest = await workers[1].interactions.list("anna", "c1", PageRequest(0, 1))
        await asyncio.gather(*(memory.close() for memory in workers))
        assert newest == (added,)
        return found

    for (interaction,) in run(path, work):
        assert (interaction.id, interaction.turn) == ("001", Turn("Hello?", "", "Yes.", "chat"))


# What version 3 made of it.
VERSION_3 = f"""
{VERSION_1}
ALTER TABLE interaction ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE interaction ADD COLUMN details TEXT NOT NULL DEFAULT '';
ALTER TABLE interaction ADD COLUMN bytes INTEGER AS (
    1000 + length(CAST(input AS BLOB)) + length(CAST(prompt_template AS BLOB))
    + length(CAST(response AS BLOB)) + length(CAST(origin AS BLOB))
    + length(CAST(additional_info AS BLOB)) + length(CAST(parent AS BLOB))
    + length(CAST(details AS BLOB))
);
CREATE INDEX interaction_bytes ON interaction (owner, conversation, bytes);
PRAGMA user_version = 3;
"""


def test_an_answer_in_a_file_of_version_3_can_be_rated(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_3)

    async def work(memory: Memory) -> None:
        (old,) = await memory.interactions.list("anna", "c1", PageRequest())
        assert old.turn == Turn("Hello?", "", "Yes.", "chat")
        await memory.interactions.rate("anna", old.id, "x" * 1000)
        assert (await memory.interactions.get("anna", old.id)).turn.feedback == "x" * 1000
        with pytest.raises(TooManyBytes):
            await memory.interactions.add("anna", "c1", Turn("more"))

    with sqlite_memory(tmp_path, max_bytes=2000) as memory:
        asyncio.run(work(memory))


def test_the_sum_of_bytes_is_read_from_the_index_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    run(path, lambda memory: memory.ready())
    with closing(sqlite3.connect(path)) as connection:
        for query, values in ((OWNED_BYTES, ("anna",)), (UNEXPIRED_BYTES, ("anna", 0.0))):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
            steps = [step[-1] for step in plan]
            assert any("USING INDEX interaction_size" in step for step in steps), steps


def test_expired_turns_do_not_count_for_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        old = await memory.conversations.create("anna", "old")
        clock.at += 60
        new = await memory.conversations.create("anna", "new")
        await memory.interactions.add("anna", old.id, Turn("x" * 5000))
        with pytest.raises(TooManyBytes):
            await memory.interactions.add("anna", new.id, Turn("more"))
        clock.at += 50

        assert (await memory.interactions.add("anna", new.id, Turn("more"))).turn == Turn("more")

    with sqlite_memory(tmp_path, 100, clock, max_bytes=5000) as memory:
        asyncio.run(work(memory))


def test_turns_of_an_updated_file_count_for_the_limit(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.executescript(VERSION_1)
    with sqlite_memory(tmp_path, max_bytes=1000) as memory, pytest.raises(TooManyBytes):
        asyncio.run(memory.interactions.add("anna", "c1", Turn("more")))


# Fills the disk with turns, and deletes each conversation.
FILL = """
import asyncio, sys
from pathlib import Path
from shared.domain.errors import Unavailable
from shared.memory.base import PageRequest, Turn
from shared.memory.sqlite.store import open_memory

async def main(turns):
    memory, stored, ids = open_memory(Path(sys.argv[1]) / "memory.db"), 0, []
    try:
        while True:
            ids.append((await memory.conversations.create("anna", "c")).id)
            for _ in range(turns):
                await memory.interactions.add("anna", ids[-1], Turn("x" * 70_000))
                stored += 1
    except Unavailable:
        assert stored > 20, stored
    for id in ids:
        await memory.conversations.delete("anna", id)
    assert not await memory.conversations.list("anna", PageRequest())
    await memory.conversations.create("anna", "again")
    await memory.close()

asyncio.run(main(int(sys.argv[2])))
"""
SMALL_DISK = 'mount -t tmpfs -o size=16m tmpfs "$1" && exec "$2" -c "$3" "$1" "$4"'


@pytest.mark.skipif(sys.platform != "linux", reason="needs a small disk")
@pytest.mark.parametrize("turns", [1, 20, 1000])
def test_what_fills_the_disk_can_be_deleted(tmp_path: Path, turns: int) -> None:
    isolated = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*isolated, "true"]).returncode:
        pytest.skip("no file system may be mounted here")
    command = ["sh", "-c", SMALL_DISK, "sh", str(tmp_path), sys.executable, FILL, str(turns)]
    done = subprocess.run(
        [*isolated, *command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1.replace("user_version = 1", "user_version = 5"))

    with pytest.raises(Misconfigured):
        run(path, lambda memory: memory.conversations.list("anna", PageRequest()))
