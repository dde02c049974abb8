"""The writer of the embedded index: interrupted, concurrent and repeated runs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import closing
from dataclasses import replace
from itertools import product
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ingest.targets.index_writer import Document, DocumentRejected, IndexUnavailable
from ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.sqlite_writer import (
    MODEL,
    WORDS,
    Folder,
    document,
    dump_index,
    passage,
    run,
    update_index,
)

ROUNDS, KILLS = 20, 5  # of the property: about a tenth of a second each kill
FILES = [f"{folder}/{number}.md" for folder in ("plans", "company") for number in range(10)]
ANNA = User("a", ("g",))


@pytest.fixture(scope="module")
def children() -> Iterator[ForkServerContext]:
    """Makes processes that have what a run needs imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.sqlite_writer"])
    yield context


async def search(index: SqliteRetriever, query: str, **overrides: Any) -> Sequence[Source]:
    options = Overrides(top=50, use_oid_security_filter=True, use_gpt4v=True, **overrides)
    return (await index.search(ANNA, query, options)).sources


def answers(path: Path) -> list[Sequence[Source]]:
    """What an index gives for some questions, by words and by meaning."""

    async def all_of(index: SqliteRetriever) -> list[Sequence[Source]]:
        queries = [*WORDS, " ".join(WORDS), "plans", "7"]
        return [
            await search(index, query, retrieval_mode=mode)
            for query in queries
            for mode in ("text", "vectors", "hybrid")
        ]

    with closing(SqliteRetriever.open(path, Embedding("a-model", embed))) as index:
        return asyncio.run(all_of(index))


async def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors by chance, the same for the same text."""
    chances = [Random(text) for text in texts]
    return [[chance.gauss(0, 1) for _ in range(3)] for chance in chances]


def changed(folder: Folder, chance: Random) -> Folder:
    """A folder after somebody worked in it: files added, changed and removed."""
    touched = {name: chance.randrange(4) for name in chance.sample(FILES, chance.randrange(12))}
    gone = chance.sample(FILES, chance.randrange(6))
    return {name: number for name, number in {**folder, **touched}.items() if name not in gone}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_run_after_kills_equals_a_fresh_run(
    seed: int, tmp_path: Path, children: ForkServerContext
) -> None:
    chance = Random(seed)
    index, fresh = tmp_path / "index.db", tmp_path / "fresh.db"
    folder: Folder = changed({}, chance)
    for _ in range(KILLS):
        folder = changed(folder, chance)
        killed(children, index, folder, chance.uniform(0, 0.2))
    asyncio.run(update_index(index, folder))
    asyncio.run(update_index(fresh, folder))

    assert dump_index(index) == dump_index(fresh)
    assert answers(index) == answers(fresh)
    assert sorted(path.name for path in tmp_path.glob("index.db*")) == ["index.db", "index.db.lock"]


def killed(children: ForkServerContext, index: Path, folder: Folder, seconds: float) -> None:
    """A run that is killed after some seconds, if it is not at its end by then."""
    process = children.Process(target=run, args=(index, folder))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()

    assert process.exitcode in (0, -signal.SIGKILL)


def test_killed_run_does_not_change_the_index(tmp_path: Path, children: ForkServerContext) -> None:
    index = tmp_path / "index.db"
    asyncio.run(update_index(index, dict.fromkeys(FILES, 1)))
    before = dump_index(index)
    process = children.Process(target=run, args=(index, dict.fromkeys(FILES, 2)))
    process.start()
    while not (part := tmp_path / "index.db.part").exists() and process.is_alive():
        time.sleep(0.001)
    process.kill()
    process.join()

    assert part.exists()
    assert dump_index(index) == before


def test_files_of_an_unfinished_run_are_committed_in_groups(tmp_path: Path) -> None:
    index = tmp_path / "index.db"
    counts = []

    async def put() -> None:
        documents = [document(name, 1) for name in ("a.md", "b.md")]
        two = sum(len(each.passages) for each in documents)
        target = SqliteIndexWriter(index, MODEL, commit_after=two)
        for each in documents:
            await target.put(each, Path(each.name))
            with closing(sqlite3.connect(tmp_path / "index.db.part")) as reader:
                counts.extend(reader.execute("SELECT count(*) FROM file").fetchone())
        await target.close()

    asyncio.run(put())

    assert counts == [0, 2]


def test_run_without_changes_does_not_write(tmp_path: Path) -> None:
    index = tmp_path / "index.db"
    asyncio.run(update_index(index, {"a.md": 1}))
    os.utime(index, ns=(1, 1))
    asyncio.run(update_index(index, {"a.md": 1}))

    assert index.stat().st_mtime_ns == 1
    assert not (tmp_path / "index.db.part").exists()


def test_empty_index_is_searchable(tmp_path: Path) -> None:
    asyncio.run(update_index(tmp_path / "index.db", {}))

    assert not any(answers(tmp_path / "index.db"))


def test_index_stores_the_documents_path(tmp_path: Path) -> None:
    index = tmp_path / "index.db"
    for folder in ("/old", "/new"):
        asyncio.run(update_index(index, {"a.md": 1}, replace(MODEL, documents=Path(folder))))
    with closing(SqliteRetriever.open(index)) as opened:
        assert opened.documents == Path("/new")


def test_concurrent_run_is_rejected(tmp_path: Path) -> None:
    async def two() -> None:
        first = SqliteIndexWriter(tmp_path / "index.db", MODEL)
        try:
            await first.fingerprints()
            await update_index(tmp_path / "index.db", {})
        finally:
            await first.close()

    with pytest.raises(IndexUnavailable, match=r"^Another run is filling index\.db: wait"):
        asyncio.run(two())

    asyncio.run(update_index(tmp_path / "index.db", {}))


STRANGERS = {"text": b"no database", "zeros": bytes(4096), "cut": b"SQLite format 3\0"}


def damaged(whole: bytes, how: str) -> bytes:
    return {
        **STRANGERS,
        "empty": b"",
        "cut off": whole[:100],
        "overwritten": whole[:8192] + b"\xff" * 8192 + whole[16384:],
        "but its header": whole[:100] + b"\xff" * (len(whole) - 100),
    }[how]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *product(["index.db", "index.db.part"], ["empty", "cut off", "overwritten"]),
        ("index.db", "but its header"),
        *(("index.db.part", how) for how in STRANGERS),
    ],
)
def test_damaged_index_or_staging_file_is_recreated(name: str, how: str, tmp_path: Path) -> None:
    index, fresh = tmp_path / "index.db", tmp_path / "fresh.db"
    asyncio.run(update_index(index, dict.fromkeys(FILES, 1)))
    (tmp_path / name).write_bytes(damaged(index.read_bytes(), how))
    asyncio.run(update_index(index, dict.fromkeys(FILES, 2)))
    asyncio.run(update_index(fresh, dict.fromkeys(FILES, 2)))

    assert dump_index(index) == dump_index(fresh)


@pytest.mark.parametrize("how", ["empty", "cut off", "overwritten", "but its header"])
def test_staging_file_restrictions_are_found_beside_a_damaged_index(
    how: str, tmp_path: Path
) -> None:
    index = tmp_path / "index.db"
    asyncio.run(update_index(index, dict.fromkeys(FILES, 1)))
    expected = {name for _, public, _, name in dump_index(index)["passage"] if not public}
    (tmp_path / "index.db.part").write_bytes(index.read_bytes())
    index.write_bytes(damaged(index.read_bytes(), how))

    async def read() -> Set[str]:
        target = SqliteIndexWriter(index, IndexMeta(None, "another-model", 7))
        try:
            return await target.restricted_files()
        finally:
            await target.close()

    assert len(expected) > 1
    assert asyncio.run(read()) == expected


def somebodys_database() -> bytes:
    """A database of another program, with a table that is called as one of ours."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE meta (name, value)")
        return database.serialize()


