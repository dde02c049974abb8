"""Ratings of answers: a line of the log, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from shared.protocols.feedback.routes import ROUTES
from tests.support.calls import JSON, ask, call

ROUTE = ROUTES[0].path


@pytest.mark.parametrize("rating", ["up", "down"])
def test_a_rating_is_a_line_of_the_log(rating: str, caplog: pytest.LogCaptureFixture) -> None:
    answer = ask(call("/chat"))
    request_id = answer.headers["x-request-id"]
    with caplog.at_level("INFO", "chat"):
        reply = ask(call(ROUTE, {"request_id": request_id, "rating": rating}))

    assert (reply.status, reply.data) == (204, b"")
    line = f"feedback id=call-1 request={request_id} rating={rating}"
    assert [record.message for record in caplog.records].count(line) == 1


def test_each_reason_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    reasons = ["unsupported", "incomplete", "unsupported"]
    with caplog.at_level("INFO", "chat"):
        reply = ask(call(ROUTE, {"request_id": "a-1", "rating": "down", "reasons": reasons}))

    assert reply.status == 204
    messages = [record.message for record in caplog.records]
    assert [each for each in messages if each.startswith("feedback ")] == [
        "feedback id=call-1 request=a-1 rating=down",
        "feedback reason=unsupported request=a-1",
        "feedback reason=incomplete request=a-1",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"rating": "up"}, "request_id: is required"),
        ({"request_id": "x"}, "rating: is required"),
        ({"request_id": "x", "rating": "good"}, "rating: must be one of 'up' or 'down'"),
        ({"request_id": 5, "rating": "up"}, "request_id: must be a string"),
        *(
            ({"request_id": id, "rating": "up"}, "request_id: must be the x-request-id")
            for id in ("", "a b", "a\nINFO request", "x" * 65, "\u0661", "a\u2028")
        ),
        ([], "The body must be a JSON object."),
        *(
            ({"request_id": "x", "rating": rating, "reasons": reasons}, f"reasons{message}")
            for rating, reasons, message in (
                ("up", ["incorrect"], ": are for the rating down"),
                ("down", ["rude"], "[0]: must be one of 'incorrect', "),
                ("down", "incorrect", ": must be a list"),
                ("down", ["incorrect"] * 5, ": must have 4 entries at most"),
            )
        ),
        ({"request_id": "x", "rating": "up", "comment": "a" * 2001}, "comment: must have 2000"),
        ({"request_id": "x", "rating": "up", "comment": ["a"]}, "comment: must be a string"),
    ],
)
def test_a_wrong_rating_is_named_and_not_logged(
    body: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "chat"):
        reply = ask(call(ROUTE, body))

    assert reply.status == 400
    assert reply.json["error"].startswith(message)
    assert "rating=" not in caplog.text


def test_other_media_types_and_methods_are_refused() -> None:
    assert ask(call(ROUTE, b"{}", {"content-type": "text/plain"})).status == 415
    reply = ask(call(ROUTE, [b""], JSON, method="PUT"))
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD, POST")
