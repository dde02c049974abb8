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

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.chromium import run_browser
from tests.support.browser.page import MEMORY, VACATION, ask
from tests.support.browser.states import LOOKS, STATES, open_page, show_formatted
from tests.support.isolation import app_copy
from tests.support.servers import run_server

CONVERSATIONS = 30


def take_all(browser: Browser, url: str, folder: Path) -> None:
    """Write each state in each look, the print of an answer, and a sheet of all pictures."""
    with httpx.Client(base_url=url) as client:
        for number in range(CONVERSATIONS):
            name = f"How many vacation days do I get after {number} years?"
            client.post(MEMORY, json={"name": name}).raise_for_status()
    for (width, language, theme), state in product(LOOKS, STATES):
        page = open_page(browser, url, theme, width, language=language)
        STATES[state](page)
        page.screenshot(path=folder / f"{state}-{width}-{language}-{theme}.png")
        page.context.close()
    page = open_page(browser, url, "dark", 1280)
    show_formatted(page)
    page.pdf(path=folder / "print.pdf")
    page.emulate_media(media="print")
    page.screenshot(path=folder / "print.png", full_page=True)
    page.context.close()
    take_sheet(browser, folder)


def take_sheet(browser: Browser, folder: Path) -> None:
    """Write `sheet.png`: each state once in each width, language and theme."""
    rows = "".join(
        "<p>"
        + "".join(
            f'<img src="{state}-{width}-{language}-{theme}.png">'
            for width, language, theme in (LOOKS[0], LOOKS[5], LOOKS[6])
        )
        for state in STATES
    )
    sheet = folder / "sheet.html"
    style = "body { margin: 0; background: #888 } p, img { height: 210px; margin: 2px }"
    sheet.write_text(f"<style>{style}</style>{rows}", "utf-8")
    page = browser.new_page(viewport={"width": 604, "height": 800})
    page.goto(sheet.resolve().as_uri())
    page.screenshot(path=folder / "sheet.png", full_page=True)
    page.context.close()


def take_for_readme(browser: Browser, url: str, folder: Path) -> None:
    """Write `page.png`: an answer with a source beside it."""
    page = open_page(browser, url, "light", 1280, height=640)
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
        run_server("dev", Path(scratch), {"MEMORY_FILE": f"{scratch}/memory.db"}) as server,
        run_browser() as browser,
    ):
        if options.readme:
            take_for_readme(browser, server.url, options.folder)
            take_report(browser, options.folder)
        else:
            take_all(browser, server.url, options.folder)


if __name__ == "__main__":
    main()
