"""Open WebUI, its own server and page: a chat with its sources, its title and its next question."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.chromium import run_browser
from tests.support.front_ends import CITED, TITLE
from tests.support.servers import HOSTS, Server, run_server

SECONDS = 60  # for what the page does; only a hang takes so long
QUESTION = "How many vacation days do I get?"
# What Open WebUI would otherwise fetch, send or store elsewhere.
OFFLINE = {
    "OFFLINE_MODE": "true",
    "HF_HUB_OFFLINE": "1",
    "ENABLE_OLLAMA_API": "false",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
    "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
    "RAG_EMBEDDING_ENGINE": "openai",
    "WEBUI_AUTH": "false",
    "WEBUI_SECRET_KEY": "of this test",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=SECONDS * 1000)
    with run_browser() as browser:
        yield browser


@pytest.fixture(scope="module", params=HOSTS)
def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The app as docs/front-ends.md sets it for Open WebUI, and with links for citations."""
    settings = {
        "CHAT_MODEL": "tests.support.front_ends:page_model",
        "TASK_MODELS": "on",
        "CITATION_LINKS": "on",
        "PUBLIC_URL": "https://chat.example",
    }
    with run_server(request.param, tmp_path_factory.mktemp("app"), settings) as server:
        yield server


@pytest.fixture(scope="module")
def open_webui(app: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Open WebUI with the app as its only connection, as docs/front-ends.md says."""
    folder: Path = tmp_path_factory.mktemp("open-webui")
    settings = {
        **OFFLINE,
        "HOME": str(folder),
        "DATA_DIR": str(folder / "data"),
        "OPENAI_API_BASE_URL": f"{app.url}/v1",
        "OPENAI_API_KEY": "none",
        "TASK_MODEL_EXTERNAL": "text_model-no-search",
    }
    line = [*shlex.split(os.environ["TEST_OPEN_WEBUI"]), "serve", "--host", "127.0.0.1"]
    with run_server("dev", folder, settings, folder, line) as server:
        yield server


@pytest.fixture
def page(browser: Browser, open_webui: Server) -> Iterator[Page]:
    page = browser.new_page(locale="en-GB", viewport={"width": 1280, "height": 860})
    page.set_default_timeout(SECONDS * 1000)
    page.goto(open_webui.url)
    page.get_by_text("Okay, Let's Go!").click()  # to the news of the release
    yield page
    page.close()


def test_chat_has_sources_links_a_title_and_a_next_question(page: Page) -> None:
    page.locator("#chat-input").click()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")

    expect(page.get_by_text("You get 30 days")).to_be_visible()
    link = page.get_by_role("link", name="doc1")
    expect(link).to_have_attribute("href", f"https://chat.example/content/{CITED}")
    expect(page.get_by_text("]: <")).to_have_count(0)
    expect(page.get_by_role("button", name="1 Source")).to_be_visible()
    # Both by the model that does not search: with passages it would answer the question.
    page.get_by_role("button", name="Open Sidebar").click()
    expect(page.locator("#sidebar").get_by_text(TITLE, exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="How many sick days?")).to_be_visible()
