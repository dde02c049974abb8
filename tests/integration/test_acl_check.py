"""A folder that has lost its rules: `make index` refuses to make its restricted files public."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from ingest.splitting.passages import Passage
from ingest.targets.index_writer import Document
from ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.domain.events import decode_path
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.azurite import AzuriteHome, make_home
from tests.support.ingest_azure import Filled
from tests.support.ingest_command import Seeing, run_command, talking, write
from tests.support.sqlite_writer import dump_index
from tests.support.upstream import run_upstream

RULES = "board/**: {groups: [board]}\npeople/anna.md: {oids: [anna]}"
FILES = ("a.md", "board/pay.md", "board/plan.md", "people/anna.md")
STORAGE = "/subscriptions/1/resourceGroups/r/providers/Microsoft.Storage/storageAccounts/s"
REFUSAL = (
    "acl.yaml is missing or restricts no file, and the index restricts files of this folder "
    "({number}, such as {name}): this run would make them public. Put acl.yaml with its rules "
    "back, or make these files public by --no-rules (make index ARGS=--no-rules).\n"
)
THREE = REFUSAL.format(number=3, name="board/pay.md")


@dataclass(frozen=True)
class Index:
    """An index that the command fills by `settings`, and the model that makes its vectors."""

    settings: dict[str, str]
    model: Seeing
    file: Path
    service: Filled | None = None

    def content(self) -> Any:
        """All that it holds."""
        if self.service is None:
            return dump_index(self.file)
        return {key: dict(doc) for key, doc in self.docs.items()}

    @property
    def docs(self) -> dict[str, dict[str, Any]]:
        return self.service.indexes["docs"].docs if self.service else {}

    def passages(self) -> list[tuple[str, bool]]:
        """The file of each passage, and whether everyone may see it."""
        if self.service is None:
            return [(name, public) for _, public, _, name in dump_index(self.file)["passage"]]
        return [
            (decode_path(doc["sourcefile"]), not doc["oids"] and not doc["groups"])
            for doc in self.docs.values()
        ]

    def names(self) -> set[str]:
        """The files with passages."""
        return {name for name, _ in self.passages()}

    def restricted(self) -> set[str]:
        """The files with passages that only some may see."""
        return {name for name, public in self.passages() if not public}

    def writes(self) -> int:
        """How many requests have changed something in Azure AI Search."""
        requests = self.service.requests if self.service else ()
        return sum(one.method == "PUT" or "search.index" in one.path for one in requests)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> AzuriteHome:
    return make_home(tmp_path_factory.mktemp("home"))


INDEXES = [
    pytest.param("embedded", marks=pytest.mark.part("embedded-index")),
    pytest.param("Azure AI Search", marks=pytest.mark.part("azure-ingestion")),
]


@pytest.fixture(params=INDEXES)
def index(request: pytest.FixtureRequest, tmp_path: Path, home: AzuriteHome) -> Iterator[Index]:
    with ExitStack() as stack:
        model = stack.enter_context(run_upstream(Seeing()))
        file = tmp_path / "own.db"
        settings = {**talking(model), "INDEX_FILE": str(file)}
        if request.param == "embedded":
            yield Index(settings, model, file)
            return
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(home.folder / "server.pem")
        service = stack.enter_context(run_upstream(Filled(), tls))
        settings |= {
            "AZURE_SEARCH_ENDPOINT": service.url,
            "AZURE_SEARCH_INDEX": "docs",
            "SSL_CERT_FILE": home.ca,
            "PATH": f"{home.folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        }
        yield Index(settings, model, file, service)


@pytest.fixture
def folder(index: Index, tmp_path: Path) -> Path:
    """Documents that are in the index with their rules."""
    docs = tmp_path / "docs"
    for name in FILES:
        write(docs, name, f"The costs in {name}.")
    write(docs, "acl.yaml", RULES)
    done = run_command(str(docs), **index.settings)
    assert "4 documents put" in done.stdout, done.stderr
    return docs


def refusal(folder: Path, index: Index, *arguments: str) -> str:
    """Why a run is refused that has changed nothing, and has not called the model."""
    before, writes, calls = index.content(), index.writes(), len(index.model.requests)
    done = run_command(str(folder), *arguments, **index.settings)

    assert done.returncode == 1
    assert (index.content(), index.writes(), len(index.model.requests)) == (before, writes, calls)
    assert not list(index.file.parent.glob("own.db.part*"))
    return done.stderr


@pytest.mark.parametrize("arguments", [(), ("--prune",)], ids=" ".join)
def test_folder_without_its_former_rules_is_rejected(
    folder: Path, index: Index, arguments: tuple[str, ...]
) -> None:
    (folder / "acl.yaml").rename(folder.parent / "renamed")

    assert refusal(folder, index, *arguments) == THREE
    (folder.parent / "renamed").rename(folder / "acl.yaml")
    assert "4 unchanged" in run_command(str(folder), **index.settings).stdout


def test_no_rules_makes_only_the_folder_public(folder: Path, index: Index) -> None:
    (folder / "acl.yaml").unlink()
    (folder / "board/plan.md").unlink()
    refused = refusal(folder, index)
    done = run_command(str(folder), "--no-rules", **index.settings)

    assert refused == REFUSAL.format(number=2, name="board/pay.md")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 documents put (2 passages), 1 unchanged, 0 unreadable" in done.stdout
    assert index.restricted() == {"board/plan.md"}
    assert run_command(str(folder), **index.settings).returncode == 0


def test_no_rules_conflicts_with_rules(folder: Path, index: Index) -> None:
    message = refusal(folder, index, "--no-rules")

    assert message == (
        "--no-rules contradicts acl.yaml in the folder: leave out --no-rules, or remove acl.yaml "
        "to make its files public.\n"
    )


@pytest.mark.parametrize("rules", ["{}", "a.md: {groups: []}\nboard/pay.md: {oids: []}"])
def test_empty_rules_apply_to_matching_files_only(folder: Path, index: Index, rules: str) -> None:
    write(folder, "acl.yaml", rules)
    number, name = (3, "board/pay.md") if rules == "{}" else (2, "board/plan.md")

    assert refusal(folder, index) == REFUSAL.format(number=number, name=name)


def test_rules_with_empty_lists_need_no_option(folder: Path, index: Index) -> None:
    write(folder, "acl.yaml", '"**": {groups: [], oids: []}')
    done = run_command(str(folder), **index.settings)

    assert (done.returncode, done.stderr) == (0, "")
    assert index.restricted() == set()


def test_rules_for_another_file_are_accepted(folder: Path, index: Index) -> None:
    write(folder, "acl.yaml", "board/plan.md: {groups: [board]}")
    done = run_command(str(folder), **index.settings)

    assert (done.returncode, done.stderr) == (0, "")
    assert index.restricted() == {"board/plan.md"}


def test_other_folder_is_rejected_only_for_equal_names(
    folder: Path, index: Index, tmp_path: Path
) -> None:
    write(tmp_path, "other/b.md", "Bananas.")
    other = run_command(str(tmp_path / "other"), **index.settings)
    restricted = index.restricted()
    write(tmp_path, "other/board/plan.md", "Another plan.")

    assert (other.returncode, other.stderr) == (0, "")
    assert restricted == set(FILES) - {"a.md"}
    assert refusal(tmp_path / "other", index) == REFUSAL.format(number=1, name="board/plan.md")


def test_restricted_names_are_unicode_normalized(folder: Path, index: Index) -> None:
    name = "r\u00e9sum\u00e9.md"
    write(folder, normalize("NFD", name), "Work.")
    write(folder, "acl.yaml", f"{name}: {{oids: [anna]}}")
    run_command(str(folder), **index.settings)
    (folder / normalize("NFD", name)).rename(folder / normalize("NFC", name))
    (folder / "acl.yaml").unlink()

    assert refusal(folder, index) == REFUSAL.format(number=1, name=name)


def test_restrictions_are_found_with_another_embedding_model(folder: Path, index: Index) -> None:
    (folder / "acl.yaml").unlink()
    index.settings["OPENAI_EMBEDDING_MODEL"] = ""

    assert refusal(folder, index) == THREE


@pytest.mark.parametrize("index", ["embedded"], indirect=True)
def test_restrictions_of_an_interrupted_run_are_found(index: Index, tmp_path: Path) -> None:
    restricted = Passage("a-1", "Apples.", "a.md", "a.md", "", oids=("anna",))

    async def broken_off() -> None:
        target = SqliteIndexWriter(index.file, IndexMeta())
        await target.put(Document("a.md", "1", (restricted,)), Path("a.md"))
        await target.close()

    asyncio.run(broken_off())
    write(tmp_path, "docs/a.md", "Apples.")
    done = run_command(str(tmp_path / "docs"), **index.settings)

    assert done.returncode == 1
    assert done.stderr == REFUSAL.format(number=1, name="a.md")


@pytest.mark.skipif(not hasattr(os, "pathconf"), reason="this system has no longest path")
def test_rules_reach_a_folder_that_cannot_be_read(index: Index, tmp_path: Path) -> None:
    docs, unreadable = tmp_path / "docs", "confidential minutes"
    write(docs, "a.md", "Apples.")
    write(docs, f"{unreadable}/plan.md", "A plan.")
    run_command(str(docs), **index.settings)
    before = index.names()
    write(docs, "acl.yaml", '"**": {groups: [staff]}')
    # The same folder by a path that is too long for that of its subfolder: even root cannot list it
    detours = (os.pathconf(docs, "PC_PATH_MAX") - len(f"{docs}/acl.yaml") - 1) // len("/../docs")
    done = run_command(str(docs) + detours * "/../docs", **index.settings)

    assert before == {"a.md", f"{unreadable}/plan.md"}
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{unreadable}: File name too long." in done.stdout
    assert index.names() == index.restricted() == {"a.md"}


@pytest.mark.parametrize("index", ["Azure AI Search"], indirect=True)
def test_passages_that_cannot_be_removed_are_an_error(folder: Path, index: Index) -> None:
    assert index.service
    write(folder, "acl.yaml", '"**": {groups: [staff]}')
    keys = [key for key, doc in index.docs.items() if doc["sourcefile"] == "a.md"]
    index.service.indexes["docs"].statuses.update({key: [400, 400] for key in keys})
    failed = run_command(str(folder), **index.settings)
    restricted = index.restricted()
    repeated = run_command(str(folder), **index.settings)

    assert failed.returncode == 1
    assert "passages of files that could not be removed" in failed.stderr
    assert (restricted, index.restricted()) == (set(FILES) - {"a.md"}, set(FILES))
    assert (repeated.returncode, repeated.stderr) == (0, "")


@pytest.mark.parametrize("index", ["Azure AI Search"], indirect=True)
def test_indexer_rejects_folder_without_its_former_rules(folder: Path, index: Index) -> None:
    (folder / "acl.yaml").unlink()
    index.settings.update(
        AZURE_STORAGE_ENDPOINT="https://127.0.0.1:9",  # nothing is uploaded
        AZURE_OPENAI_ENDPOINT=index.model.url.replace("http:", "https:"),
        AZURE_OPENAI_CHAT_DEPLOYMENT="c",
        AZURE_OPENAI_EMBEDDING_DEPLOYMENT="e",
    )

    assert refusal(folder, index, "--indexer", "--storage", STORAGE) == THREE
    allowed = refusal(folder, index, "--no-rules", "--indexer", "--storage", STORAGE)
    assert "gives no vectors" in allowed  # the next that is tried
