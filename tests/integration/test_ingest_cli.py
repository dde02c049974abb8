"""The command that indexes a folder into the embedded index, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest import acl
from ingest.enrich import Enricher
from ingest.pipeline import IngestPipeline
from ingest.sandbox import SandboxReader
from ingest.scan import list_folder
from ingest.targets.sqlite.writer import COMMIT_PASSAGES
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.sqlite.connections import file_identity
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.settings import read_settings
from tests.support import corpus
from tests.support.ingest_command import PATIENCE, Seeing, run_command, talking, write
from tests.support.isolation import app_copy
from tests.support.search_writer import BY_WORDS, run_service
from tests.support.search_writer import run as in_azure
from tests.support.servers import SAMPLES, run_server
from tests.support.upstream import (
    Upstream,
    run_upstream,
)

ROWS = """
SELECT id, content, sourcepage, sourcefile, category, oids, groups
FROM passage JOIN body USING (key) JOIN file ON file.key = passage.file ORDER BY id
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    write(docs, "a.md", "# Apples\n\nApples cost two dollars.")
    write(docs, "plans/b.md", "# Bananas\n\nBananas cost three dollars.")
    return docs


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "own.db"


def search(index: SqliteRetriever, question: str, top: int = 3) -> tuple[Source, ...]:
    return asyncio.run(index.search(User(), question, Overrides(top=top))).sources


def test_readable_files_are_found_and_others_listed(tmp_path: Path, index: Path) -> None:
    known = corpus.write_corpus(tmp_path / "docs")
    done = run_command(str(known.folder), INDEX_FILE=str(index))
    listed = done.stdout.partition("Skipped:\n")[2].partition("Indexed by")[0]
    skipped = dict(line.strip().split(": ", 1) for line in listed.splitlines())

    assert (done.returncode, done.stderr) == (0, "")
    assert skipped == known.broken
    assert f"{len(known.readable)} documents put" in done.stdout
    with closing(SqliteRetriever.open(index)) as opened:
        for file in known.readable:
            hits = search(opened, file.question)
            right = [hit for hit in hits if file.sentence.lower() in hit.content.lower()]

            assert right, f"{file.question} {[hit.sourcepage for hit in hits]}"
            assert right[0].sourcepage == file.sourcepage
            assert right[0].category == file.category or right[0].category is None


def test_later_run_takes_the_folder_that_the_index_knows(folder: Path, index: Path) -> None:
    run_command(str(folder), INDEX_FILE=str(index))
    write(folder, "c.md", "# Cherries\n\nCherries cost five dollars.")
    done = run_command(INDEX_FILE=str(index))

    assert (done.returncode, done.stderr) == (0, "")
    assert f"3 documents in {folder} -> " in done.stdout
    assert "1 documents put (1 passages), 2 unchanged" in done.stdout


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"AZURE_SEARCH_ENDPOINT": "https://s.example.com", "AZURE_SEARCH_INDEX": "documents"},
        {"INDEX_FILE": "samples"},
    ],
)
def test_folder_must_be_named_where_no_index_knows_it(
    index: Path, settings: dict[str, str]
) -> None:
    done = run_command(**{"INDEX_FILE": str(index), **settings})

    assert done.returncode == 1
    assert done.stderr == "Say which folder: make index DOCS=path/to/documents\n"


def test_file_that_became_unreadable_is_counted_as_that_and_as_removed(
    folder: Path, index: Path
) -> None:
    run_command(str(folder), INDEX_FILE=str(index))
    (folder / "a.md").write_bytes(b"\x00\x01\x02")
    done = run_command(INDEX_FILE=str(index))

    assert done.returncode == 0
    counts = "0 documents put (0 passages), 1 unchanged, 1 unreadable, 0 unsupported. 1 removed, "
    assert counts in done.stdout
    assert "a.md: Its content is not what its name says." in done.stdout


def test_counts_of_the_summary_add_up_to_the_documents_of_the_folder(
    folder: Path, index: Path
) -> None:
    run_command(str(folder), INDEX_FILE=str(index))
    write(folder, "c.md", "# Cherries\n\nCherries cost five dollars.")
    write(folder, ".hidden.md", "Hidden.")
    (folder / "d.pdf").write_bytes(b"no pdf")
    (folder / "e.bin").write_bytes(b"\x00\x01\x02")
    (folder / "f.exe").write_bytes(b"MZ\x00")
    done = run_command(INDEX_FILE=str(index))

    assert f"6 documents in {folder} -> " in done.stdout
    counts = "1 documents put (1 passages), 2 unchanged, 1 unreadable, 2 unsupported. "
    assert f"\n{counts}0 removed, 1 files left out, in " in done.stdout


