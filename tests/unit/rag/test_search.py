"""A retriever that searches by the conversation, in place of a query."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.messages import Message
from shared.domain.overrides import MAX_SEARCH_TEXT, Overrides
from shared.domain.request import User
from shared.retrieval.base import SearchResult
from tests.support.calls import ask, call, local_service
from tests.support.fakes import FakeModel, FakeRetriever, make_rag

TURNS = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Which plans cover dental?"},
    {"role": "assistant", "content": "Plus and Standard."},
    {"role": "user", "content": "Which of them is cheaper?"},
]


class PlanningRetriever(FakeRetriever):
    """Records conversations."""

    def __init__(self) -> None:
        super().__init__()
        self.conversations: list[Sequence[Message]] = []

    async def search_conversation(
        self, user: User, messages: Sequence[Message], overrides: Overrides
    ) -> SearchResult:
        self.conversations.append(messages)
        result = await self.search(user, messages[-1].content, overrides)
        return replace(result, tokens={"reasoning": 4096, "planning_input": 12})


def run(
    *turns: dict[str, str], **overrides: Any
) -> tuple[PlanningRetriever, FakeModel, dict[str, Any]]:
    """The retriever, the model and the reply after a question."""
    retriever, model = PlanningRetriever(), FakeModel()
    body = {"messages": list(turns or TURNS), "context": {"overrides": overrides}}
    reply = ask(call("/chat", body), local_service(make_rag(model, retriever, client_prompts=True)))
    return retriever, model, reply.json


def test_conversation_is_searched_without_rewriting_it() -> None:
    retriever, model, reply = run()
    (conversation,) = retriever.conversations

    assert [(each.role, each.content) for each in conversation] == [
        (each["role"], each["content"]) for each in TURNS[1:]
    ]
    assert [prompt.task for prompt in model.calls] == ["answer"]
    assert reply["context"]["thoughts"][1]["description"] == "Which of them is cheaper?"


def test_overrides_and_defaults_reach_the_search() -> None:
    retriever, _, _ = run(include_category="plans")
    _, _, overrides = retriever.calls[0]

    assert (overrides.include_category, overrides.top) == ("plans", 3)


def test_category_that_is_too_long_is_refused() -> None:
    _, _, reply = run(include_category="a" * (MAX_SEARCH_TEXT + 1))

    assert f"must have {MAX_SEARCH_TEXT} characters at most" in reply["error"]


def test_question_that_no_model_can_answer_is_not_searched_for() -> None:
    retriever, _, reply = run({"role": "user", "content": "long " * 200_000})

    assert "too long for the model" in reply["error"]
    assert retriever.conversations == []


def test_tokens_of_the_search_are_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chat")
    run()

    assert caplog.messages[0] == "request id=call-1 search tokens: reasoning=4096 planning_input=12"
    assert len(caplog.messages) == 2
