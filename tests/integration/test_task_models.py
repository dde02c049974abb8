"""Chat pages with an OpenAI address: models that do not search (`TASK_MODELS`), and identity."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain.request import User
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.models.router import Provider, Router
from shared.protocols.openai.models import MAX_TOKENS, TaskModelsConfig
from shared.rag.inputs import Rag
from shared.rag.search import search_by_query
from shared.settings import read_settings
from tests.support.calls import CHAT_KEY, JSON, BufferedReply, ask, call, local_service
from tests.support.fakes import FakeModel, FakeRetriever, make_rag
from tests.support.stores import sqlite_memory

CHAT = "/v1/chat/completions"
TASK = [
    {"role": "system", "content": "Write titles."},
    {"role": "user", "content": "Suggest a title for: dental care"},
]
ON = (TaskModelsConfig(enabled=True),)


class Parts:
    """A service over two models, `fake` and `small`, of which each request may choose one."""

    def __init__(self, *names: str) -> None:
        self.retriever, self.model = FakeRetriever(), FakeModel()
        self.rag: Rag = make_rag(self.model, self.retriever)
        names = names or ("fake", "small")
        self.asked: list[str | None] = []
        self.rag = Rag(
            self.retriever,
            Router([Provider("one", "local", self.make_model, names)]),
            self.rag.prompts,
            self.rag.defaults,
            search_step=search_by_query,
        )

    def make_model(self, name: str | None) -> FakeModel:
        self.asked.append(name)
        return self.model

    def send(self, route: str, body: Any, configs: Any = ON, **more: Any) -> BufferedReply:
        return ask(call(route, body, **more), local_service(self.rag, configs=configs))


def test_task_is_answered_without_search_and_documents() -> None:
    parts = Parts()
    reply = parts.send(CHAT, {"model": "small-no-search", "messages": TASK})

    assert reply.status == 200
    assert parts.retriever.calls == []
    assert parts.asked == ["small"]
    (prompt,) = parts.model.calls
    assert [(each.role, each.content) for each in prompt.messages] == [
        (each["role"], each["content"]) for each in TASK
    ]
    assert reply.json["choices"][0]["message"]["context"]["citations"] == []
    assert "x-chat-notice" not in reply.headers


@pytest.mark.parametrize(
    ("requested", "limit"),
    [({}, MAX_TOKENS), ({"max_tokens": 50}, 50), ({"max_tokens": 9000}, MAX_TOKENS)],
)
def test_answer_to_a_task_is_short(requested: dict[str, int], limit: int) -> None:
    parts = Parts()
    parts.send(CHAT, {"model": "fake-no-search", "messages": TASK, **requested})

    assert parts.model.calls[0].options["max_tokens"] == limit


def test_deployment_in_the_path_may_be_a_task_model() -> None:
    parts, route = Parts(), "/openai/deployments/{deployment}/chat/completions"
    parts.send(route, {"messages": TASK}, path="fake-no-search")

    assert (parts.asked, parts.retriever.calls) == (["fake"], [])


def test_model_of_that_name_takes_precedence() -> None:
    parts = Parts("fake", "fake-no-search")
    parts.send(CHAT, {"model": "fake-no-search", "messages": TASK})

    assert parts.asked == ["fake-no-search"]
    assert len(parts.retriever.calls) == 1


def test_unknown_model_has_no_task_model() -> None:
    reply = Parts().send(CHAT, {"model": "other-no-search", "messages": TASK})

    assert reply.status == 404
    assert reply.json["error"]["code"] == "model_not_found"


def test_there_is_none_by_default() -> None:
    parts = Parts()
    reply = parts.send(CHAT, {"model": "fake-no-search", "messages": TASK}, configs=())

    assert reply.status == 404
    assert read_settings({}).task_models == "off"


@pytest.mark.parametrize(
    ("configs", "more"), [((), []), (ON, ["fake-no-search", "small-no-search"])]
)
def test_task_models_are_listed(configs: Any, more: list[str]) -> None:
    reply = Parts().send("/v1/models", b"", configs, method="GET")
    one = Parts().send("/v1/models/{*id}", b"", configs, method="GET", path="fake-no-search")

    assert [each["id"] for each in reply.json["data"]] == ["fake", "small", *more]
    assert one.status == (200 if more else 404)


@pytest.mark.part("responses")
def test_response_to_a_task_is_not_stored(tmp_path: Any) -> None:
    parts = Parts()
    body = {
        "model": "fake-no-search",
        "input": TASK,
        "tools": [{"type": "file_search", "vector_store_ids": ["docs"]}],
    }
    with sqlite_memory(tmp_path) as memory:
        service = local_service(parts.rag, configs=ON, memory=memory)
        reply = ask(call("/v1/responses", body, JSON), service)

        assert reply.status == 200, reply.data
        assert reply.json["store"] is False
        assert [each["type"] for each in reply.json["output"]] == ["message"]
        assert parts.retriever.calls == []
        stored = ask(
            call("/v1/responses/{id}", b"", JSON, method="GET", path=reply.json["id"]), service
        )
        assert stored.status == 404


def test_headers_in_which_a_page_names_its_user_are_not_read() -> None:
    parts = Parts()
    headers = {
        **JSON,
        "authorization": f"Bearer {CHAT_KEY}",
        "x-openwebui-user-id": "anna",
        "x-openwebui-user-email": "anna@example.com",
        "x-openwebui-user-role": "admin",
        "x-openwebui-user-jwt": "a.b.c",
    }
    service = local_service(
        parts.rag, AccessPolicy(sign_in=True), configs=ON, api_key=ApiKeyPolicy(CHAT_KEY)
    )
    reply = ask(call(CHAT, {"model": "fake", "messages": TASK[1:]}, headers), service)

    assert reply.status == 200
    ((user, _, _),) = parts.retriever.calls
    assert user == User()
