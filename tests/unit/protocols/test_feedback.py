"""Ratings of answers: a line of the log, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from shared.protocols.feedback import ROUTES
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
    reply = ask(call(ROUTE, [b""], JSON, method="GET"))
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
