"""Runs the browser: the Chromium that `TEST_BROWSER` names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

MISSING = "TEST_BROWSER must name a Chromium: see `make test-browser`."


@contextmanager
def run_browser() -> Iterator[Browser]:
    """Run it without a window until the block ends. Raises SystemExit if none is named."""
    program = os.environ.get("TEST_BROWSER")
    if program is None:
        raise SystemExit(MISSING)
    with sync_playwright() as playwright:
        # As root, as in a container, Chromium has no sandbox.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