@pytest.mark.parametrize("bytes", [*STRANGERS.values(), somebodys_database()], ids=range(4))
def test_other_file_is_not_overwritten(bytes: bytes, tmp_path: Path) -> None:
    index = tmp_path / "notes.txt"
    index.write_bytes(bytes)
    message = r"^notes\.txt is no index of this app: name another INDEX_FILE, or remove it\.$"
    with pytest.raises(IndexUnavailable, match=message):
        asyncio.run(update_index(index, {"a.md": 1}))

    assert index.read_bytes() == bytes
    assert list(tmp_path.iterdir()) == [index]


@pytest.mark.parametrize(
    "other",
    [
        IndexMeta(MODEL.documents, "another-model", 3),
        IndexMeta(MODEL.documents, "a-model", 4),
        IndexMeta(),
    ],
    ids=["model", "dimensions", "none"],
)
def test_index_with_other_vectors_is_replaced_at_the_end(other: IndexMeta, tmp_path: Path) -> None:
    async def write() -> tuple[dict[str, str], int]:
        target = SqliteIndexWriter(tmp_path / "index.db", other)
        try:
            known = dict(await target.fingerprints())
            await target.put(Document("b.md", "1", ()), Path("b.md"))
            return known, len(dump_index(tmp_path / "index.db")["file"])
        finally:
            await target.finish()
            await target.close()

    asyncio.run(update_index(tmp_path / "index.db", {"a.md": 1}))

    assert asyncio.run(write()) == ({}, 1)
    assert dump_index(tmp_path / "index.db")["file"] == [("b.md", "1", "b.md")]