def test_several_folders_are_refused_with_what_to_do(folder: Path, index: Path) -> None:
    done = run_command(f"{folder} {folder / 'plans'}", INDEX_FILE=str(index))

    assert done.returncode == 1
    assert "One folder is indexed at a time: put the others into it." in done.stderr


def test_second_run_does_not_change_the_index(folder: Path, index: Path) -> None:
    first = run_command(str(folder), INDEX_FILE=str(index))
    before = file_identity(index)
    second = run_command(str(folder), INDEX_FILE=str(index))

    assert "2 documents put (2 passages), 0 unchanged" in first.stdout
    assert "0 documents put (0 passages), 2 unchanged" in second.stdout
    assert file_identity(index) == before
    assert list(index.parent.glob("own.db.part*")) == []


def test_stale_files_are_reported_and_pruned(folder: Path, index: Path) -> None:
    run_command(str(folder), INDEX_FILE=str(index))
    (folder / "a.md").unlink()
    done = run_command(str(folder), INDEX_FILE=str(index))
    pruned = run_command(str(folder), "--prune", INDEX_FILE=str(index))

    assert "1 more are in the index and not in the folder: --prune removes them." in done.stdout
    assert (
        "0 documents put (0 passages), 1 unchanged, 0 unreadable, 0 unsupported. 1 removed"
        in pruned.stdout
    )
    with closing(SqliteRetriever.open(index)) as opened:
        assert search(opened, "Apples") == ()


def test_index_of_another_folder_is_reported(folder: Path, index: Path, tmp_path: Path) -> None:
    run_command(str(folder), INDEX_FILE=str(index))
    write(tmp_path / "other", "c.md", "Cherries.")
    done = run_command(str(tmp_path / "other"), INDEX_FILE=str(index))
    pruned = run_command(str(tmp_path / "other"), "--prune", INDEX_FILE=str(index))

    assert f"own.db was made from {folder}" in done.stdout + done.stderr
    assert "was made from" not in pruned.stdout + pruned.stderr
    assert "2 removed" in pruned.stdout


def test_missing_dependency_is_named(folder: Path) -> None:
    code = (
        "import sys, runpy; sys.modules['tqdm'] = None; sys.argv = ['ingest', 'x'];"
        "runpy.run_module('ingest', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=app_copy(), capture_output=True, text=True
    )

    assert done.returncode == 1
    assert done.stderr.startswith("tqdm is not installed. Install the dependencies of ingestion: ")
    assert "Traceback" not in done.stderr


INVALID_OPTIONS = (["--largest", "0"], ["--seconds", "0"], ["--indexer"], ["--storage", "x"])


@pytest.mark.parametrize("options", INVALID_OPTIONS)
def test_invalid_options_are_rejected(folder: Path, options: list[str]) -> None:
    done = run_command(str(folder), *options)

    assert done.returncode == 2
    assert "error: --" in done.stderr


MISTAKES: Mapping[str, tuple[dict[str, str], dict[str, str], str]] = {
    "no such folder": ({}, {}, "docs is not a folder that can be read."),
    "an empty folder": ({".hidden": "x"}, {}, "docs has no documents."),
    "a folder that cannot be read": (
        {"a.docx": "x", "b.json": "{", ".env": "x"},
        {},
        "docs could be read, so nothing was indexed",
    ),
    "a mistake in the rules": (
        {"a.md": "x", "acl.yaml": "bord/**: {groups: [x]}"},
        {},
        "acl.yaml: bord/** fits none of the documents.",
    ),
    "rules that contradict each other": (
        {"pub/hr.md": "x", "acl.yaml": '"pub/**": {groups: []}\n"**/hr.md": {groups: [hr]}'},
        {},
        'Add a rule for "pub/**/hr.md", which is more specific than both.',
    ),
    "rules at another place": (
        {"a/b.md": "x", "a/acl.yaml": "b.md: {groups: [x]}"},
        {},
        "a/acl.yaml would not be obeyed: the rules belong into acl.yaml at the top.",
    ),
    "rules by another name": (
        {"a/b.md": "x", "acl copy.yaml": "a/b.md: {groups: [x]}"},
        {},
        "if all files are public, use --no-rules (make index ARGS=--no-rules).",
    ),
    "a wrong setting": ({"a.md": "x"}, {"DEFAULT_TOP": "0"}, "DEFAULT_TOP must be 1 or more"),
    "half a setting": (
        {"a.md": "x"},
        {"AZURE_SEARCH_ENDPOINT": "https://x"},
        "AZURE_SEARCH_INDEX is required with AZURE_SEARCH_ENDPOINT",
    ),
    "the samples": ({"a.md": "x"}, SAMPLES, "INDEX_FILE must name a file to write"),
    "a folder that cannot be written to": (
        {"a.md": "x"},
        {"INDEX_FILE": "/proc/none/own.db"},
        "own.db",
    ),
    "an embedding model that does not answer": (
        {"a.md": "x"},
        {
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
            "OPENAI_CHAT_MODEL": "m",
            "OPENAI_EMBEDDING_MODEL": "e",
        },
        "e gives no vectors (e: connection refused: http://127.0.0.1:9): does it run",
    ),
}


