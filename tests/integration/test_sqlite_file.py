"""The embedded index in a file: replaced and damaged files, access, images, vectors."""

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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.splitting.passages import Passage
from shared.domain.errors import Misconfigured, TooManyRequests, Unavailable
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.base import MAX_IMAGES, SearchResult
from shared.retrieval.sqlite.connections import IndexReplaced, open_index
from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.calls import Client, local_service
from tests.support.fakes import make_rag
from tests.support.index_files import (
    ANNA,
    EMBEDDING,
    NO_VECTORS,
    NOBODY,
    build_index,
    embed,
    search,
    search_file,
)

ROOT = Path(__file__).parent.parent.parent
PNG, JPEG = b"\x89PNG\r\n\x1a\n a picture", b"\xff\xd8\xff a photograph"
WEBP = b"RIFF....WEBP a picture"


def passage(name: str, content: str, **more: Any) -> Passage:
    return Passage(f"{name}-1", content, name, name, **{"category": "", **more})


VECTORS = IndexMeta(Path("/documents"), "a-model", 2)


def names(result: SearchResult) -> list[str]:
    return [source.sourcepage for source in result.sources]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_an_index_in_a_read_only_folder_is_searched(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."))
    for other in tmp_path.glob("index.db.*"):
        other.unlink()
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert names(search_file(path, "dental")) == ["a.md"]
        assert os.listdir(tmp_path) == ["index.db"]
    finally:
        tmp_path.chmod(0o755)


def test_the_next_search_reads_a_replaced_file(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."))
    with closing(SqliteRetriever.open(path)) as index:
        before = names(search(index, "dental"))
        build_index(path, passage("a.md", "Vision."), passage("b.md", "Dental plan."))

        assert before == ["a.md"]
        assert names(search(index, "dental")) == ["b.md"]


def test_a_second_connection_to_a_replaced_file_is_refused(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."))
    with closing(open_index(path)) as index, index.connection():
        build_index(path, passage("a.md", "Vision."), passage("b.md", "Dental plan."))

        with pytest.raises(IndexReplaced), index.connection():
            pass


def build_numbered_index(folder: Path, number: int) -> Path:
    """An index with 9 - `number` passages, each of which contains `number`."""
    names = [f"{number}-{index}.md" for index in range(9 - number)]
    passages = (passage(name, f"Dental {number} {name}.") for name in names)
    return build_index(folder / f"{number}.db", *passages)


async def replace_repeatedly(path: Path, others: Sequence[Path]) -> None:
    """Replace a file by each of the others in turn, 40 times."""
    for round in range(40):
        shutil.copy(others[round % len(others)], path.with_name("next"))
        path.with_name("next").replace(path)
        await asyncio.sleep(0.03)


async def search_during(
    index: SqliteRetriever, work: Coroutine[Any, Any, None]
) -> list[SearchResult]:
    """The results of concurrent searches, until `work` is done."""
    task, results = asyncio.create_task(work), list[SearchResult]()
    while not task.done():
        searches = (index.search(NOBODY, "dental", Overrides(top=50)) for _ in range(4))
        results += await asyncio.gather(*searches)
    return results


def test_a_result_is_of_one_file_while_the_file_is_replaced(tmp_path: Path) -> None:
    indexes = [build_numbered_index(tmp_path, number) for number in range(3)]
    path = Path(shutil.copy(indexes[0], tmp_path / "index.db"))
    with closing(SqliteRetriever.open(path)) as index:
        results = asyncio.run(search_during(index, replace_repeatedly(path, indexes)))

    for result in results:
        (number,) = {int(source.content[7]) for source in result.sources}
        assert len(result.sources) == 9 - number


def damage(content: bytes, how: str) -> bytes:
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    return {
        "empty": b"",
        "text": b"Nobody's database.",
        "cut": pages[0],
        "overwritten": pages[0] + b"\xff" * 4096 * (len(pages) - 1),
    }[how]


@pytest.mark.parametrize("how", ["empty", "text", "cut", "overwritten"])
def test_a_damaged_file_is_misconfigured_until_it_is_replaced(how: str, tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."))
    content = path.read_bytes()
    path.write_bytes(damage(content, how))
    with closing(SqliteRetriever.open(path)) as index:
        with pytest.raises(Misconfigured) as failure:
            search(index, "dental")
        (tmp_path / "next").write_bytes(content)
        (tmp_path / "next").replace(path)

        assert "Rebuild it with `make index DOCS=folder`." in str(failure.value.cause)
        assert names(search(index, "dental")) == ["a.md"]


def test_a_file_of_another_version_and_a_missing_file_are_misconfigured(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = '0' WHERE name = 'version'")
    with pytest.raises(Misconfigured) as other:
        search_file(path, "dental")
    path.unlink()
    with pytest.raises(Misconfigured) as missing:
        search_file(path, "dental")

    assert "one of another version" in str(other.value.cause)
    assert "No such file" in str(missing.value.cause)


READERS = [
    passage("public.md", "Dental public."),
    passage("anna.md", "Dental anna.", oids=("anna",)),
    passage("board.md", "Dental board.", groups=("board",)),
    passage("bob.md", "Dental bob.", oids=("bob",)),
]


@pytest.mark.parametrize("by_oid", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("user", [NOBODY, ANNA, User("bob"), User(None, ("board",))])
@pytest.mark.parametrize("mode", ["text", "vectors", "hybrid"])
def test_a_user_may_open_exactly_the_files_that_the_user_may_find(
    by_oid: bool, by_group: bool, user: User, mode: str, tmp_path: Path
) -> None:
    path = build_index(tmp_path / "index.db", *READERS, meta=VECTORS)
    filters: dict[str, Any] = {
        "use_oid_security_filter": by_oid,
        "use_groups_security_filter": by_group,
    }

    async def readable_files(index: SqliteRetriever) -> list[str]:
        files = [item.sourcefile for item in READERS]
        return [name for name in files if await index.readable(user, name, Overrides(**filters))]

    with closing(SqliteRetriever.open(path, EMBEDDING)) as index:
        visible = names(search(index, "dental", user, top=50, retrieval_mode=mode, **filters))

        assert sorted(visible) == sorted(asyncio.run(readable_files(index)))
        assert "public.md" in visible
        assert ("anna.md" in visible) == (user == ANNA and by_oid)
        assert ("board.md" in visible) == (user == ANNA and by_group)


def test_a_file_that_is_not_indexed_is_readable_by_nobody() -> None:
    with closing(SqliteRetriever([])) as index:
        assert not asyncio.run(index.readable(NOBODY, "a.md", Overrides()))
        assert index.documents is None


def test_statistics_name_the_folder_and_never_its_path(tmp_path: Path) -> None:
    meta = IndexMeta(Path("/home/anna/manuals"), "a-model", 2)
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."), meta=meta)
    os.utime(path, (0, 1_700_000_000))
    with closing(SqliteRetriever.open(path, EMBEDDING)) as index:
        by_vectors = index.statistics()
    with closing(SqliteRetriever.open(path)) as index:
        by_words = index.statistics()

    counts = "manuals: 1 document, 1 passage, searched by words"
    assert by_vectors.describe() == f"{counts} and vectors, made 2023-11-14 22:13 UTC"
    assert by_words.describe() == f"{counts}, made 2023-11-14 22:13 UTC"
    assert by_words.to_json()["made"] == "2023-11-14T22:13:20Z"


def test_own_folder_called_samples_is_not_the_samples(tmp_path: Path) -> None:
    meta = IndexMeta(Path("/home/anna/samples"))
    path = build_index(tmp_path / "index.db", passage("a.md", "Dental care."), meta=meta)
    with closing(SqliteRetriever.open(path)) as index:
        rag = replace(make_rag(), retriever=index)
        config = Client(local_service(rag), {})("GET", "/config").json

    assert (config["index"]["name"], config["index"]["isSamples"]) == ("samples", False)
    assert config["examples"] == []


@pytest.mark.parametrize("image", [None, PNG])
def test_statistics_say_whether_there_are_images(image: bytes | None, tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", passage("a.png", "Chart a.", image=image))
    with closing(SqliteRetriever.open(path)) as index:
        assert index.statistics().has_images == bool(image)


WITH_IMAGES = [passage("a.png", "Chart a.", image=PNG), passage("b.jpg", "Chart b.", image=JPEG)]
EXPECTED_IMAGES = (("a.png", "png", PNG), ("b.jpg", "jpeg", JPEG), ("d.webp", "webp", WEBP))


def test_requested_images_are_data_urls(tmp_path: Path) -> None:
    others = passage("c.md", "Chart c."), passage("d.webp", "Chart d.", image=WEBP)
    path = build_index(tmp_path / "index.db", *WITH_IMAGES, *others)
    result = search_file(path, "chart", top=4, use_gpt4v=True, gpt4v_input="images")
    images = {source.sourcepage: source.image for source in result.sources}

    assert result.notes == ()
    assert images["c.md"] is None
    for name, kind, image in EXPECTED_IMAGES:
        start, _, data = str(images[name]).partition(",")
        assert (start, b64decode(data)) == (f"data:image/{kind};base64", image)


def test_a_result_has_a_limited_number_of_images(tmp_path: Path) -> None:
    """An image may have half a megabyte, and each costs the model tokens."""
    passages = [passage(f"{n:02}.png", f"Chart {n}.", image=PNG) for n in range(12)]
    path = build_index(tmp_path / "index.db", passage("00.md", "Chart x."), *passages)
    result = search_file(path, "chart", top=50, use_gpt4v=True)
    with_image = [source.sourcepage for source in result.sources if source.image]

    assert len(result.sources) == 13
    assert with_image == [item.sourcepage for item in passages[:MAX_IMAGES]]


@pytest.mark.parametrize("overrides", [{}, {"use_gpt4v": True, "gpt4v_input": "text"}])
def test_images_that_are_not_requested_are_not_read(
    overrides: dict[str, Any], tmp_path: Path
) -> None:
    path = build_index(tmp_path / "index.db", *WITH_IMAGES)

    assert {source.image for source in search_file(path, "chart", **overrides).sources} == {None}


CARE = [
    passage("teeth.md", "All about teeth.", category="health"),
    passage("vehicle.md", "The vehicle of a dentist.", category="travel"),
    passage("other.md", "Something else."),
]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, ["vehicle.md", "teeth.md", "other.md"]),
        ({"retrieval_mode": "hybrid", "top": 1}, ["vehicle.md"]),
        ({"retrieval_mode": "text"}, ["vehicle.md"]),
        ({"retrieval_mode": "vectors"}, ["teeth.md", "other.md", "vehicle.md"]),
        ({"retrieval_mode": "vectors", "exclude_category": "health"}, ["other.md", "vehicle.md"]),
        ({"include_category": "health"}, ["teeth.md"]),
        ({"retrieval_mode": "vectors", "minimum_search_score": 0.9}, ["teeth.md"]),
        ({"minimum_search_score": 0.2}, ["vehicle.md"]),
    ],
)
def test_text_vector_and_hybrid_search_return_the_expected_passages(
    overrides: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=VECTORS)
    result = search_file(path, "dentist", EMBEDDING, **overrides)
    mode = overrides.get("retrieval_mode", "hybrid")

    assert names(result) == expected
    assert result.notes == ()
    assert (result.props["retrieval_mode"], result.props["has_vector"]) == (mode, mode != "text")


def test_weight_of_a_model_decides_between_words_and_vectors(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=VECTORS)

    assert names(search_file(path, "dentist", EMBEDDING))[0] == "vehicle.md"
    assert names(search_file(path, "dentist", replace(EMBEDDING, weight=2.0)))[0] == "teeth.md"


def test_passage_whose_vector_is_missing_is_found_by_words(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=VECTORS)
    last = "SELECT key FROM body WHERE sourcepage = 'other.md'"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DELETE FROM vector WHERE passage IN ({last})")

    assert names(search_file(path, "something else", EMBEDDING))[0] == "other.md"


def test_a_query_without_words_is_searched_by_vector(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=VECTORS)

    assert len(names(search_file(path, "?", EMBEDDING))) == 3


ANOTHER = Embedding("another", embed)


@pytest.mark.parametrize(
    ("meta", "embedding", "reason"),
    [
        (NO_VECTORS, EMBEDDING, "the index has no vectors"),
        (VECTORS, None, "no embedding model is configured"),
        (VECTORS, ANOTHER, "the index was built with another embedding model"),
    ],
)
def test_text_search_is_used_and_noted_if_the_vectors_cannot_be_used(
    meta: IndexMeta, embedding: Embedding | None, reason: str, tmp_path: Path
) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=meta)
    result = search_file(path, "dentist", embedding, retrieval_mode="hybrid")

    assert result.notes == (f"retrieval_mode hybrid was left out: {reason}; text was used.",)
    assert names(result) == ["vehicle.md"]
    assert search_file(path, "dentist", embedding).notes == ()


WITHOUT_NUMPY = """
import asyncio, sys
sys.modules["numpy"] = None
from pathlib import Path
from tests.support.index_files import EMBEDDING, search_file
result = search_file(Path(sys.argv[1]), "dentist", EMBEDDING, retrieval_mode="vectors")
print(len(result.sources), *result.notes)
"""


def test_text_search_is_used_without_numpy(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=VECTORS)
    command = [sys.executable, "-c", WITHOUT_NUMPY, str(path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert process.stdout == (
        "1 retrieval_mode vectors was left out: numpy, which vector search needs, is not installed "
        "(pip install numpy);"
        " text was used.\n"
    )
    assert "the search is by text: numpy, which vector search needs, is not" in process.stderr


async def refuse(texts: Sequence[str]) -> list[list[float]]:
    raise TooManyRequests


async def embed_in_3_dimensions(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, 2.0, 3.0]]


def test_a_failing_embedding_model_and_wrong_dimensions_are_errors(tmp_path: Path) -> None:
    path = build_index(tmp_path / "index.db", *CARE, meta=VECTORS)
    with pytest.raises(TooManyRequests):
        search_file(path, "dentist", Embedding("a-model", refuse), retrieval_mode="vectors")
    with pytest.raises(Misconfigured) as other:
        search_file(path, "dentist", Embedding("a-model", embed_in_3_dimensions))

    assert "its vectors have 2 dimensions, the model's have 3." in str(other.value.cause)
    assert names(search_file(path, "dentist", Embedding("a-model", refuse), retrieval_mode="text"))


class StalledEmbedding:
    """An embedding model that never answers, and records the events of a call."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.events.append("called")
        try:
            await asyncio.sleep(3600)
        finally:
            self.events.append("ended")
        return []


def test_a_failed_text_search_cancels_the_call_of_the_embedding_model(tmp_path: Path) -> None:
    """Both run concurrently: the search does not wait for the model."""
    path, stalled = build_index(tmp_path / "index.db", *CARE, meta=VECTORS), StalledEmbedding()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE words")
    with pytest.raises(Unavailable):
        search_file(path, "dentist", Embedding("a-model", stalled.embed))

    assert stalled.events == ["called", "ended"]
