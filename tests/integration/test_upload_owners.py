"""Who finds, opens, lists and deletes uploads, by every route of the app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shared.app import ROUTES
from shared.bootstrap.build import build
from shared.protocols.exchange import App
from shared.settings import read_settings
from tests.support.calls import ANNA, BEN, ask, call
from tests.support.upload_calls import (
    SETTINGS,
    delete,
    delete_by_id,
    describe,
    list_names,
    store_of,
    upload,
    wait_until_read,
)
from tests.support.upload_ways import (
    ASKING,
    KEY,
    SECRETS,
    STRANGERS,
    WAYS,
    method,
    request,
    text_of,
)
from tests.support.uploads import FORM, encode_form


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[App]:
    """An app where Anna and Ben have uploaded files of one name."""
    memory = {"MEMORY_FILE": str(folder.parent / "memory.db"), "CHAT_API_KEY": KEY}
    settings = read_settings({**SETTINGS, **memory, "UPLOADS_FOLDER": str(folder)})
    app = build(settings)
    for owner, headers in (("anna", ANNA), ("ben", BEN)):
        answer = upload(app, ("badge.md", text_of(owner)), headers=headers)
        assert answer.status in (200, 202)
    wait_until_read(app)
    yield app


def sourcefile(app: App, owner: str) -> str:
    (own,) = asyncio.run(store_of(app).list(owner))
    return own.sourcefile


@pytest.mark.parametrize("owner", ["anna", "ben"])
@pytest.mark.parametrize("way", WAYS)
def test_owner_finds_the_own_document_alone(app: App, way: tuple[str, Any], owner: str) -> None:
    headers = ANNA if owner == "anna" else BEN
    other = "ben" if owner == "anna" else "anna"
    text = ask(request(way, headers, sourcefile(app, owner)), app).data.decode()

    assert SECRETS[owner] in text
    assert SECRETS[other] not in text
    assert sourcefile(app, other) not in text


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("way", WAYS)
def test_nobody_else_finds_a_document(app: App, way: tuple[str, Any], stranger: str) -> None:
    file = sourcefile(app, "anna")
    text = ask(request(way, STRANGERS[stranger], file), app).data.decode()

    assert SECRETS["anna"] not in text
    assert text.count(file) <= ("fetch" in str(way) or "resources" in str(way))  # in an error


@pytest.mark.part("mcp")
def test_only_the_owner_is_told_of_a_document(app: App) -> None:
    file = sourcefile(app, "anna")
    way = ("/mcp", method("resources/list"))
    texts = {
        name: ask(request(way, headers, ""), app).data.decode()
        for name, headers in {"the owner": ANNA, **STRANGERS}.items()
    }

    assert file in texts.pop("the owner")
    assert [name for name, text in texts.items() if file in text] == []


@pytest.mark.parametrize(
    "overrides",
    [
        {"use_oid_security_filter": False, "use_groups_security_filter": False},
        {"include_category": "uploads"},
        {"top": 50},
        {"filter": "oids/any(g: g eq 'anna')"},
    ],
)
def test_no_override_shows_the_document_of_another(app: App, overrides: dict[str, Any]) -> None:
    body = {**ASKING, "context": {"overrides": overrides}}
    answer = ask(call("/chat", body, BEN), app)

    assert answer.status == 200
    assert SECRETS["anna"] not in answer.data.decode()


def test_users_list_their_own_uploads(app: App) -> None:
    assert list_names(app, ANNA) == list_names(app, BEN) == ["badge.md"]
    assert list_names(app, STRANGERS["another tenant"]) == []


@pytest.mark.parametrize("stranger", ["a function key", "the key of the app", "nobody"])
def test_caller_without_an_id_has_no_uploads(app: App, stranger: str) -> None:
    headers = STRANGERS[stranger]
    answers = [
        upload(app, ("a.md", b"text"), headers=headers),
        ask(call("/list_uploaded", headers=headers, method="GET"), app),
        ask(call("/uploads", headers=headers, method="GET"), app),
        delete(app, "badge.md", headers),
        delete_by_id(app, describe(app)["uploads"][0]["id"], headers),
    ]

    assert [answer.status for answer in answers] == [403] * 5
    assert ask(call("/config", headers=headers, method="GET"), app).json["uploads"] is False
    assert "Sign in" in answers[0].json["error"]


def test_upload_of_another_cannot_be_deleted(app: App) -> None:
    (own,) = describe(app)["uploads"]
    for headers in (BEN, STRANGERS["another tenant"]):
        assert delete_by_id(app, own["id"], headers).status == 404
    assert delete(app, "badge.md", STRANGERS["another tenant"]).status == 404
    assert describe(app)["uploads"] == [own]


def test_users_see_the_state_of_their_own_uploads(app: App) -> None:
    answers = {name: describe(app, headers) for name, headers in (("anna", ANNA), ("ben", BEN))}
    ids = {name: answer["uploads"][0].pop("id") for name, answer in answers.items()}
    created = [answer["uploads"][0].pop("created_at") for answer in answers.values()]

    assert len(set(ids.values())) == 2
    assert all(abs(time.time() - each) < 3600 for each in created)
    assert answers == {
        name: {
            "uploads": [{"filename": "badge.md", "bytes": len(text_of(name)), "state": "ready"}],
            "max_bytes": 32 * 2**20,
            "max_uploads": 100,
        }
        for name in ids
    }
    assert describe(app, STRANGERS["another tenant"])["uploads"] == []


@pytest.mark.part("openai")
def test_files_of_openai_are_those_of_their_owner(app: App) -> None:
    (own,) = describe(app)["uploads"]
    listed = ask(call("/v1/files", headers=ANNA, method="GET"), app).json["data"]
    assert [file["id"] for file in listed] == [own["id"]]
    for name, status in (
        *(("another user", 404), ("another tenant", 404), ("the key of the app", 403)),
        *(("a function key", 401), ("nobody", 401)),
    ):
        headers, form = STRANGERS[name], encode_form(("a.md", b"text"))
        answers = [
            ask(call("/v1/files/{id}", headers=headers, method=method, path=own["id"]), app).status
            for method in ("GET", "DELETE")
        ]
        assert answers == [status] * 2
        if status != 404:
            assert ask(call("/v1/files", form, headers | FORM), app).status == status
            assert ask(call("/v1/files", headers=headers, method="GET"), app).status == status
    assert describe(app)["uploads"] == [own]


def test_page_offers_uploads_to_who_can_own_them(app: App) -> None:
    config = ask(call("/config", headers=ANNA, method="GET"), app).json

    assert (config["uploads"], config["showUserUpload"]) == (True, False)


@pytest.mark.part("page")
def test_page_that_needs_a_token_offers_uploads_with_one(app: App) -> None:
    for headers, offered in ((ANNA, True), (STRANGERS["the key of the app"], False)):
        token = headers | {"x-ms-token-aad-access-token": "a.b.c"}
        config = ask(call("/config", headers=token, method="GET"), app).json
        assert config["showUserUpload"] is offered


def test_page_of_another_site_cannot_upload(app: App) -> None:
    cookie = {"cookie": "AppServiceAuthSession=x", "sec-fetch-site": "cross-site"}
    assert upload(app, ("a.md", b"text"), headers=ANNA | cookie).status == 403


def test_every_way_to_a_passage_is_in_the_table(app: App) -> None:
    ways = {way.values[0][0] if hasattr(way, "values") else way[0] for way in WAYS}
    # Those that answer as one of the table does, under another address.
    same = ("/openai/", "/v1/models", "/v1/{*path}", "/v1/responses/")
    rest = {route for route in ROUTES if not route.startswith(same)} - ways
    without_passages = {
        *("/feedback", "/feedback/copies/{id}", "/feedback/conversations/{id}"),
        *("/health", "/config", "/auth_setup", "/"),
        *("/upload", "/list_uploaded", "/delete_uploaded", "/uploads", "/uploads/{id}"),
        *("/page/{path}", "/api/openapi.json", "/v1/files", "/v1/files/{id}"),
        *("/aog/v0.2/service", "/aog/v0.2/service_provider", "/aog/{*path}"),
    }
    others = {route for route in rest if not route.startswith(("/_", "/api/chat/"))}
    assert others - without_passages == set()


# A random walk of two users over the routes.

HEADERS = {"anna": ANNA, "ben": BEN}
WALK_STEPS = 60
EVERYTHING = {**ASKING, "context": {"overrides": {"top": 50, "include_category": "uploads"}}}


class Walk:
    """Two users who upload, delete and ask at random. Each text has a word of its own."""

    def __init__(self, app: App, seed: int) -> None:
        self.app, self.chance = app, Random(seed)
        self.words: dict[str, str] = {}  # by the id of the upload
        self.files: dict[str, list[str]] = {owner: [] for owner in HEADERS}

    def step(self) -> None:
        owner = self.chance.choice(list(HEADERS))
        other = next(each for each in HEADERS if each != owner)
        actions = (self.add, self.add, self.delete, self.delete_by_id, self.ask, self.ask)
        text = self.chance.choice(actions)(owner, other)
        self.check(owner, other, text)

    def check(self, owner: str, other: str, text: str) -> None:
        """Check that a reply to one user has nothing of the other."""
        foreign = {file.partition("/")[0] for file in self.files[other]}
        assert [word for id, word in self.words.items() if id in foreign and word in text] == []

    def add(self, owner: str, _other: str) -> str:
        name, headers = self.chance.choice(("a.md", "b.md")), HEADERS[owner]
        word = f"animal{len(self.words)}of{owner}"
        text = f"# Badges\n\nThe animal on the secret badge is the {word}."
        answer = upload(
            self.app, (name, text.encode()), headers=headers | {"prefer": "respond-async"}
        )
        assert answer.status == 202
        ids = {it["id"] for it in describe(self.app, headers)["uploads"]} - self.words.keys()
        self.words[ids.pop()] = word
        self.files[owner] = [*self.files[owner], f"{next(reversed(self.words))}/{name}"]
        return answer.data.decode()

    def delete(self, owner: str, _other: str) -> str:
        own = list_names(self.app, HEADERS[owner])
        answer = delete(self.app, self.chance.choice(("a.md", "b.md")), HEADERS[owner])
        assert answer.status == 200 or own != ["a.md", "b.md"]
        return answer.data.decode()

    def delete_by_id(self, owner: str, other: str) -> str:
        files = self.files[self.chance.choice((owner, other))] or ["upload-aaaaaaaaaaaaaaaa/a.md"]
        file = self.chance.choice(files)
        answer = delete_by_id(self.app, file.partition("/")[0], HEADERS[owner])
        assert answer.status == 404 or file in self.files[owner]
        return answer.data.decode()

    def ask(self, owner: str, other: str) -> str:
        way = self.chance.choice(WAYS)
        files = self.files[self.chance.choice((owner, other))] or ["upload-aaaaaaaaaaaaaaaa/a.md"]
        way = way.values[0] if hasattr(way, "values") else way
        call = request(way, HEADERS[owner], self.chance.choice(files))
        return ask(call, self.app).data.decode()

    def found(self, owner: str) -> set[str]:
        """The words in all that the user finds."""
        text = ask(call("/chat", EVERYTHING, HEADERS[owner]), self.app).data.decode()
        return {word for word in self.words.values() if f"the {word}." in text}

    def opened(self, owner: str) -> set[str]:
        """The words in all files that the user can open."""
        files = [file for files in self.files.values() for file in files]
        ways = (request(("/content/{path}", None), HEADERS[owner], file) for file in files)
        texts = [ask(way, self.app).data.decode() for way in ways]
        return {word for word in self.words.values() if f"the {word}." in " ".join(texts)}


@pytest.mark.parametrize("seed", range(3))
def test_two_users_on_a_random_walk_never_meet(tmp_path: Path, seed: int) -> None:
    app = build(read_settings({**SETTINGS, "UPLOADS_FOLDER": str(tmp_path / "uploads")}))
    walk = Walk(app, seed)
    for _ in range(WALK_STEPS):
        walk.step()
    wait_until_read(app)

    for owner, headers in HEADERS.items():
        kept = describe(app, headers)["uploads"]
        assert {it["state"] for it in kept} <= {"ready"}
        assert len({it["filename"] for it in kept}) == len(kept)  # the earlier ones are replaced
        assert walk.found(owner) == walk.opened(owner) == {walk.words[it["id"]] for it in kept}