def test_no_rules_skips_files_that_look_like_rules(folder: Path, index: Path) -> None:
    write(folder, "acl.yaml.disabled", "plans/**: {groups: [board]}")
    write(folder, "acl-injury.md", "A torn ligament.")
    done = run_command(str(folder), "--no-rules", INDEX_FILE=str(index))

    assert (done.returncode, done.stderr) == (0, "")
    assert "3 documents put" in done.stdout
    assert "acl.yaml.disabled: Its name is one of access rules." in done.stdout


@pytest.mark.parametrize("mistake", MISTAKES)
def test_errors_are_reported_and_nothing_is_indexed(
    tmp_path: Path, index: Path, mistake: str
) -> None:
    files, settings, sentence = MISTAKES[mistake]
    for name, text in files.items():
        write(tmp_path / "docs", name, text)
    done = run_command(str(tmp_path / "docs"), **{"INDEX_FILE": str(index), **settings})

    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not index.exists()


def test_unreadable_folder_leaves_another_index_alone(
    tmp_path: Path, folder: Path, index: Path
) -> None:
    run_command(str(folder), INDEX_FILE=str(index))
    before = index.read_bytes()
    write(tmp_path / "other", "c.json", "{")
    done = run_command(str(tmp_path / "other"), INDEX_FILE=str(index))

    assert done.returncode == 1
    assert "  c.json: It is not valid JSON (line 1)." in done.stdout
    assert index.read_bytes() == before


def test_index_by_words_alone_names_the_settings_of_an_embedding_model(
    folder: Path, index: Path
) -> None:
    done = run_command(str(folder), INDEX_FILE=str(index))
    settings = json.loads(f"{{{done.stdout.rpartition('again:')[2]}}}")

    assert "Indexed by words alone" in done.stdout
    assert settings.keys() == {"EMBEDDINGS"}
    assert read_settings(settings).embeddings == "builtin"


def test_index_with_vectors_suggests_no_embedding_model(
    folder: Path, index: Path, model: Upstream
) -> None:
    done = run_command(str(folder), INDEX_FILE=str(index), **talking(model))

    assert done.returncode == 0, done.stderr
    assert "by words alone" not in done.stdout


def passages(index: Path) -> list[tuple[Any, ...]]:
    """All that an index says of its passages, in the order of their ids."""
    with closing(sqlite3.connect(index)) as opened:
        return opened.execute(ROWS).fetchall()


def written_down(part: Path) -> int:
    """How many files a run that goes on would not lose if it were killed now."""
    try:
        with closing(sqlite3.connect(f"{part.as_uri()}?mode=ro", uri=True)) as opened:
            (number,) = opened.execute("SELECT count(*) FROM file").fetchone()
            return int(number)
    except sqlite3.OperationalError:  # there is none yet
        return 0


