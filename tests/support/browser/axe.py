"""The accessibility rules of axe."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.support.node import CLIENTS

AXE = (CLIENTS / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def problems(page: Page) -> list[Any]:
    """The rules of axe that the page violates, with the elements."""
    page.evaluate(AXE)
    result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in result["violations"]]
