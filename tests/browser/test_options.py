"""The options of a person: sent, kept, shown, and refused where they are no values."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.page import VACATION, ask, ask_and_wait
from tests.support.servers import Server


def open_options(page: Page) -> None:
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    page.locator("#show-options").click()


def sent_overrides(page: Page) -> object:
    """Ask a question, and return the overrides of the request."""
    with page.expect_request("**/chat/stream") as sent:
        ask(page, VACATION)
    return json.loads(sent.value.post_data or "")["context"].get("overrides")


def test_options_are_sent_kept_over_a_reload_and_taken_back(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    open_options(page)
    page.get_by_label("Passages").fill("2")
    page.get_by_label("Only this category").fill("plans")
    page.keyboard.press("Escape")
    assert sent_overrides(page) == {"top": 2, "include_category": "plans"}
    page.reload()
    active = page.locator("#active-options")
    expect(active).to_contain_text("Passages: 2")
    expect(active).to_contain_text("Only this category: plans")
    page.get_by_role("button", name="Take back: Only this category: plans").click()
    expect(active).not_to_contain_text("plans")
    assert sent_overrides(page) == {"top": 2}
    open_options(page)
    page.get_by_role("button", name="Reset").click()
    page.keyboard.press("Escape")

    expect(active).to_be_hidden()
    assert sent_overrides(page) is None


@pytest.mark.parametrize("value", ["many", "0", "51", "-1", "1e9"])
def test_number_outside_its_limits_is_refused_with_a_sentence(
    page: Page, samples: Server, value: str
) -> None:
    page.goto(samples.url)
    open_options(page)
    page.get_by_label("Passages").fill(value)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        "A number from 1 to 50."
    )
    page.keyboard.press("Escape")

    expect(page.locator("#active-options")).to_be_hidden()
    assert sent_overrides(page) is None


def test_theme_is_chosen_and_kept(page: Page, samples: Server) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    page.emulate_media(color_scheme="light")
    page.goto(samples.url)
    open_options(page)
    light = page.evaluate(background)
    page.get_by_label("Theme").select_option("Dark")
    dark = page.evaluate(background)
    page.reload()

    assert dark != light
    assert page.evaluate(background) == dark


def test_language_is_chosen_and_kept(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    ask_and_wait(page, VACATION)
    open_options(page)
    page.get_by_label("Only this category").fill("plans")
    page.get_by_label("Language").select_option("Deutsch")
    expect(page.get_by_role("heading", name="Optionen")).to_be_visible()
    expect(page.locator("#active-options")).to_contain_text("Nur diese Kategorie: plans")
    page.keyboard.press("Escape")
    page.reload()

    expect(page.get_by_label("Frage stellen")).to_be_enabled()
    assert page.evaluate("document.documentElement.lang") == "de"