def killed_after(folder: Path, index: Path, files: int) -> int:
    """Kill a run when it has written down more than some files; how many there were."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ingest", str(folder)],
        cwd=app_copy(),
        env={**os.environ, "INDEX_FILE": str(index)},
        stdout=subprocess.PIPE,
    )
    while (held := written_down(index.with_name(f"{index.name}.part"))) <= files:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.communicate()
    return held


def test_killed_run_is_continued(tmp_path: Path, index: Path) -> None:
    docs, files, each = tmp_path / "docs", 30, COMMIT_PASSAGES // 8
    for number in range(files):
        parts = [f"# Part {part}\n\nIt costs {number} dollars." for part in range(each)]
        write(docs, f"{number}.md", "\n\n".join(parts))
    first = killed_after(docs, index, 0)
    second = killed_after(docs, index, first)
    done = run_command(str(docs), INDEX_FILE=str(index))
    fresh = tmp_path / "fresh.db"
    run_command(str(docs), INDEX_FILE=str(fresh))
    unchanged = int(done.stdout.partition(" unchanged")[0].split()[-1])

    assert done.returncode == 0, done.stderr
    assert 0 < first < second <= unchanged
    assert len(passages(index)) == files * each
    assert passages(index) == passages(fresh)


def test_ctrl_c_stops_with_a_message(tmp_path: Path, index: Path) -> None:
    for number in range(3000):
        write(tmp_path / "docs", f"{number}.md", f"Number {number}.")
    process = subprocess.Popen(
        [sys.executable, "-m", "ingest", str(tmp_path / "docs")],
        cwd=app_copy(),
        env={**os.environ, "INDEX_FILE": str(index)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("3000 documents in ")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)

    assert process.returncode == 130
    assert stderr == "Stopped. The index keeps what it has; run the command again to continue.\n"


@pytest.fixture
def model() -> Iterator[Upstream]:
    with run_upstream(Seeing()) as running:
        yield running


def test_image_is_described_found_and_returned(
    tmp_path: Path, index: Path, model: Upstream
) -> None:
    known = corpus.write_corpus(tmp_path / "docs")
    for name in {file.name for file in known.readable if not file.picture} | known.broken.keys():
        (known.folder / name).unlink()
    chart = next(file for file in known.readable if file.name.endswith("org-chart.png"))
    settings = {**talking(model), "INDEX_FILE": str(index)}
    done = run_command(str(known.folder), **settings)
    assert done.returncode == 0, done.stderr
    described = len(
        [request for request in model.requests if request.path.endswith("/completions")]
    )
    overrides = {"use_gpt4v": True, "retrieval_mode": "text", "top": 1}
    body = {
        "messages": [{"role": "user", "content": chart.question}],
        "context": {"overrides": overrides},
    }
    with run_server("dev", tmp_path, settings) as server, server.client() as client:
        response = client.post("/chat", json=body)
        assert response.status_code == 200, f"{response.text} {server.log}"
        context = response.json()["context"]
        opened = client.get(f"/content/{chart.sourcepage}")
    content = model.requests[-1].body["messages"][-1]["content"]
    (image,) = context["data_points"]["images"]

    assert done.returncode == 0, done.stderr
    assert described >= 6
    assert "images described by gpt-4o" in done.stdout
    assert "Anna leads the board." in context["data_points"]["text"][0]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert content[1]["image_url"]["url"] == image["url"]
    assert image["url"].startswith("data:image/")
    assert opened.content == (known.folder / chart.name).read_bytes()
    assert len(context["thoughts"]) == 4


def test_app_uses_a_new_index_without_restart(tmp_path: Path, folder: Path, index: Path) -> None:
    settings = {"INDEX_FILE": str(index)}
    run_command(str(folder), **settings)

    def cited(client: Any, question: str) -> list[str]:
        body = {"messages": [{"role": "user", "content": question}]}
        citations: list[str] = client.post("/chat", json=body).json()["context"]["data_points"][
            "citations"
        ]
        return citations

    with run_server("dev", tmp_path, settings) as server, server.client() as client:
        before = cited(client, "What do cherries cost?")
        write(folder, "c [new] #1.md", "Cherries cost four dollars.")
        run_command(str(folder), **settings)
        after = cited(client, "What do cherries cost?")
        opened = client.get(f"/content/{after[0]}")

    assert "c %5Bnew%5D %231.md" not in before
    assert after[0] == "c %5Bnew%5D %231.md"
    assert opened.text == "Cherries cost four dollars."


def test_both_indexes_have_the_same_passages(tmp_path: Path, index: Path) -> None:
    known = corpus.write_corpus(tmp_path / "docs")
    write(known.folder, "acl.yaml", "plans/**: {groups: [board], oids: [anna]}")
    run_command(str(known.folder), INDEX_FILE=str(index))
    files = list_folder(known.folder)
    rules = acl.read_acl(known.folder, [file.name for file in files.files], files.acl_files)

    async def fill(target: Any) -> None:
        async with SandboxReader() as reader:
            await IngestPipeline(reader, target, Enricher()).run(files, rules)

    with run_service() as running:
        in_azure(running, fill, index_spec=BY_WORDS)
        there = running.indexes["docs"].docs
    here = {
        row[0]: (*row[1:4], row[4] or None, *map(json.loads, row[5:])) for row in passages(index)
    }

    assert here == {
        key: (
            doc["content"],
            doc["sourcepage"],
            doc["sourcefile"],
            doc["category"] or None,
            doc["oids"],
            doc["groups"],
        )
        for key, doc in there.items()
    }
    assert {"board"} == {group for row in here.values() for group in row[5]}
