"""The form below an answer that did not help, as a user handles it in the page."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.support.servers import Server

COMMENT = "What should the answer say? (optional)"


def form_of(page: Page) -> Locator:
    return page.get_by_role("group", name="What was wrong?")


def delete_copy(page: Page, server: Server, id: str) -> int:
    """Delete a copy by its id. Returns the status."""
    return int(page.request.delete(f"{server.url}/feedback/copies/{id}").status)


def copy_id(form: Locator) -> str:
    """Return the id that the form shows."""
    expect(form.get_by_role("status")).to_contain_text("The id of the copy is")
    (id,) = re.findall(r"\b[0-9a-f]{32}\b", form.get_by_role("status").inner_text())
    return str(id)


def send_with_consent(form: Locator) -> str:
    """Send the form with consent to a copy. Returns the id of the copy."""
    form.get_by_role("checkbox").check()
    form.get_by_role("button", name="Send").click()
    return copy_id(form)
