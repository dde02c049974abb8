"""The page in docs/ai-sdk.md: `useChat` in a browser, on another origin than the app's."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from shared.domain import errors
from tests.support.browser.page import release
from tests.support.node import CLIENTS, needs_packages
from tests.support.servers import (
    COMMAND_MODEL,
    HOSTS,
    ROOT,
    TIMEOUT,
    Server,
    command,
    free_port,
    run_server,
    stop_server,
)

pytestmark = needs_packages
DOCS = (ROOT / "docs" / "ai-sdk.md").read_text("utf-8")
PAGE = "plans/northwind_standard.md"


def block(language: str) -> str:
    """The program in the docs of that language."""
    match = re.search(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)
    assert match
    return match[1]


@pytest.fixture(scope="module", params=HOSTS)
def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The app, which pages of any origin on this machine may call."""
    kind, folder = request.param, tmp_path_factory.mktemp("app")
    line = [] if kind == "dev" else [*command(kind), "--cors", "*"]
    settings = {**COMMAND_MODEL, "ALLOWED_ORIGINS": "*"}
    with run_server(kind, folder, settings, line=line) as server:
        yield server


@pytest.fixture(scope="module")
def address(app: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page, built and served by the command in the docs."""
    folder, port = tmp_path_factory.mktemp("page"), free_port()
    (folder / "index.html").write_text(block("html"), "utf-8")
    program = block("jsx").replace("http://localhost:7071", app.url)
    (folder / "chat.jsx").write_text(program, "utf-8")
    (folder / "node_modules").symlink_to(CLIENTS / "node_modules")
    _, line = block("sh").strip().splitlines()
    arguments = line.replace("5173", str(port)).split()[2:]
    with (
        (folder / "esbuild.log").open("wb") as log,
        subprocess.Popen(
            [folder / "node_modules" / ".bin" / "esbuild", *arguments],
            cwd=folder,
            stdin=subprocess.PIPE,  # it stops when that is closed
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_built(f"{url}/chat.js", folder / "esbuild.log")
            yield url
        finally:
            stop_server(process)


def wait_until_built(url: str, log: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        try:
            httpx.get(url, timeout=TIMEOUT, trust_env=False).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8"))


def ask(page: Page, question: str) -> None:
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Send").click()


def test_page_streams_an_answer_and_links_its_sources(
    page: Page, app: Server, address: str
) -> None:
    page.goto(address)
    ask(page, f"say Half of [{PAGE}]; wait for page; say , whole")
    answer = page.get_by_role("article", name="assistant")
    expect(answer.locator("p").first).to_have_text(f"Half of [{PAGE}]")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    release(app, "page")

    expect(answer.locator("p").first).to_have_text(f"Half of [{PAGE}], whole")
    for link in (answer.locator("p a"), answer.locator("li a", has_text=PAGE)):
        expect(link).to_have_attribute("href", f"{app.url}/content/{PAGE}")
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_follow_up_question_is_a_button(page: Page, address: str) -> None:
    page.goto(address)
    ask(page, "say one <<say two?>>")
    page.get_by_role("button", name="say two?").click()

    answers = page.get_by_role("article", name="assistant")
    expect(answers.last.locator("p").first).to_have_text("two?")
    expect(answers).to_have_count(2)


def test_answer_is_stopped(page: Page, address: str) -> None:
    page.goto(address)
    ask(page, "say Half; wait for nothing")
    expect(page.get_by_role("article", name="assistant").locator("p").first).to_have_text("Half")
    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("how", ["refuse with outage", "say Half; fail with outage"])
def test_error_is_shown_and_the_question_asked_again(page: Page, address: str, how: str) -> None:
    page.goto(address)
    ask(page, how)
    expect(page.get_by_role("alert")).to_contain_text(errors.Unavailable.default)
    with page.expect_response("**/api/chat"):
        page.get_by_role("button", name="Ask again").click()

    expect(page.get_by_role("alert")).to_contain_text(errors.Unavailable.default)
