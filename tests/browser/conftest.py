"""The browser, and pages of it that fail a test with an error or a violated policy."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser.chromium import MISSING, run_browser
from tests.support.servers import COMMAND_MODEL, HOSTS, Server, run_server

TIMEOUT = 20_000  # milliseconds; only a hang takes so long
KIND = HOSTS[-1]  # a Functions host where there is one
WATCH_POLICY = """
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (event) =>
    window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium, the program in `TEST_BROWSER`."""
    if "TEST_BROWSER" not in os.environ:
        pytest.exit(MISSING, 2)
    expect.set_options(timeout=TIMEOUT)
    with run_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app as `make run` serves it: the demo model over the samples, with a memory."""
    folder = tmp_path_factory.mktemp("samples")
    with run_server(KIND, folder, {"MEMORY_FILE": str(folder / "memory.db")}) as server:
        yield server


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with a model that executes the commands in a question."""
    with run_server(KIND, tmp_path_factory.mktemp("scripted"), COMMAND_MODEL) as server:
        yield server


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with the model that executes commands, with a memory and answer copies."""
    folder = tmp_path_factory.mktemp("stored")
    memory = {"MEMORY_FILE": str(folder / "memory.db"), "MEMORY_DAYS": "30"}
    settings = {**COMMAND_MODEL, **memory}
    settings["FEEDBACK_COPIES"] = "on"
    with run_server(KIND, folder, settings) as server:
        yield server


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A context of its own for each test."""
    context = browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 860})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.add_init_script(WATCH_POLICY)
    context.set_default_timeout(TIMEOUT)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page; the test fails for an uncaught error or a violation of its policy."""
    page, problems = context.new_page(), list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    assert problems == []
    assert page.evaluate("window.violations") == []
