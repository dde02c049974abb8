"""Takes pictures of the page: `python -m tests.browser.screenshots FOLDER`.

`page.png` is the one in README: `... docs --readme`. `TEST_BROWSER` names the browser.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import run_browser
from tests.browser.test_page import VACATION, ask
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
    parser.add_argument("--readme", action="store_true", help="only the picture in README")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    take = take_for_readme if options.readme else take_all
    with (
        tempfile.TemporaryDirectory() as scratch,
        run_server("dev", Path(scratch), {}) as server,
        run_browser() as browser,
    ):
        take(browser, server.url, options.folder)


if __name__ == "__main__":
    main()
