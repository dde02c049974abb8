"""What is searched for is bounded on every way to an index: a long question is cut, else a 400."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.bootstrap.build import build
from shared.domain.errors import BadRequest
from shared.domain.events import encode_path
from shared.domain.overrides import MAX_SEARCH_TEXT, Overrides
from shared.domain.request import User
from shared.files.folder import FolderFiles
from shared.protocols.content import ContentConfig
from shared.protocols.exchange import App
from shared.retrieval.base import MAX_QUERY, shorten_query
from shared.settings import read_settings
from tests.support.calls import BufferedReply, ask, call, local_service
from tests.support.fakes import PLUS, FakeModel, FakeRetriever, make_rag
from tests.support.servers import SAMPLES

LONG = "first " + "x" * 5000 + " last"
CUT = LONG[:1000] + " \u2026 " + LONG[-1000:]
TOO_LONG = "x" * (MAX_SEARCH_TEXT + 1)
CURSOR = base64.urlsafe_b64encode(f"after:{TOO_LONG}".encode()).decode()
MARKS = "a" + "\u0345" * 2000 + "\u0323" * 2000  # 4,001 characters


def user(content: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **more}


def service(retriever: FakeRetriever) -> App:
    return local_service(make_rag(FakeModel(max_prompt_tokens=100_000), retriever))


CHATS = [
    *("/chat", "/chat/stream", "/ask"),
    pytest.param("/v1/chat/completions", marks=pytest.mark.part("openai")),
    pytest.param("/aog/v0.2/services/{service}", marks=pytest.mark.part("aog")),
]


def chat(route: str, body: Any, retriever: FakeRetriever) -> BufferedReply:
    return ask(call(route, body, path="chat"), service(retriever))


@pytest.mark.parametrize("route", CHATS)
def test_long_question_is_shortened_to_its_start_and_end(route: str) -> None:
    retriever = FakeRetriever()
    got = chat(route, user(LONG), retriever)

    assert got.status == 200
    assert [query for _, query, _ in retriever.calls] == [CUT]


def test_model_gets_the_whole_long_question() -> None:
    model, retriever = FakeModel(max_prompt_tokens=100_000), FakeRetriever()
    got = ask(call("/chat", user(LONG)), App(make_rag(model, retriever)))
    original, query, *_ = got.json["context"]["thoughts"]

    assert model.calls[0].messages[-1].content.startswith(LONG)
    assert (original["description"], query["description"]) == (LONG, CUT)


def test_question_at_the_limit_is_not_shortened() -> None:
    retriever = FakeRetriever()
    text = "x" * MAX_SEARCH_TEXT
    chat("/chat", user(text), retriever)

    assert [query for _, query, _ in retriever.calls] == [text]


def test_question_of_a_pipeline_is_shortened() -> None:
    retriever = FakeRetriever()
    body = {"ext": {"generative_qa_parameters": {"llm_question": LONG}}}
    got = ask(call("/_search", body), service(retriever))

    assert got.status == 200
    assert [query for _, query, _ in retriever.calls] == [CUT]


@pytest.mark.parametrize("route", ["/_search", "/{index}/_search"])
@pytest.mark.parametrize(
    ("field", "query", "search"),
    [
        ("query", {}, {"query": {"match": {"text": MARKS}}}),
        ("query", {}, {"query": {"match": {"text": {"query": MARKS}}}}),
        ("query", {}, {"query": {"query_string": {"query": MARKS}}}),
        ("query", {}, {"query": {"neural": {"vector": {"query_text": MARKS}}}}),
        ("q", {"q": MARKS}, {}),
    ],
)
def test_long_search_is_a_400(route: str, field: str, query: dict[str, str], search: Any) -> None:
    retriever = FakeRetriever()
    got = ask(call(route, search, path="documents", query=query), service(retriever))

    assert got.status == 400
    assert got.json["error"]["reason"] == f"{field}: must have 2000 characters at most"
    assert retriever.calls == []


@pytest.mark.parametrize("name", ["include_category", "exclude_category"])
def test_long_category_is_a_400(name: str) -> None:
    retriever = FakeRetriever()
    got = chat("/chat", user("x", context={"overrides": {name: MARKS}}), retriever)

    assert got.status == 400
    assert got.json["error"] == f"context.overrides.{name}: must have 2000 characters at most"
    assert retriever.calls == []


@pytest.mark.parametrize(
    ("field", "query", "overrides"),
    [
        ("query", "x" * (MAX_QUERY + 1), Overrides()),
        ("include_category", "x", Overrides.model_construct(include_category=MARKS)),
        ("exclude_category", "x", Overrides.model_construct(exclude_category=MARKS)),
    ],
)
def test_no_protocol_exceeds_the_limit(field: str, query: str, overrides: Overrides) -> None:
    app = build(read_settings(SAMPLES))
    assert app.rag is not None

    with pytest.raises(BadRequest) as refused:
        asyncio.run(app.rag.search(User(), query, overrides))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("method", "params", "reply"),
    [
        ("resources/read", {"uri": f"document:///{TOO_LONG}"}, "error"),
        ("resources/read", {"uri": f"document:///{TOO_LONG}#page=1"}, "error"),
        ("resources/list", {"cursor": CURSOR}, "result"),
    ],
)
def test_mcp_does_not_search_for_a_name_that_no_index_has(
    method: str, params: Any, reply: str
) -> None:
    retriever = FakeRetriever([replace(PLUS, sourcefile=TOO_LONG)])
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    got = ask(call("/mcp", body), service(retriever))

    assert list(got.json) == ["jsonrpc", "id", reply]
    assert got.json["result"]["resources"] == [] if reply == "result" else True
    assert retriever.calls == []


def test_content_does_not_search_for_a_name_that_no_index_has(tmp_path: Path) -> None:
    path = ":" * 700  # encoded, as an index has it, 2,100 characters
    retriever = FakeRetriever([replace(PLUS, sourcefile=encode_path(path))])
    files = ContentConfig(FolderFiles(tmp_path))
    app = local_service(make_rag(retriever=retriever), configs=(files,))
    got = ask(replace(call("/content/{path}", path=path), method="GET"), app)

    assert got.status == 404
    assert retriever.calls == []


def test_shortened_query_has_the_length_of_the_limit() -> None:
    assert len(shorten_query(LONG)) == MAX_QUERY
    assert shorten_query(shorten_query("x" * MAX_SEARCH_TEXT)) == "x" * MAX_SEARCH_TEXT
