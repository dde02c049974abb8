"""Takes pictures of the page: `python -m tests.browser.screenshots FOLDER`.

`page.png` in README and `evaluation.png` in docs are of `... docs --readme`. `TEST_BROWSER` names
the browser.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.support.browser.chromium import run_browser
from tests.support.browser.page import VACATION, ask
from tests.support.isolation import app_copy
from tests.support.servers import run_server

WIDTHS = (360, 768, 1280)
THEMES = ("light", "dark")


def take_all(browser: Browser, url: str, folder: Path) -> None:
    """Write the first screen, an answer and a source, at each width and in each theme."""
    for width, theme in product(WIDTHS, THEMES):
        page = open_page(browser, url, theme, width)
        page.screenshot(path=folder / f"welcome-{width}-{theme}.png")
        show_answer(page)
        page.screenshot(path=folder / f"answer-{width}-{theme}.png")
        page.locator(".citations button").first.click()
        page.screenshot(path=folder / f"source-{width}-{theme}.png")
        page.context.close()


def take_for_readme(browser: Browser, url: str, folder: Path) -> None:
    """Write `page.png`: an answer with a source beside it."""
    page = open_page(browser, url, "light", 1120, height=560)
    show_answer(page)
    page.locator(".citation").first.click()
    page.screenshot(path=folder / "page.png")


def take_report(browser: Browser, folder: Path) -> None:
    """Write `evaluation.png`: the report of a run with fewer passages, beside the one before."""
    command = (sys.executable, "-m", "evals", "run", "--set", "INDEX_FILE=samples")
    runs = (
        ("--run", "default"),
        ("--run", "top-3", "--before", "default", "--set", "DEFAULT_TOP=3"),
    )
    for options in runs:
        subprocess.run([*command, *options], cwd=app_copy(), check=True)
    page = browser.new_page(color_scheme="light", viewport={"width": 1120, "height": 1040})
    page.goto((app_copy() / "build" / "evals" / "top-3" / "report.html").as_uri())
    page.screenshot(path=folder / "evaluation.png")


def open_page(browser: Browser, url: str, theme: Any, width: int, height: int = 860) -> Page:
    """Open the page in a context of its own."""
    context = browser.new_context(
        color_scheme=theme,
        viewport={"width": width, "height": height},
        locale="en",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#examples button").first).to_be_visible()
    return page


def show_answer(page: Page) -> None:
    """Ask a question and wait for the end of the answer."""
    ask(page, VACATION)
    expect(page.get_by_role("button", name="Copy")).to_be_visible()


def main() -> None:
    """Start the app, and take the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.browser.screenshots", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--readme", action="store_true", help="only the pictures in README and docs"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        run_server("dev", Path(scratch), {}) as server,
        run_browser() as browser,
    ):
        if options.readme:
            take_for_readme(browser, server.url, options.folder)
            take_report(browser, options.folder)
        else:
            take_all(browser, server.url, options.folder)


if __name__ == "__main__":
    main()
