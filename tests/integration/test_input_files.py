"""Messages of OpenAI's clients that name files: the model gets them whole, if they fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from shared.domain.errors import TooManyRequests
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.rag.documents import NOT_WHOLE
from shared.rag.whole_documents import MAX_TOKENS
from shared.retrieval.sqlite.retriever import SqliteRetriever
from tests.support.calls import ANNA, ask, call
from tests.support.fakes import PLUS, STANDARD
from tests.support.input_files import (
    KEYS,
    QUESTION,
    RESPONSES,
    ROUTES,
    SECTIONS,
    TEXT,
    Files,
    body_of,
)
from tests.support.vector_index import index_with_equal_vectors

OWN = Overrides(use_oid_security_filter=True)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("route", ROUTES)
def test_model_gets_a_named_file_whole_and_in_order(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    answer = files.ask(route, id)
    places = [files.prompt.find(text) for text in SECTIONS]

    assert answer.status == 200
    assert min(places) >= 0
    assert places == sorted(places)


@pytest.mark.parametrize("route", ROUTES)
def test_question_without_a_file_gets_passages(files: Files, route: str) -> None:
    files.add("anna", "animals.md", TEXT)
    files.ask(route)

    assert sum(text in files.prompt for text in SECTIONS) < 10


@pytest.mark.parametrize("route", ROUTES)
def test_file_too_long_for_the_model_gives_passages(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    answer = files.ask(route, id)

    assert answer.status == 200
    assert 0 < sum(text in files.prompt for text in SECTIONS) < 10
    assert answer.headers["x-chat-notice"].startswith(NOT_WHOLE)


@pytest.mark.parametrize("route", ROUTES)
def test_long_file_searched_by_words_alone_has_a_note(files: Files, route: str) -> None:
    errors = [None, TooManyRequests()]  # of the search in all uploads, and of that in the file

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        if error := errors.pop(0):
            raise error
        return [[1.0, 2.0] for _ in texts]

    id = files.add("anna", "animals.md", TEXT)
    list_all = files.uploads.passages.list_passages(User("anna"), f"{id}/animals.md", OWN)
    passages = asyncio.run(list_all)
    files.uploads.passages = index_with_equal_vectors(*passages, embed=embed)
    files.model.max_prompt_tokens = 2000
    answer = files.ask(route, id)

    assert answer.status == 200
    assert errors == []
    assert (
        answer.headers["x-chat-notice"].count("the embedding model is busy or not available") == 1
    )


@pytest.mark.parametrize("route", ROUTES)
def test_files_of_several_messages_are_named_once_each(files: Files, route: str) -> None:
    ids = [files.add("anna", f"{n}.md", f"# {n}\n\nText number {n}.") for n in range(2)]
    body = body_of(route, *ids)
    key = KEYS[route]
    body[key] = [*body[key], {"role": "assistant", "content": "Yes."}, *body_of(route, ids[0])[key]]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200
    assert [files.prompt.count(f"Text number {n}.") for n in range(2)] == [1, 1]


@pytest.mark.parametrize("route", ROUTES)
def test_files_with_the_same_text_are_both_whole(files: Files, route: str) -> None:
    ids = [files.add("anna", f"{n}.md", "# A\n\nThe same text.") for n in range(2)]
    files.ask(route, *ids)

    assert all(f"{id}/{n}.md: " in files.prompt for n, id in enumerate(ids))


@pytest.mark.parametrize("route", ROUTES)
def test_long_file_is_searched_apart_from_others(files: Files, route: str) -> None:
    files.shared = SqliteRetriever([replace(PLUS, content="Which animals are there? Quokkas.")])
    for number in range(60):
        files.uploads.add("anna", f"{number}.md", f"# {number}\n\nAnimals {number} are there.")
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    files.ask(route, id)

    assert sum(text in files.prompt for text in SECTIONS) > 1


def test_long_file_is_found_outside_of_the_category_of_the_search(files: Files) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    search = {"type": "file_search", "vector_store_ids": ["docs"]}
    only = {"filters": {"type": "eq", "key": "category", "value": "plans"}}
    body = {**body_of(RESPONSES, id), "tools": [{**search, **only}]}
    body = json.loads(json.dumps(body).replace(QUESTION, "What is number 35?"))
    ask(call(RESPONSES, body, ANNA), files.app)

    assert SECTIONS[35] in files.prompt


@pytest.mark.parametrize("route", ROUTES)
def test_long_file_without_a_word_of_the_question_gives_its_beginning(
    files: Files, route: str
) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    body = json.loads(json.dumps(body_of(route, id)).replace(QUESTION, "Zusammenfassung?"))
    ask(call(route, body, ANNA), files.app)

    assert SECTIONS[0] in files.prompt


@pytest.mark.parametrize("route", ROUTES)
def test_short_file_is_whole_beside_a_long_one(files: Files, route: str) -> None:
    long = files.add("anna", "animals.md", TEXT)
    short = files.add("anna", "short.md", "# Short\n\nThe first.\n\n# More\n\nThe second.")
    files.model.max_prompt_tokens = 2000
    files.ask(route, long, short)

    assert "The first." in files.prompt
    assert "The second." in files.prompt


@pytest.mark.parametrize("route", ROUTES)
def test_more_tokens_than_the_limit_are_not_whole(files: Files, route: str) -> None:
    text = "\n\n".join(f"# {n}\n\n{f'word{n} ' * 300}" for n in range(MAX_TOKENS // 300 + 1))
    id = files.add("anna", "long.md", text)
    answer = files.ask(route, id)

    assert answer.headers["x-chat-notice"].startswith(NOT_WHOLE)


HISTORY = [
    {"role": "user", "content": "My name is Ada." + " word" * 70},
    {"role": "assistant", "content": "Hello."},
]


@pytest.mark.parametrize("route", ROUTES)
def test_conversation_has_room_beside_a_file(files: Files, route: str) -> None:
    files.shared = SqliteRetriever([PLUS, replace(STANDARD, content="dental " * 345)])
    words = " ".join(f"word-{number}" for number in range(200))
    id = files.add("anna", "animals.md", f"# Animals\n\n{words}")
    files.model.max_prompt_tokens = 600
    body, key = body_of(route, id), KEYS[route]
    body[key] = [*HISTORY, *body[key]]
    ask(call(route, body, ANNA), files.app)

    assert "My name is Ada." in files.prompt
    assert "word-7 word-8" in files.prompt


@pytest.mark.parametrize("route", ROUTES)
def test_message_with_a_file_alone_is_not_sent(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    body, key = body_of(route, id), KEYS[route]
    (question,) = body[key]
    file, text = ({**question, "content": [part]} for part in question["content"])
    body[key] = [text, {"role": "assistant", "content": "Which file?"}, file]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200, answer.data
    assert "" not in [message.content for message in files.model.calls[-1].messages]
    assert SECTIONS[-1] in files.prompt
