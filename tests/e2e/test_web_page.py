"""The program in docs/web-page.md, run as it stands by Node.js against the app."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from shared.domain import errors
from tests.support.node import run_script
from tests.support.servers import Server

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or later")


def read(address: str, *questions: str) -> Any:
    """Return what the page shows after each question."""
    return run_script("web_page.mjs", address, *questions)


def test_page_shows_the_answer_with_links(server: Server) -> None:
    cited = "say 漢字 of [plans/northwind_standard.md]; say  and [1]"
    (shown,) = read(server.url, cited)

    link = f"{server.url}/content/plans/northwind_standard.md"
    assert "".join(shown["parts"]) == f"漢字 of {link} and [1]"
    assert link in shown["parts"]
    assert (shown["error"], shown["input"], shown["disabled"]) == ("", "", False)


def test_page_shows_an_error_and_keeps_the_question(server: Server) -> None:
    rejected, broken, answered = read(
        server.url, "refuse with 429", "say x; fail with outage", "say Yes"
    )

    assert rejected["error"] == errors.TooManyRequests.default
    assert rejected["input"] == "refuse with 429"
    assert broken["error"] == errors.Unavailable.default
    assert broken["parts"] == ["x"]
    assert (answered["parts"], answered["error"]) == (["Yes"], "")


def test_page_shows_an_error_without_a_connection() -> None:
    (shown,) = read("http://127.0.0.1:9", "say Yes")

    assert shown["error"]
    assert not shown["disabled"]
