"""Questions to an embedded index with vectors while the server of its embedding model fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.splitting.passages import Passage
from shared.retrieval.sqlite.schema import IndexMeta
from tests.support.calls import BufferedReply, call, run_calls
from tests.support.index_files import build_index
from tests.support.upstream import Exchange, Step, Upstream, error_response, run_upstream

WORDS_ALONE = (
    "retrieval_mode hybrid was left out: the embedding model is busy or not available at the "
    "moment; text was used."
)
FAILURES: list[Any] = [
    pytest.param([error_response(429, {"Retry-After": "60"})], 429, id="429"),
    pytest.param([error_response(503)] * 2, 503, id="503"),
    pytest.param([[Exchange.reset]] * 2, 503, id="reset"),
    pytest.param([[Exchange.stall]], 504, id="stall"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"a.md": "The dentist is in.", "b.md": "Company vehicle rules."}
    passages = [Passage(f"{name}-1", text, name, name, "") for name, text in texts.items()]
    index = tmp_path_factory.mktemp("index") / "index.db"
    return build_index(index, *passages, meta=IndexMeta(Path("/documents"), "a-model", 2))


@pytest.fixture
def server() -> Iterator[Upstream]:
    with run_upstream() as running:
        yield running


def ask(server: Upstream, path: Path, *modes: str | None, **more: str) -> list[BufferedReply]:
    settings = {
        "INDEX_FILE": str(path),
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_CHAT_MODEL": "m",
        "OPENAI_EMBEDDING_MODEL": "a-model",
        "SEARCH_SECONDS": "1",
        **more,
    }
    messages = [{"role": "user", "content": "dentist"}]
    bodies = (
        {"messages": messages, "context": {"overrides": {"retrieval_mode": mode} if mode else {}}}
        for mode in modes
    )
    return run_calls(settings, *(call("/chat", body) for body in bodies))


def thoughts(reply: BufferedReply) -> list[Any]:
    """The thoughts about the search: its properties, its hits, and what was used instead."""
    assert reply.status == 200, reply.data
    _, query, results, _, *instead = reply.json["context"]["thoughts"]
    return [query["props"], results["description"], *(step["description"] for step in instead)]


@pytest.mark.parametrize("mode", [None, "hybrid"])
@pytest.mark.parametrize(("plan", "status"), FAILURES)
def test_question_is_answered_by_words(
    server: Upstream, path: Path, plan: list[list[Step]], status: int, mode: str | None
) -> None:
    server.plan += plan
    during, by_text, after = ask(server, path, mode, "text", mode)

    assert thoughts(during) == [*thoughts(by_text), [WORDS_ALONE]]
    assert [hit["sourcepage"] for hit in thoughts(during)[1]] == ["a.md"]
    assert thoughts(after)[0]["retrieval_mode"] == "hybrid"
    assert len(thoughts(after)) == 2


@pytest.mark.parametrize(("plan", "status"), FAILURES)
def test_search_by_vectors_alone_fails(
    server: Upstream, path: Path, plan: list[list[Step]], status: int
) -> None:
    server.plan += plan
    during, after = ask(server, path, "vectors", "vectors")

    assert during.status == status
    assert len(thoughts(after)) == 2


def test_missing_model_fails_a_hybrid_search(server: Upstream, path: Path) -> None:
    server.plan.append(error_response(404))
    (reply,) = ask(server, path, "hybrid")

    assert reply.status == 503
    assert "Retry-After" not in reply.headers


def test_minimum_of_relevance_does_not_apply_by_words(server: Upstream, path: Path) -> None:
    """As in any search by text, of which it is unknown."""
    server.plan.append(error_response(429, {"Retry-After": "60"}))
    during, after = ask(server, path, None, None, MINIMUM_RELEVANCE="100")

    assert [hit["sourcepage"] for hit in thoughts(during)[1]] == ["a.md"]
    assert during.json["context"]["data_points"]["text"] != []
    assert after.json["context"]["data_points"]["text"] == []
