"""Questions that contain the file name of an upload: the model gets it whole, if it fits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain.errors import ChatError, Misconfigured, Unavailable
from shared.domain.events import Source
from shared.protocols.openai.models import TaskModelsConfig
from shared.rag.documents import NOT_READ, NOT_WHOLE
from shared.rag.whole_documents import MAX_DOCUMENTS
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.uploads.base import Upload
from shared.uploads.folder.records import INDEX
from shared.uploads.folder.store import FolderUploads
from shared.uploads.retriever import UploadsRetriever
from tests.support.calls import ANNA, BEN, BufferedReply, ask, call, local_service
from tests.support.fakes import PLUS, make_rag
from tests.support.input_files import CHAT, LIMITS, SECTIONS, TEXT, Files, body_of

QUESTION = "What does animals.md say?"
WITHOUT_A_NAME = "Which animals are there?"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def chat(
    files: Files, text: str = QUESTION, headers: dict[str, str] = ANNA, **overrides: Any
) -> BufferedReply:
    turn = {"role": "user", "content": text}
    body = {"messages": [turn], "context": {"overrides": overrides}}
    return ask(call("/chat", body, headers), files.app)


def notes(reply: BufferedReply) -> list[str]:
    assert reply.status == 200, reply.data
    return [note for step in reply.json["context"]["thoughts"][4:] for note in step["description"]]


def number_of_sections(files: Files) -> int:
    return sum(text in files.prompt for text in SECTIONS)


def test_mentioned_file_is_whole_and_in_order(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    reply = chat(files, "What does ANIMALS.md say?")
    places = [files.prompt.find(text) for text in SECTIONS]

    assert notes(reply) == []
    assert min(places) >= 0
    assert places == sorted(places)


def test_file_is_whole_only_if_it_is_mentioned_in_the_newest_question(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    turns = [("user", QUESTION), ("assistant", "Quokkas."), ("user", WITHOUT_A_NAME)]
    body = {"messages": [{"role": role, "content": text} for role, text in turns]}
    files.model.query = WITHOUT_A_NAME
    ask(call("/chat", body, ANNA), files.app)

    assert 0 < number_of_sections(files) < 10


def test_mentioned_files_are_in_the_order_of_the_question(files: Files) -> None:
    for name in ("a.md", "b.md", "c.md"):
        files.add("anna", name, f"# Text\n\nThe text of {name[0]}.")
    chat(files, "Compare c.md and a.md.")
    places = [files.prompt.find(f"The text of {name}.") for name in "ca"]

    assert 0 <= places[0] < places[1]


def test_file_of_another_user_is_not_mentioned(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    reply = chat(files, headers=BEN)

    assert notes(reply) == []
    assert number_of_sections(files) == 0


def test_own_file_is_meant_where_another_user_has_one_of_its_name(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    files.add("ben", "animals.md", "# Ben\n\nThe animal of Ben is a numbat.")
    chat(files, headers=BEN)

    assert "numbat" in files.prompt
    assert number_of_sections(files) == 0


def test_newest_file_of_a_name_is_meant(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    files.uploads.now += 1
    id = files.add("anna", "animals.md", "# New\n\nAnimals there: numbats.\n\n# More\n\nA piece.")
    chat(files, top=1)

    assert "A piece." in files.prompt
    assert f"{id}/animals.md" in files.prompt
    assert number_of_sections(files) <= 1


@pytest.mark.part("openai")
def test_file_that_a_part_names_is_meant_where_another_has_its_name(files: Files) -> None:
    named = files.add("anna", "animals.md", "# Old\n\nAnimals: numbats.\n\n# More\n\nA piece.")
    files.uploads.now += 1
    files.add("anna", "animals.md", TEXT)
    files.add("anna", "b.md", "# B\n\nThe text of b.")
    body = body_of(CHAT, named)
    body["messages"][0]["content"][1]["text"] = "What do b.md and animals.md say?"
    ask(call(CHAT, body, ANNA), files.app)
    places = [files.prompt.find(text) for text in ("A piece.", "The text of b.")]

    assert 0 <= places[0] < places[1]
    assert number_of_sections(files) < 10


def test_ten_files_are_whole_at_most(files: Files) -> None:
    names = [f"{number}.md" for number in range(MAX_DOCUMENTS + 1)]
    for name in names:
        files.add("anna", name, f"The text of {name}.")
    files.add("anna", "zebras.md", "Zebras have black and white stripes.")
    chat(files, f"Which zebras have black and white stripes, {' '.join(names)}?", top=1)
    in_prompt = [f"text of {name}" in files.prompt for name in names]

    assert in_prompt == [True] * MAX_DOCUMENTS + [False]  # the search finds the zebras alone


def test_long_file_gives_its_best_passages(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    reply = chat(files, "What is number 35 of animals.md?")

    assert NOT_WHOLE in notes(reply)
    assert SECTIONS[35] in files.prompt
    assert number_of_sections(files) < 20


def test_no_file_is_whole_if_the_request_wants_none(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    reply = chat(files, "Which animals does animals.md have?", use_whole_documents=False)

    assert notes(reply) == []
    assert 0 < number_of_sections(files) < 10


@pytest.mark.parametrize(
    "category", [{"include_category": "plans"}, {"exclude_category": "uploads"}]
)
def test_category_leaves_mentioned_files_out(files: Files, category: dict[str, Any]) -> None:
    files.shared = SqliteRetriever([PLUS])
    files.add("anna", "animals.md", TEXT)
    chat(files, **category)

    assert number_of_sections(files) == 0


def test_category_of_uploads_includes_mentioned_files(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    chat(files, include_category="uploads")

    assert number_of_sections(files) == len(SECTIONS)


def test_deleted_file_is_not_mentioned(files: Files) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.uploads.delete("anna", id)
    reply = chat(files)

    assert notes(reply) == []
    assert number_of_sections(files) == 0


@pytest.mark.part("openai")
def test_model_without_a_search_gets_no_mentioned_file(files: Files) -> None:
    files.add("anna", "animals.md", TEXT)
    body = {"model": "fake-no-search", "messages": [{"role": "user", "content": QUESTION}]}
    app = replace(files.app, configs=(*files.app.configs, TaskModelsConfig(True)))
    reply = ask(call(CHAT, body, ANNA), app)

    assert reply.status == 200, reply.data
    assert number_of_sections(files) == 0


# A store, or an index of uploads, that fails or stalls.

Fault = Callable[[], Any]


class FaultyStore(FolderUploads):
    """A store of which one method fails, or hangs."""

    def __init__(self, root: Path, method: str, fault: Fault) -> None:
        super().__init__(root, LIMITS, lambda: None)
        self.method, self.fault, self.listings = method, fault, 0

    async def list(self, owner: str) -> tuple[Upload, ...]:
        self.listings += 1
        if self.method == "list":
            await self.fault()
        return await super().list(owner)

    async def get(self, owner: str, ids: Iterable[str]) -> Mapping[str, Upload]:
        if self.method == "get":
            await self.fault()
        return await super().get(owner, ids)


class FaultyPassages(SqliteRetriever):
    """An index whose documents cannot be read."""

    def __init__(self, index: Path, fault: Fault) -> None:
        super().__init__(index)
        self.fault = fault

    async def list_passages(self, *_: Any) -> tuple[Source, ...]:
        await self.fault()
        return ()


async def hang() -> None:
    await asyncio.Event().wait()


def fail_with(error: ChatError) -> Fault:
    async def fail() -> None:
        raise error

    return fail


def chat_over(
    files: Files, store: FolderUploads, passages: SqliteRetriever, text: str, **overrides: Any
) -> BufferedReply:
    retriever: Any = UploadsRetriever(files.shared, passages, store, seconds=0.05)
    rag = replace(make_rag(files.model, retriever), mention_seconds=0.05)
    turn = {"role": "user", "content": text}
    body = {"messages": [turn], "context": {"overrides": overrides}}
    return ask(call("/chat", body, ANNA), local_service(rag, files.access))


@pytest.mark.parametrize("fault", [hang, fail_with(Unavailable()), fail_with(Misconfigured())])
@pytest.mark.parametrize("method", ["list", "get"])
def test_store_that_fails_or_stalls_fails_no_answer(
    files: Files, method: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    files.shared = SqliteRetriever([PLUS])
    files.add("anna", "animals.md", TEXT)
    store = FaultyStore(files.uploads.root, method, fault)
    text = "Which dental care does animals.md have?"
    reply = chat_over(files, store, files.uploads.passages, text)

    assert NOT_READ in notes(reply)
    assert "dental" in files.prompt
    assert any(each.startswith("documents of the question: not") for each in caplog.messages)


@pytest.mark.parametrize("fault", [hang, fail_with(Unavailable())])
def test_index_that_fails_or_stalls_fails_no_answer(files: Files, fault: Fault) -> None:
    files.add("anna", "animals.md", TEXT)
    passages = FaultyPassages(files.uploads.root / INDEX, fault)
    reply = chat_over(files, files.uploads.store, passages, "Which animals does animals.md have?")

    assert notes(reply) == [NOT_READ]
    assert 0 < number_of_sections(files) < 10


@pytest.mark.parametrize(
    ("text", "overrides"),
    [(WITHOUT_A_NAME, {}), (QUESTION, {"use_whole_documents": False})],
)
def test_question_that_needs_no_whole_file_costs_no_listing(
    files: Files, text: str, overrides: dict[str, Any]
) -> None:
    files.add("anna", "animals.md", TEXT)
    store = FaultyStore(files.uploads.root, "list", fail_with(Unavailable()))
    reply = chat_over(files, store, files.uploads.passages, text, **overrides)

    assert notes(reply) == []
    assert store.listings == 0
