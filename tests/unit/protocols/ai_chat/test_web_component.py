"""The oldest version of the chat protocol, for the web component that sends `context.approach`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.domain.events import Delta, Done
from tests.support.calls import QUESTION, ask, call, local_service
from tests.support.fakes import PLUS, FakeModel, FakeRetriever, make_rag

ANSWER = "Crowns <<Is 1 < 2?>><<Who pays?>>"
CONTEXT = {"approach": "rrr", "suggest_followup_questions": True}


def choices(
    route: str = "/chat",
    stream: bool | None = False,
    context: Any = CONTEXT,
    sources: Any = (PLUS,),
    **more: Any,
) -> list[dict[str, Any]]:
    """The choice of an answer, or those of a stream."""
    model = FakeModel([Delta(piece) for piece in ANSWER] + [Done()], max_prompt_tokens=9000)
    body = {**QUESTION, "stream": stream, "context": context, **more}
    got = ask(call(route, body), local_service(make_rag(model, FakeRetriever(sources))))
    lines = [got.json] if got.media_type == "application/json" else got.lines
    return [line["choices"][0] for line in lines]


@pytest.mark.parametrize("route", ["/chat", "/ask"])
def test_questions_are_marked_behind_the_text(route: str) -> None:
    (whole,) = choices(route)
    streamed = choices(route, stream=True)
    pieces = [choice["delta"].get("content", "") for choice in streamed]

    assert whole["message"]["content"] == "Crowns\n<<Is 1 < 2?>>\n<<Who pays?>>\n"
    assert "".join(pieces) == whole["message"]["content"]
    marks = pieces[pieces.index("\n<<") : -1]
    assert marks == ["\n<<", "Is", " 1", " <", " 2?", ">>\n", "<<", "Who", " pays?", ">>\n"]
    for context in (whole["context"], whole["message"]["context"], streamed[-1]["context"]):
        assert context["followup_questions"] == ["Is 1 < 2?", "Who pays?"]


def test_thoughts_are_escaped_html() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    source = replace(PLUS, content=hostile, sourcepage=f"{hostile}.pdf")
    question: dict[str, Any] = {"messages": [{"role": "user", "content": f"{hostile} & more?"}]}
    (choice,) = choices(sources=(source,), **question)
    thoughts = choice["message"]["context"]["thoughts"]

    assert "<" not in thoughts.replace("<br>", "")
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; more?<br><br>" in thoughts
    assert thoughts == choice["context"]["thoughts"]


@pytest.mark.parametrize("context", [None, {}, {"approach": None}, {"approach": 1}])
def test_no_other_request_of_the_oldest_version_is_answered_so(context: Any) -> None:
    (choice,) = choices(context=context)

    assert isinstance(choice["context"]["thoughts"], list)
    assert "context" not in choice["message"]


def test_other_versions_ignore_an_approach() -> None:
    body = {**QUESTION, "context": {"approach": "rrr"}, "session_state": None}

    assert isinstance(ask(call("/chat", body)).json["context"]["thoughts"], list)
    assert isinstance(ask(call("/chat/stream", body)).lines[0]["context"]["thoughts"], list)
