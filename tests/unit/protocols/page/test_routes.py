"""The page and its files, and what they and other pages are told about the app."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.app import ROUTES
from shared.bootstrap.build import build
from shared.domain import errors
from shared.domain.errors import Unavailable
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.http.auth import AccessPolicy
from shared.models.router import Provider, Router
from shared.protocols.exchange import App
from shared.protocols.health import Health, HealthCheck
from shared.protocols.page.config import PageConfig
from shared.protocols.page.routes import FOLDER, MEDIA_TYPES
from shared.rag.inputs import Rag
from shared.retrieval.base import IndexStatistics
from shared.settings import Settings
from tests.support.calls import ANNA, BEN, SINGLE_USER, BufferedReply, Client, local_service
from tests.support.fakes import FakeModel, FakeRetriever, make_rag
from tests.support.servers import ROOT
from tests.support.stores import sqlite_memory

FILES = sorted(
    path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix in MEDIA_TYPES
)
LOADED_LATER = ("feedback.js", "uploads.css", "uploads.js", "vendor/temml.js", "vendor/highlight/")
LATER = tuple(name for name in FILES if name.startswith(LOADED_LATER))
MAX_BYTES = 85_000  # of the page in English without what only some answers load, compressed
MAX_LATER_BYTES = 160_000  # of all of that


def get(
    route: str, path: str = "", headers: dict[str, str] | None = None, **parts: Any
) -> BufferedReply:
    return Client(local_service(make_rag(), **parts), headers or {})("GET", route, path=path)


class AbleRetriever(FakeRetriever):
    """A retriever with vectors, a semantic ranker and images."""

    def statistics(self) -> IndexStatistics:
        return IndexStatistics("manuals", has_vectors=True, has_ranker=True, has_images=True)


def offered_overrides(rag: Rag, access: AccessPolicy = SINGLE_USER) -> dict[str, Any]:
    overrides = Client(local_service(rag, access), {})("GET", "/config").json["overrides"]
    return {each["name"]: each for each in overrides}


def laptop(**settings: str) -> App:
    laptop = {"INDEX_FILE": "samples", "AZURE_FUNCTIONS_ENVIRONMENT": "Development"}
    return build(Settings.model_validate(laptop | settings))


def test_every_file_that_the_page_names_is_served() -> None:
    page = get("/").data.decode()
    names = re.findall(r'(?:src|href)="/page/([^"]+)"', page)
    imports = [
        (Path(name).parent / match).as_posix()
        for name in FILES
        if name.endswith(".js") and not name.startswith("vendor/")
        for match in re.findall(r'from "\./([^"]+)"', (FOLDER / name).read_text("utf-8"))
    ]

    assert names
    assert imports
    for name in {*names, *imports}:
        assert get("/page/{path}", name).status == 200


@pytest.mark.parametrize("name", FILES)
def test_file_is_sent_with_its_type_and_policy(name: str) -> None:
    reply = get("/page/{path}", name)

    assert reply.data == (FOLDER / name).read_bytes()
    assert reply.media_type == MEDIA_TYPES[Path(name).suffix]
    policy = reply.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    for directive in ("base-uri 'none'", "frame-ancestors 'none'", "trusted-types dompurify"):
        assert directive in policy.split("; ")
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    assert reply.headers["Cache-Control"] == "no-cache"
    assert reply.headers["Vary"] == "Accept-Encoding"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


def test_whole_page_is_small_when_compressed() -> None:
    replies = [get("/page/{path}", name, {"accept-encoding": "gzip"}) for name in FILES]

    assert all(reply.headers["Content-Encoding"] == "gzip" for reply in replies)
    assert [gzip.decompress(reply.data) for reply in replies] == [
        (FOLDER / name).read_bytes() for name in FILES
    ]
    sizes = {name: len(reply.data) for name, reply in zip(FILES, replies, strict=True)}
    later = sum(sizes[name] for name in LATER)
    assert later < MAX_LATER_BYTES
    others = sum(sizes[f"languages/{name}.json"] for name in ("de", "ar"))
    assert sum(sizes.values()) - later - others < MAX_BYTES


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("br, GZIP", True),
        ("gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("x-gzip-like", False),
        ("", False),
    ],
)
def test_page_is_compressed_only_for_clients_that_accept_it(
    accepted: str, is_compressed: bool
) -> None:
    reply = get("/", headers={"accept-encoding": accepted})

    assert (reply.headers.get("Content-Encoding") == "gzip") is is_compressed
    assert (reply.data == (FOLDER / "index.html").read_bytes()) is not is_compressed


class FileRetriever(FakeRetriever):
    """A retriever that opens a file for its statistics, which must not be on the event loop."""

    def statistics(self) -> IndexStatistics:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise AssertionError("the statistics are read on the event loop")
        return IndexStatistics("manuals", has_vectors=True)


def test_statistics_of_an_index_are_read_outside_of_the_event_loop() -> None:
    retriever = FileRetriever()
    service = local_service(make_rag(retriever=retriever))
    details = HealthCheck("manuals", retriever.ready, lambda: retriever.statistics().to_json())

    assert Client(service, {})("GET", "/config").json["showVectorOption"] is True
    assert asyncio.run(Health({"index": details}).report()).details


def test_unchanged_file_is_not_sent_again() -> None:
    etag = get("/").headers["ETag"]
    others = {get("/page/{path}", name).headers["ETag"] for name in FILES if name != "index.html"}
    reply = get("/", headers={"if-none-match": f'"other", {etag}'})

    assert (reply.status, reply.data, reply.headers["ETag"]) == (304, b"", etag)
    assert get("/", headers={"if-none-match": '"other"'}).status == 200
    assert re.fullmatch(r'"[0-9a-f]+"', etag)
    assert len(others - {etag}) == len(FILES) - 1


@pytest.mark.parametrize(
    "path",
    [
        "missing.js",
        "../routes.py",
        "../../../../host.json",
        (ROOT / "host.json").as_posix(),
        "/etc/passwd",
        "vendor",
        "vendor/marked.LICENSE",
        "",
        "a\0b",
        "x" * 9000,
    ],
)
def test_other_path_is_a_404(path: str) -> None:
    reply = get("/page/{path}", path)

    assert (reply.status, set(reply.json)) == (404, {"error"})


def test_page_can_be_off() -> None:
    for route, path in (("/", ""), ("/page/{path}", "app.js")):
        reply = get(route, path, configs=(PageConfig(False),))
        assert (reply.status, reply.json) == (404, {"error": "This deployment has no page (PAGE)."})


@pytest.mark.parametrize("has_page", [True, False])
def test_head_tells_opensearch_clients_that_the_app_runs(has_page: bool) -> None:
    reply = Client(local_service(make_rag(), configs=(PageConfig(has_page),)), {})("HEAD", "/")

    assert (reply.status, reply.data) == (200, b"")


@pytest.mark.part("demo", "embedded-index")
def test_setting_turns_the_page_off() -> None:
    assert laptop().config(PageConfig).enabled
    assert not laptop(PAGE="off").config(PageConfig).enabled


@pytest.mark.part("demo", "embedded-index")
def test_laptop_is_told_what_runs() -> None:
    config = Client(laptop(), {})("GET", "/config").json

    assert config["model"] == "demo"
    names = ("showVectorOption", "showSemanticRankerOption", "images")
    assert not any(config[name] for name in names)
    assert config["index"] == {
        "name": "samples",
        "documents": 5,
        "passages": 66,
        "search": "words",
        "isSamples": True,
    }
    assert len(config["examples"]) == 3
    assert [each["name"] for each in config["overrides"]] == [
        "top",
        "suggest_followup_questions",
        "include_category",
        "exclude_category",
    ]


def test_config_describes_what_the_app_can_do(tmp_path: Path) -> None:
    local, remote = (Provider(name, "local", lambda _: FakeModel(), (name,)) for name in "ab")
    rag = replace(make_rag(), retriever=AbleRetriever(), models=Router((local, remote)))
    with sqlite_memory(tmp_path) as memory:
        config = Client(local_service(rag, memory=memory), {})("GET", "/config").json
        unknown = Client(local_service(rag, AccessPolicy(), memory=memory), {})("GET", "/config")

    assert config == {
        "streamingEnabled": True,
        "showVectorOption": True,
        "showSemanticRankerOption": True,
        "showChatHistoryBrowser": True,
        "images": True,
        "memory": True,
        "uploads": False,
        "showUserUpload": False,
        "overrides": [
            {"name": "top", "type": "number", "minimum": 1, "maximum": 50},
            {"name": "temperature", "type": "number", "minimum": 0, "maximum": 2},
            {"name": "retrieval_mode", "type": "choice", "values": ["hybrid", "text", "vectors"]},
            {"name": "semantic_ranker", "type": "boolean"},
            {"name": "use_gpt4v", "type": "boolean"},
            {"name": "model", "type": "choice", "values": ["a", "b"]},
            {"name": "suggest_followup_questions", "type": "boolean"},
            {"name": "include_category", "type": "text", "values": ["plans"]},
            {"name": "exclude_category", "type": "text", "values": ["plans"]},
        ],
        "routes": sorted(ROUTES),
        "examples": [],
        "model": "fake",
        "index": {"name": "manuals", "search": "words and vectors", "isSamples": False},
    }
    assert unknown.json["memory"] is False
    assert "model" not in {each["name"] for each in unknown.json["overrides"]}


@pytest.mark.part("demo", "embedded-index", "conversations")
def test_laptop_has_no_memory() -> None:
    assert Client(laptop(), {})("GET", "/config").json["memory"] is False


@pytest.mark.part("demo", "embedded-index")
def test_looks_of_the_settings_are_for_everybody() -> None:
    settings = {
        "PAGE_TITLE": "Ask HR",
        "PAGE_COLOR": "#0A7d5a",
        "PAGE_QUESTIONS": '["How many days?", "Who?"]',
    }
    laptop_config = Client(laptop(**settings), {})("GET", "/config").json
    service = replace(laptop(**settings), access=AccessPolicy())
    anonymous = Client(service, {})("GET", "/config").json

    for config in (laptop_config, anonymous):
        assert config["title"] == "Ask HR"
        assert config["color"] == "#0A7d5a"
        assert config["examples"] == ["How many days?", "Who?"]


class CategoryRetriever(FakeRetriever):
    """A retriever over two categories, of which Ben may see one."""

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        assert bool(overrides.use_oid_security_filter) == user.is_signed_in
        return ("no.#1",) if user.oid == "ben" else ("no.#1", "plans")


def categories(access: AccessPolicy, headers: Any) -> list[Any]:
    service = local_service(make_rag(retriever=CategoryRetriever()), access)
    overrides = Client(service, headers)("GET", "/config").json["overrides"]
    return [each.get("values") for each in overrides if each["name"].endswith("_category")]


def test_categories_that_the_caller_may_see_are_offered() -> None:
    signed_in = AccessPolicy(sign_in=True)

    assert categories(SINGLE_USER, {}) == [["no.#1", "plans"]] * 2
    assert categories(signed_in, ANNA) == [["no.#1", "plans"]] * 2
    assert categories(signed_in, BEN) == [["no.#1"]] * 2
    assert categories(signed_in, {}) == [None] * 2
    assert categories(AccessPolicy(), {}) == [None] * 2


def test_config_is_complete_without_the_categories() -> None:
    rag = make_rag(retriever=FakeRetriever(error=Unavailable()))

    assert "include_category" in offered_overrides(rag)


def test_page_preloads_each_of_its_modules() -> None:
    html = (FOLDER / "index.html").read_text("utf-8")
    preloaded = re.findall(r'<link rel="modulepreload" href="/page/(.+?)">', html)
    modules, pending = set[str](), ["app.js"]
    while pending:
        name = pending.pop()
        modules.add(name)
        text = (FOLDER / name).read_text("utf-8")
        imports = re.findall(r'^(?:import|export) [^"]*?"\./(.+?)";', text, re.MULTILINE)
        pending += {*imports} - modules

    assert sorted(preloaded) == sorted(modules - {"app.js"})


def test_icons_of_the_page_exist() -> None:
    html = (FOLDER / "index.html").read_text("utf-8")
    scripts = "".join((FOLDER / name).read_text("utf-8") for name in FILES if name.endswith(".js"))
    used = {*re.findall(r'#icon-(\w+)"', html), *re.findall(r'makeIconButton\("(\w+)"', scripts)}

    assert used <= {*re.findall(r'<symbol id="icon-(\w+)"', html)}


def test_model_without_images_is_offered_none_of_passages() -> None:
    model = FakeModel(limits={"images": "fake is blind"})

    assert "use_gpt4v" not in offered_overrides(replace(make_rag(model), retriever=AbleRetriever()))


@pytest.mark.part("demo", "embedded-index")
@pytest.mark.parametrize("access", [AccessPolicy(), AccessPolicy(sign_in=True)])
def test_anonymous_caller_is_told_no_name_and_no_number(access: AccessPolicy) -> None:
    service = replace(laptop(), access=access)
    config = Client(service, {})("GET", "/config").json

    assert config["examples"] == []
    assert {"model", "index"} & set(config) == set()
    assert not re.search(r"demo|sample|\b5\b|66", json.dumps(config))


@pytest.mark.part("demo", "embedded-index")
def test_signed_in_user_is_told_what_runs() -> None:
    service = replace(laptop(), access=AccessPolicy(sign_in=True))

    assert Client(service, ANNA)("GET", "/config").json["model"] == "demo"


def test_page_is_told_how_to_sign_in() -> None:
    signed = local_service(make_rag(), AccessPolicy(sign_in=True))

    assert get("/auth_setup").json["platformSignIn"] is False
    assert Client(signed, {})("GET", "/auth_setup").json == {
        "useLogin": False,
        "requireAccessControl": False,
        "platformSignIn": True,
        "signInPath": "/.auth/login/aad?post_login_redirect_uri=/",
    }


def test_page_that_reads_the_token_is_told_where_the_platform_keeps_one() -> None:
    signed = local_service(make_rag(), AccessPolicy(sign_in=True))
    token = {"x-ms-token-aad-access-token": "a.b.c"}
    setup = Client(signed, ANNA | token)("GET", "/auth_setup").json

    assert setup["useLogin"] is True
    assert setup["msalConfig"]["auth"] == {
        "clientId": "",
        "redirectUri": "/",
        "postLogoutRedirectUri": "/",
    }
    assert "a.b.c" not in json.dumps(setup)
    assert Client(local_service(make_rag()), token)("GET", "/auth_setup").json["useLogin"] is False


def test_languages_have_the_same_sentences() -> None:
    languages = {
        path.stem: json.loads(path.read_text("utf-8")) for path in (FOLDER / "languages").iterdir()
    }
    blanks = {
        name: {key: set(re.findall(r"\{\w+\}", text)) for key, text in sentences.items()}
        for name, sentences in languages.items()
    }

    assert set(languages) == {"en", "de", "ar"}
    assert blanks["de"] == blanks["en"]
    assert blanks["ar"] == blanks["en"]


def test_translated_sentences_of_the_app_are_its_own() -> None:
    own = {each.default for each in vars(errors).values() if hasattr(each, "default")}
    english = json.loads((FOLDER / "languages" / "en.json").read_text("utf-8"))
    translated = {key for key in english if " " in key}

    assert {key: english[key] for key in translated} == {key: key for key in translated}
    assert {errors.Unavailable.default, errors.Misconfigured.default} <= translated <= own


def test_every_sentence_of_the_page_has_a_text() -> None:
    sentences = json.loads((FOLDER / "languages" / "en.json").read_text("utf-8"))
    own = [FOLDER / name for name in FILES if "/" not in name]
    text = "".join(path.read_text("utf-8") for path in own)
    names = re.findall(r'data-(?:text|placeholder|label)="(\w+)"|translate\("(\w+)"', text)

    assert {first or second for first, second in names} <= set(sentences)
