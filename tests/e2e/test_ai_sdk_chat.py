"""The chat of the AI SDK, unchanged, in its versions 5, 6 and 7: what `useChat` is made of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.domain import errors
from tests.support.node import needs_packages, run_script
from tests.support.servers import Server, ended

pytestmark = needs_packages
PAGE = "plans/northwind_standard.md"


@pytest.fixture(params=["ai5", "ai6", "ai"])
def package(request: pytest.FixtureRequest) -> str:
    """The npm package, by its name in tests/clients."""
    return str(request.param)


def run(server: Server, package: str, scenario: str) -> Any:
    """What the chat saw."""
    return run_script("ui_message_stream.mjs", server.url, package, scenario)


def parts(message: Any, kind: str) -> list[Any]:
    return [part for part in message["parts"] if part["type"] == kind]


def text_of(message: Any) -> str:
    return "".join(part["text"] for part in parts(message, "text"))


def test_answer_has_its_sources_and_metadata(server: Server, package: str) -> None:
    seen = run(server, package, "answer")
    _, answer = seen["messages"]
    (context,) = seen["data"]
    kinds = [part["type"] for part in answer["parts"]]

    assert (seen["status"], seen["errors"]) == ("ready", [])
    assert seen["headers"]["x-vercel-ai-ui-message-stream"] == "v1"
    assert seen["headers"]["content-type"].startswith("text/event-stream")
    assert text_of(answer) == f"Yes [{PAGE}] 漢字"
    assert kinds == ["step-start", *["source-url"] * kinds.count("source-url"), "text"]
    names = [part["sourceId"] for part in parts(answer, "source-url")]
    assert len(names) == len({*names})
    assert PAGE in names
    assert {"sourceId": PAGE, "url": f"/content/{PAGE}", "title": PAGE}.items() <= next(
        part.items() for part in answer["parts"] if part.get("sourceId") == PAGE
    )
    assert answer["id"] == seen["headers"]["x-request-id"]
    usage = {"inputTokens": 40, "outputTokens": 9, "totalTokens": 49}
    assert answer["metadata"] == {"model": "command_model", "usage": usage}
    assert context["type"] == "data-context"
    assert context["data"]["data_points"]["citations"] == names
    assert context["data"]["thoughts"][0]["title"] == "Original user query"


def test_answer_refers_to_the_turns_before(server: Server, package: str) -> None:
    seen = run(server, package, "history")

    assert text_of(seen["messages"][-1]) == "say one"
    (_, answer, _) = seen["requests"][1]["messages"]
    assert parts(answer, "data-context") == []  # transient: it does not come back


def test_answer_is_repeated(server: Server, package: str) -> None:
    seen = run(server, package, "regenerate")

    assert seen["requests"][-1]["trigger"] == "regenerate-message"
    assert len(seen["messages"]) == 4
    assert text_of(seen["messages"][-1]) == "say one"


def test_question_is_edited(server: Server, package: str) -> None:
    seen = run(server, package, "edit")

    assert len(seen["messages"]) == 4
    assert text_of(seen["messages"][-1]) == "say one"


def test_question_after_a_refused_one_is_answered(server: Server, package: str) -> None:
    seen = run(server, package, "failedFirst")

    assert seen["statuses"] == [429, 200]
    assert text_of(seen["messages"][-1]) == "refuse with 429"


def test_image_reaches_the_model(server: Server, package: str) -> None:
    seen = run(server, package, "image")
    prompt = json.loads(seen["data"][0]["data"]["thoughts"][3]["description"][-1])

    assert text_of(seen["messages"][-1]) == "seen"
    assert prompt["images"] == 1


def test_overrides_of_the_page_take_effect(server: Server, package: str) -> None:
    (context,) = run(server, package, "overrides")["data"]

    assert context["data"]["thoughts"][1]["props"]["top"] == 1


def test_follow_up_questions_are_a_part_of_the_answer(server: Server, package: str) -> None:
    answer = run(server, package, "followups")["messages"][-1]

    assert text_of(answer).strip() == "Yes"
    assert [part["data"] for part in parts(answer, "data-followups")] == [["How much?", "Why?"]]


def test_notice_is_a_part_of_the_answer(server: Server, package: str) -> None:
    answer = run(server, package, "notice")["messages"][-1]

    (notice,) = parts(answer, "data-notice")
    assert notice["data"].startswith("semantic_ranker was left out")


NO_UPLOADS = "messages[0].parts[0].url: This deployment takes no uploads (UPLOADS)."
REFUSALS = [
    pytest.param("document", 400, NO_UPLOADS, marks=pytest.mark.part("uploads")),
    ("refused", 429, errors.TooManyRequests.default),
    ("wrongOverride", 400, "overrides.top: must be a whole number"),
    ("lastOnly", 400, "messages: is required"),
]


@pytest.mark.parametrize(("scenario", "status", "sentence"), REFUSALS)
def test_refusal_is_a_sentence(
    server: Server, package: str, scenario: str, status: int, sentence: str
) -> None:
    seen = run(server, package, scenario)

    assert (seen["status"], seen["statuses"], seen["errors"]) == ("error", [status], [sentence])
    assert seen["headers"]["content-type"] == "text/plain; charset=utf-8"
    assert seen["headers"].get("retry-after") == ("7" if scenario == "refused" else None)


@pytest.mark.parametrize(
    ("scenario", "sentence"),
    [("broken", errors.Unavailable.default), ("bug", errors.ChatError.default)],
)
def test_failure_in_the_stream_is_an_error_and_keeps_the_text(
    server: Server, package: str, scenario: str, sentence: str
) -> None:
    seen = run(server, package, scenario)

    assert (seen["status"], seen["errors"]) == ("error", [sentence])
    assert text_of(seen["messages"][-1]) == "Half"


def test_stop_closes_the_model_stream(server: Server, package: str) -> None:
    seen = run(server, package, "stopped")

    assert seen["status"] == "ready"
    assert text_of(seen["messages"][-1]) == "Half"
    with server.client() as client:
        assert ended(client, seen["name"]) == "closed"


def test_no_stream_is_resumed(server: Server, package: str) -> None:
    seen = run(server, package, "resume")

    assert (seen["status"], seen["statuses"], seen["errors"]) == ("ready", [204], [])
