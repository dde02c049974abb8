"""The page by axe's rules, by keyboard, by screen reader, on narrow screens, in each language."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.axe import problems
from tests.support.browser.colors import READ_COLOR, contrast
from tests.support.browser.page import MEMORY, VACATION, ask, ask_and_wait, edit, open_list
from tests.support.browser.states import LOOKS, STATES, Theme, open_page
from tests.support.servers import Server

MARKDOWN = "# Plans\n\n| plan | days |\n|---|---|\n| Plus | 20 |\n\n1. `code`\n2. **bold**"

NAME = """(() => {
  const element = document.activeElement;
  return element.getAttribute("aria-label") ?? element.textContent.trim();
})()"""


SET_BRAND = "(color) => document.documentElement.style.setProperty('--brand', color)"


@pytest.fixture(params=["light", "dark"])
def themed(request: pytest.FixtureRequest, browser: Browser, samples: Server) -> Iterator[Page]:
    """The page in a theme, without animations that change colours."""
    context = browser.new_context(color_scheme=request.param, reduced_motion="reduce", locale="en")
    page = context.new_page()
    page.goto(samples.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    yield page
    context.close()


def test_no_screen_violates_a_rule_of_axe(themed: Page) -> None:
    assert problems(themed) == []
    ask(themed, VACATION)
    expect(themed.locator(".citations button").first).to_be_visible()
    assert problems(themed) == []
    themed.get_by_text("How this answer was made").click()
    for step in themed.locator(".thoughts details summary").all():
        step.click()
    assert problems(themed) == []
    themed.locator(".citations button").first.click()
    assert problems(themed) == []
    themed.keyboard.press("Escape")
    open_list(themed)
    expect(themed.locator("#conversations li").first).to_be_visible()
    assert problems(themed) == []
    themed.get_by_role("button", name="Options").click()
    assert problems(themed) == []


def test_error_and_key_dialog_violate_no_rule_of_axe(themed: Page) -> None:
    themed.route("**/chat/stream", lambda route: route.fulfill(status=401))
    ask(themed, VACATION)
    expect(themed.get_by_role("dialog")).to_be_visible()

    assert problems(themed) == []


@pytest.mark.parametrize(("width", "language", "theme"), LOOKS)
def test_no_state_violates_a_rule_of_axe_in_any_look(
    browser: Browser, samples: Server, width: int, language: str, theme: Theme
) -> None:
    with samples.client() as client:
        client.post(MEMORY, json={"name": "Listed"}).raise_for_status()
    found = {}
    for name, show in STATES.items():
        page = open_page(browser, samples.url, theme, width, language=language)
        show(page)
        found[name] = problems(page)
        page.context.close()

    assert found == {name: [] for name in STATES}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_any_color_of_a_brand_is_legible(page: Page, samples: Server, theme: Theme) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(samples.url)
    ratios = {}
    for levels in product(("00", "80", "ff"), repeat=3):
        color = "#" + "".join(levels)
        page.evaluate(SET_BRAND, color)
        accent = page.evaluate(READ_COLOR, "--accent")
        for name in ("--background", "--surface", "--raised", "--on-accent"):
            ratios[color, name] = contrast(accent, page.evaluate(READ_COLOR, name))

    assert {key: ratio for key, ratio in ratios.items() if ratio < 4.5} == {}


def test_edited_question_versions_and_notices_violate_no_rule_of_axe(
    page: Page, stored: Server
) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(stored.url)
    ask_and_wait(page, "say one")
    edit(page, "say two")
    page.get_by_role("button", name="Delete: say two").focus()
    page.keyboard.press("Enter")
    assert problems(page) == []
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".versions")).to_contain_text("2 of 2")
    page.get_by_role("button", name="Edit").click()
    assert problems(page) == []
    page.get_by_label("Search the names of conversations").fill("no such name")
    page.get_by_role("button", name="Rename").first.wait_for(state="detached")

    assert problems(page) == []


def test_conversation_reads_in_its_order_in_the_accessibility_tree(
    page: Page, stored: Server
) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say The answer is 20 [plans/northwind_standard.md].; deductible")

    expect(page.locator("main")).to_match_aria_snapshot("""
      - list:
        - listitem:
          - heading "You" [level=2]
          - paragraph: /say The answer/
          - button "Edit"
          - heading "Answer" [level=2]
          - paragraph:
            - text: /The answer is 20/
            - superscript:
              - 'link "Source 1: plans/northwind_standard.md"'
          - list:
            - listitem:
              - button "plans/northwind_standard.md"
          - button "Copy"
          - button "Ask again"
          - button "Helpful"
          - button "Not helpful"
          - button "Link to this answer"
      - log
      - text: Ask a question
      - textbox "Ask a question"
      - button "Send"
    """)


def test_everything_is_reached_by_keyboard(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    expect(page.get_by_label("Ask a question")).to_be_focused()
    page.keyboard.type(VACATION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    names = set[str]()
    page.evaluate("document.activeElement.blur()")
    wanted = {"Conversations", "New chat", "Options", "Edit", "Copy", "Ask again", "Send"}
    wanted |= {"Source 1: company/employee_handbook.md", "Search the names of conversations"}
    wanted |= {"company/employee_handbook.md", "How this answer was made"}
    # The list has three stops for each conversation that a test before has stored.
    presses = 3 * page.locator("#conversations li").count() + 60
    for _ in range(presses):
        page.keyboard.press("Tab")
        names.add(page.evaluate(NAME))

    assert wanted <= names


def test_shift_and_enter_begin_a_line(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    page.get_by_label("Ask a question").fill("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")

    expect(page.get_by_label("Ask a question")).to_have_value("one\ntwo")
    expect(page.locator(".turn")).to_have_count(0)


def test_sentences_are_announced_when_they_are_complete(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say One is here. Two; wait for two; say  follows. ; wait for three; say Three")
    log = page.get_by_role("log")
    expect(log).to_have_text("One is here.")
    with scripted.client() as other:
        other.post("/chat", json={"messages": [{"role": "user", "content": "release two"}]})
        expect(log).to_have_text("Two follows.")
        other.post("/chat", json={"messages": [{"role": "user", "content": "release three"}]})

    expect(log).to_have_text("Three")


@pytest.mark.parametrize("width", [360, 640])  # 640: 1280 pixels at 200 %
def test_narrow_page_does_not_scroll_sideways(page: Page, samples: Server, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(samples.url)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    expect(page.locator("#examples button").first).to_be_visible()
    assert page.evaluate(overflow) <= 0
    ask(page, VACATION)
    page.locator(".citations button").first.click()
    assert page.evaluate(overflow) <= 0
    expect(
        page.get_by_role("complementary").get_by_role("button", name="Close")
    ).to_be_in_viewport()


@pytest.mark.parametrize(
    ("locale", "direction", "label"),
    [
        ("de-AT", "ltr", "Frage stellen"),
        ("ar-EG", "rtl", "اطرح سؤالًا"),
        ("fr", "ltr", "Ask a question"),
    ],
)
def test_page_speaks_the_language_of_the_browser(
    browser: Browser, samples: Server, locale: str, direction: str, label: str
) -> None:
    context = browser.new_context(locale=locale)
    page = context.new_page()
    page.goto(samples.url)

    expect(page.get_by_label(label)).to_be_enabled()
    assert page.evaluate("document.documentElement.dir") == direction
    assert problems(page) == []
    context.close()