def test_index_of_another_version_is_recreated(tmp_path: Path) -> None:
    index = tmp_path / "index.db"
    asyncio.run(update_index(index, {"a.md": 1}))
    with closing(sqlite3.connect(index)) as database, database:
        database.execute("UPDATE meta SET value = '0' WHERE name = 'version'")
    asyncio.run(update_index(index, {"b.md": 1}))

    assert [name for name, *_ in dump_index(index)["file"]] == ["b.md"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (replace(document("plans/1.md", 3), vectors=None), "It has no vectors"),
        (Document("a\udcff.md", "1", ()), "Its name or its text is no Unicode"),
        (
            replace(document("plans/1.md", 3), vectors=((1.0, 2.0),) * 99),
            "Its vectors have other than 3 numbers",
        ),
    ],
)
def test_invalid_document_is_rejected_alone(wrong: Document, sentence: str, tmp_path: Path) -> None:
    async def both() -> None:
        target = SqliteIndexWriter(tmp_path / "index.db", MODEL)
        try:
            with pytest.raises(DocumentRejected, match=sentence):
                await target.put(wrong, Path(wrong.name))
            await target.put(document("b.md", 1), Path("b.md"))
            await target.finish()
        finally:
            await target.close()

    asyncio.run(both())

    assert [name for name, *_ in dump_index(tmp_path / "index.db")["file"]] == ["b.md"]


def test_file_whose_write_fails_keeps_its_former_passages(tmp_path: Path) -> None:
    index, fresh = tmp_path / "index.db", tmp_path / "fresh.db"
    new = document("a.md", 2)
    passages = (*new.passages[:-1], replace(new.passages[-1], category="\udcff"))

    async def fail() -> None:
        target = SqliteIndexWriter(index, MODEL)
        try:
            with pytest.raises(UnicodeEncodeError):
                await target.put(replace(new, passages=passages), Path("a.md"))
            await target.put(document("b.md", 1), Path("b.md"))
            await target.finish()
        finally:
            await target.close()

    asyncio.run(update_index(index, {"a.md": 1}))
    asyncio.run(fail())
    asyncio.run(update_index(fresh, {"a.md": 1, "b.md": 1}))

    assert len(passages) > 1
    assert dump_index(index) == dump_index(fresh)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.03])
def test_cancelled_run_leaves_no_partial_file(seconds: float, tmp_path: Path) -> None:
    chance = Random(1)
    many = tuple(passage(chance, "a.md", number) for number in range(3000))

    async def cancelled() -> None:
        target = SqliteIndexWriter(tmp_path / "index.db", IndexMeta())
        putting = asyncio.create_task(target.put(Document("a.md", "1", many), Path("a.md")))
        await asyncio.sleep(seconds)
        putting.cancel()
        await target.close()

    async def finish() -> None:
        target = SqliteIndexWriter(tmp_path / "index.db", IndexMeta())
        await target.finish()
        await target.close()

    asyncio.run(cancelled())
    asyncio.run(finish())
    held = dump_index(tmp_path / "index.db")

    assert (len(held["file"]), len(held["words"])) in [(0, 0), (1, 3000)]


def test_missing_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable, match=r"^index\.db cannot be written: No such "):
        asyncio.run(update_index(tmp_path / "none" / "index.db", {}))


def test_file_shrinks_after_removals(tmp_path: Path) -> None:
    index = tmp_path / "index.db"
    many = {f"{number}.md": 1 for number in range(300)}
    asyncio.run(update_index(index, many))
    large = index.stat().st_size
    asyncio.run(update_index(index, {"1.md": 1}))

    assert index.stat().st_size < large / 2


@pytest.fixture
def umask() -> Iterator[None]:
    """Nothing is taken from the mode with which a file is created."""
    previous = os.umask(0)
    yield
    os.umask(previous)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
@pytest.mark.parametrize("left", ["nothing", "index", "staging file"])
def test_no_file_of_a_run_is_readable_by_others(tmp_path: Path, umask: None, left: str) -> None:
    index, private = tmp_path / "index.db", 0o600
    if left != "nothing":  # by an earlier version, and by a run of it that was killed
        asyncio.run(update_index(index, {"a.md": 1}))
        index.chmod(0o644)
    if left == "staging file":
        index.rename(tmp_path / "index.db.part")

    async def work() -> dict[str, int]:
        writer = SqliteIndexWriter(index, MODEL)
        try:
            await writer.put(document("a.md", 2), Path("a.md"))
            return modes(tmp_path)
        finally:
            await writer.finish()
            await writer.close()

    during = asyncio.run(work())

    assert during.keys() >= {"index.db.lock", "index.db.part", "index.db.part-journal"}
    assert {name for name, mode in during.items() if mode != private} <= {"index.db"}
    assert modes(tmp_path) == {"index.db": private, "index.db.lock": private}
