"""Does the embedded index answer from its file, whatever happens to the file meanwhile?"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from base64 import b64decode
from collections.abc import Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shared.chat.errors import Misconfigured, TooManyRequests, Unavailable
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.ingest.splitting.passages import Passage
from shared.ingest.targets.index_writer import Document
from shared.ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.retrieval.base import MOST_PICTURES, SearchResult
from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta

ROOT = Path(__file__).parent.parent.parent
PNG, JPEG = b"\x89PNG\r\n\x1a\n a picture", b"\xff\xd8\xff a photograph"
WEBP = b"RIFF....WEBP a picture"
NOBODY, ANNA = User(), User("anna", ("board",))
# What a model makes of some words: near in meaning is near in numbers.
MEANING = {"vehicle": [0.1, 0.9], "teeth": [0.9, 0.1], "dentist": [1.0, 0.0]}


def passage(name: str, content: str, **more: Any) -> Passage:
    return Passage(f"{name}-1", content, name, name, **{"category": "", **more})


async def embed(texts: Sequence[str]) -> list[list[float]]:
    return [
        next((list(v) for word, v in MEANING.items() if word in text), [0.7, 0.7]) for text in texts
    ]


WORDS = IndexMeta(Path("/documents"))
VECTORS = IndexMeta(Path("/documents"), "a-model", 2)
EMBEDDING = Embedding("a-model", embed)


def make(index: Path, *passages: Passage, meta: IndexMeta = WORDS) -> Path:
    """Write an index of some passages, each of a file of its own."""

    async def fill() -> None:
        target = SqliteIndexWriter(index, meta)
        try:
            for one in passages:
                vectors = tuple(await embed([one.content])) if meta.model else None
                await target.put(Document(one.sourcefile, "1", (one,), vectors), Path())
            await target.finish()
        finally:
            await target.close()

    asyncio.run(fill())
    return index


def ask(index: SqliteRetriever, query: str, user: User = NOBODY, **overrides: Any) -> SearchResult:
    return asyncio.run(index.search(user, query, Overrides(**overrides)))


def found(
    path: Path, query: str, embedding: Embedding | None = None, **overrides: Any
) -> SearchResult:
    with closing(SqliteRetriever.open(path, embedding)) as index:
        return ask(index, query, **overrides)


def names(result: SearchResult) -> list[str]:
    return [source.sourcepage for source in result.sources]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="who runs this may write anywhere")
def test_an_index_answers_from_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", passage("a.md", "Dental care."))
    for other in tmp_path.glob("index.db.*"):
        other.unlink()
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert names(found(path, "dental")) == ["a.md"]
        assert os.listdir(tmp_path) == ["index.db"]
    finally:
        tmp_path.chmod(0o755)


def test_a_file_that_is_replaced_is_seen_by_the_next_question(tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", passage("a.md", "Dental care."))
    with closing(SqliteRetriever.open(path)) as index:
        before = names(ask(index, "dental"))
        make(path, passage("a.md", "Vision."), passage("b.md", "Dental plan."))

        assert before == ["a.md"]
        assert names(ask(index, "dental")) == ["b.md"]


def numbered(folder: Path, number: int) -> Path:
    """An index in which everything says its number, and how many passages say so."""
    names = [f"{number}-{place}.md" for place in range(9 - number)]
    said = f"Dental {number}."
    return make(folder / f"{number}.db", *(passage(name, said) for name in names))


async def replaced(path: Path, others: Sequence[Path]) -> None:
    """Let each of the others stand at a path for a moment, one after the other."""
    for round in range(40):
        shutil.copy(others[round % len(others)], path.with_name("next"))
        path.with_name("next").replace(path)
        await asyncio.sleep(0.03)


async def asked_meanwhile(
    index: SqliteRetriever, work: Coroutine[Any, Any, None]
) -> list[SearchResult]:
    """What an index answers, several questions at a time, until some work is done."""
    working, results = asyncio.create_task(work), list[SearchResult]()
    while not working.done():
        several = (index.search(NOBODY, "dental", Overrides(top=50)) for _ in range(4))
        results += await asyncio.gather(*several)
    return results


def test_an_answer_is_from_one_file_while_it_is_replaced_again_and_again(tmp_path: Path) -> None:
    ready = [numbered(tmp_path, number) for number in range(3)]
    path = Path(shutil.copy(ready[0], tmp_path / "index.db"))
    with closing(SqliteRetriever.open(path)) as index:
        results = asyncio.run(asked_meanwhile(index, replaced(path, ready)))

    for result in results:
        (said,) = {source.content for source in result.sources}
        assert len(result.sources) == 9 - int(said[7])


def spoilt(whole: bytes, how: str) -> bytes:
    pages = [whole[start : start + 4096] for start in range(0, len(whole), 4096)]
    return {
        "empty": b"",
        "text": b"Nobody's database.",
        "cut": pages[0],
        "overwritten": pages[0] + b"\xff" * 4096 * (len(pages) - 1),
    }[how]


@pytest.mark.parametrize("how", ["empty", "text", "cut", "overwritten"])
def test_a_damaged_file_is_an_error_that_says_what_to_do_until_it_is_put_right(
    how: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "index.db", passage("a.md", "Dental care."))
    whole = path.read_bytes()
    path.write_bytes(spoilt(whole, how))
    with closing(SqliteRetriever.open(path)) as index:
        with pytest.raises(Misconfigured) as failure:
            ask(index, "dental")
        (tmp_path / "next").write_bytes(whole)
        (tmp_path / "next").replace(path)

        assert "Make it anew by `make index DOCS=folder`." in str(failure.value.cause)
        assert names(ask(index, "dental")) == ["a.md"]


def test_a_file_of_another_version_and_one_that_has_gone_are_errors_too(tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", passage("a.md", "Dental care."))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = '0' WHERE name = 'version'")
    with pytest.raises(Misconfigured) as other:
        found(path, "dental")
    path.unlink()
    with pytest.raises(Misconfigured) as gone:
        found(path, "dental")

    assert "one of another version" in str(other.value.cause)
    assert "No such file" in str(gone.value.cause)


READERS = [
    passage("public.md", "Dental."),
    passage("anna.md", "Dental.", oids=("anna",)),
    passage("board.md", "Dental.", groups=("board",)),
    passage("bob.md", "Dental.", oids=("bob",)),
]


@pytest.mark.parametrize("by_oid", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("user", [NOBODY, ANNA, User("bob"), User(None, ("board",))])
@pytest.mark.parametrize("mode", ["text", "vectors", "hybrid"])
def test_who_may_not_find_a_file_may_not_open_it(
    by_oid: bool, by_group: bool, user: User, mode: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "index.db", *READERS, meta=VECTORS)
    filters: dict[str, Any] = {
        "use_oid_security_filter": by_oid,
        "use_groups_security_filter": by_group,
    }

    async def opened(index: SqliteRetriever) -> list[str]:
        asked = [one.sourcefile for one in READERS]
        return [name for name in asked if await index.readable(user, name, Overrides(**filters))]

    with closing(SqliteRetriever.open(path, EMBEDDING)) as index:
        seen = names(ask(index, "dental", user, top=50, retrieval_mode=mode, **filters))

        assert sorted(seen) == sorted(asyncio.run(opened(index)))
        assert "public.md" in seen
        assert ("anna.md" in seen) == (user == ANNA and by_oid)
        assert ("board.md" in seen) == (user == ANNA and by_group)


def test_a_file_that_is_not_indexed_is_readable_by_nobody() -> None:
    with closing(SqliteRetriever([])) as index:
        assert not asyncio.run(index.readable(NOBODY, "a.md", Overrides()))
        assert index.documents is None


PICTURES = [passage("a.png", "Chart.", image=PNG), passage("b.jpg", "Chart.", image=JPEG)]
SHOWN = (("a.png", "png", PNG), ("b.jpg", "jpeg", JPEG), ("d.webp", "webp", WEBP))


def test_pictures_come_as_data_urls_where_they_are_asked_for(tmp_path: Path) -> None:
    others = passage("c.md", "Chart."), passage("d.webp", "Chart.", image=WEBP)
    path = make(tmp_path / "index.db", *PICTURES, *others)
    result = found(path, "chart", top=4, use_gpt4v=True, gpt4v_input="images")
    images = {source.sourcepage: source.image for source in result.sources}

    assert result.notes == ()
    assert images["c.md"] is None
    for name, kind, picture in SHOWN:
        start, _, data = str(images[name]).partition(",")
        assert (start, b64decode(data)) == (f"data:image/{kind};base64", picture)


def test_only_the_best_passages_with_pictures_give_them(tmp_path: Path) -> None:
    """A picture may have half a megabyte, and a model looks closely at a few."""
    shown = [passage(f"{place:02}.png", "Chart.", image=PNG) for place in range(12)]
    path = make(tmp_path / "index.db", passage("00.md", "Chart."), *shown)
    result = found(path, "chart", top=50, use_gpt4v=True)
    with_one = [source.sourcepage for source in result.sources if source.image]

    assert len(result.sources) == 13
    assert with_one == [one.sourcepage for one in shown[:MOST_PICTURES]]


@pytest.mark.parametrize("asked", [{}, {"use_gpt4v": True, "gpt4v_input": "text"}])
def test_pictures_stay_where_they_are_otherwise(asked: dict[str, Any], tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", *PICTURES)

    assert {source.image for source in found(path, "chart", **asked).sources} == {None}


CARE = [
    passage("teeth.md", "All about teeth.", category="health"),
    passage("vehicle.md", "The vehicle of a dentist.", category="travel"),
    passage("other.md", "Something else."),
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["vehicle.md", "teeth.md", "other.md"]),
        ({"retrieval_mode": "hybrid", "top": 1}, ["vehicle.md"]),
        ({"retrieval_mode": "text"}, ["vehicle.md"]),
        ({"retrieval_mode": "vectors"}, ["teeth.md", "other.md", "vehicle.md"]),
        ({"retrieval_mode": "vectors", "exclude_category": "health"}, ["other.md", "vehicle.md"]),
        ({"include_category": "health"}, ["teeth.md"]),
        ({"retrieval_mode": "vectors", "minimum_search_score": 0.9}, ["teeth.md"]),
        ({"minimum_search_score": 0.03}, ["vehicle.md"]),
    ],
)
def test_a_question_finds_what_has_its_words_and_what_is_near_in_meaning(
    asked: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    path = make(tmp_path / "index.db", *CARE, meta=VECTORS)
    result = found(path, "dentist", EMBEDDING, **asked)
    mode = asked.get("retrieval_mode", "hybrid")

    assert names(result) == expected
    assert result.notes == ()
    assert (result.props["retrieval_mode"], result.props["has_vector"]) == (mode, mode != "text")


def test_a_question_without_words_is_still_near_something(tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", *CARE, meta=VECTORS)

    assert len(names(found(path, "?", EMBEDDING))) == 3


ANOTHER = Embedding("another", embed)


@pytest.mark.parametrize(
    ("meta", "embedding", "why"),
    [
        (WORDS, EMBEDDING, "there are no vectors here"),
        (VECTORS, None, "there is no embedding model here"),
        (VECTORS, ANOTHER, "the index was made with another embedding model"),
    ],
)
def test_the_search_is_by_words_where_vectors_do_not_fit_and_a_note_says_why(
    meta: IndexMeta, embedding: Embedding | None, why: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "index.db", *CARE, meta=meta)
    asked = found(path, "dentist", embedding, retrieval_mode="hybrid")

    assert asked.notes == (f"retrieval_mode hybrid was left out: {why}; text was used.",)
    assert names(asked) == ["vehicle.md"]
    assert found(path, "dentist", embedding).notes == ()


WITHOUT_NUMPY = """
import asyncio, sys
sys.modules["numpy"] = None
from pathlib import Path
from tests.integration.test_sqlite_file import EMBEDDING, found
result = found(Path(sys.argv[1]), "dentist", EMBEDDING, retrieval_mode="vectors")
print(len(result.sources), *result.notes)
"""


def test_the_search_is_by_words_where_numpy_is_not_installed(tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", *CARE, meta=VECTORS)
    command = [sys.executable, "-c", WITHOUT_NUMPY, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout == (
        "1 retrieval_mode vectors was left out: numpy, which searches vectors, is not installed;"
        " text was used.\n"
    )
    assert "the search is by text: numpy, which searches vectors, is not" in done.stderr


async def refuse(texts: Sequence[str]) -> list[list[float]]:
    raise TooManyRequests


async def longer(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, 2.0, 3.0]]


def test_an_embedding_that_fails_is_the_error_that_it_is(tmp_path: Path) -> None:
    path = make(tmp_path / "index.db", *CARE, meta=VECTORS)
    with pytest.raises(TooManyRequests):
        found(path, "dentist", Embedding("a-model", refuse))
    with pytest.raises(Misconfigured) as other:
        found(path, "dentist", Embedding("a-model", longer))

    assert "its vectors have 2 numbers, the model's have 3." in str(other.value.cause)
    assert names(found(path, "dentist", Embedding("a-model", refuse), retrieval_mode="text"))


class Endless:
    """An embedding model that never answers, and remembers what became of the question."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.told.append("asked")
        try:
            await asyncio.sleep(3600)
        finally:
            self.told.append("ended")
        return []


def test_the_words_are_looked_for_while_the_vector_is_made(tmp_path: Path) -> None:
    """The model is asked at once, and a search that fails does not wait for it."""
    path, endless = make(tmp_path / "index.db", *CARE, meta=VECTORS), Endless()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE words")
    with pytest.raises(Unavailable):
        found(path, "dentist", Embedding("a-model", endless.embed))

    assert endless.told == ["asked", "ended"]
