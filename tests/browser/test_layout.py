"""How the page looks and moves: focus, scrolling, a slow line, a phone, paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.colors import READ_COLOR
from tests.support.browser.page import ANSWER, VACATION, ask, ask_and_wait, release
from tests.support.servers import COMMAND_MODEL, HOSTS, Server, run_server

RECORD_SHIFT = """
  window.shift = 0;
  new PerformanceObserver((list) => {
    for (const { value } of list.getEntries()) window.shift += value;
  }).observe({ type: "layout-shift", buffered: true });
"""


def test_focus_is_where_the_next_question_is_written_after_a_stop(
    page: Page, scripted: Server
) -> None:
    page.goto(scripted.url)
    ask(page, "say begun; wait for a stop")
    expect(page.locator(".turn .text")).to_have_text("begun")
    page.get_by_role("button", name="Stop", exact=True).focus()
    page.keyboard.press("Enter")

    expect(page.get_by_label("Ask a question")).to_be_focused()


def test_focus_is_not_lost_by_asking_again_or_deleting(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say once")
    page.get_by_role("button", name="Ask again").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Ask a question")).to_be_focused()
    expect(page.locator(".versions")).to_contain_text("2 of 2")
    page.get_by_role("button", name="Delete: say once").focus()
    page.keyboard.press("Enter")

    expect(page.locator(".turn")).to_have_count(0)
    expect(page.get_by_label("Ask a question")).to_be_focused()


def test_touch_screen_keeps_its_keyboard_closed_after_an_answer(
    browser: Browser, scripted: Server
) -> None:
    context = browser.new_context(
        has_touch=True, is_mobile=True, viewport={"width": 360, "height": 740}, locale="en"
    )
    page = context.new_page()
    page.goto(scripted.url)
    page.get_by_label("Ask a question").tap()
    page.keyboard.type("say hello")
    page.get_by_role("button", name="Send").tap()
    expect(page.locator(".turn .retry")).to_be_visible()

    expect(page.get_by_label("Ask a question")).not_to_be_focused()
    expect(page.locator(".turn")).to_be_focused()
    context.close()


def test_page_does_not_move_while_it_loads_over_a_slow_line(
    browser: Browser, stored: Server
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en")
    page = context.new_page()
    line = {"offline": False, "latency": 150, "downloadThroughput": 2e5, "uploadThroughput": 2e5}
    context.new_cdp_session(page).send("Network.emulateNetworkConditions", line)
    page.add_init_script(RECORD_SHIFT)
    page.goto(stored.url)
    expect(page.get_by_label("Ask a question")).to_be_focused()
    expect(page.locator("#welcome h2")).to_be_visible()

    assert page.evaluate("window.shift") < 0.1
    context.close()


def test_reader_far_from_the_end_gets_a_button_to_it(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, f"say {ANSWER * 99}; wait for the reader; say the end")
    expect(page.locator(".turn .text code").last).to_be_in_viewport()
    button = page.get_by_role("button", name="To the end")
    expect(button).to_be_hidden()
    page.evaluate("scrollTo(0, 0)")
    button.click()
    expect(page.locator(".turn .text code").last).to_be_in_viewport()
    expect(button).to_be_hidden()
    release(scripted, "the reader")

    expect(page.locator(".turn .text")).to_contain_text("the end")
    expect(page.locator(".turn .text > :last-child")).to_be_in_viewport()


def test_phone_shows_header_and_composer_in_one_row_each(page: Page, stored: Server) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(stored.url)
    ask_and_wait(page, "say hello")
    page.get_by_text("How this answer was made").click()
    for step in page.locator(".thoughts details summary").all():
        step.click()

    header = page.locator("body > header").bounding_box()
    assert header is not None and header["height"] < 60
    send, text = page.locator("#send").bounding_box(), page.locator("#question").bounding_box()
    assert send is not None and text is not None
    assert send["x"] + send["width"] <= 360 and text["x"] + text["width"] <= 360
    widest = "Math.max(...[...document.querySelectorAll('main *')].map((e) => e.scrollWidth))"
    assert page.evaluate(widest) <= 360


def test_paper_has_the_conversation_alone(page: Page, samples: Server) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(samples.url)
    ask_and_wait(page, VACATION)
    page.locator(".citations button").first.click()
    page.emulate_media(media="print", color_scheme="dark")

    for hidden in ("#source", "#conversations", "#composer", ".answer .actions", "#new-chat"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator(".turn .text")).to_be_visible()
    expect(page.locator(".citations")).to_be_visible()
    colour = "getComputedStyle(document.querySelector('.turn .text')).color"
    assert page.evaluate(colour) == "rgb(28, 30, 36)"
    main = page.locator("main").bounding_box()
    assert main is not None and main["width"] > 1200


def test_conversation_is_saved_as_markdown(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask_and_wait(page, "say **one**")
    ask_and_wait(page, "say two")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as Markdown").click()

    assert download.value.suggested_filename == "chat.md"
    text = Path(download.value.path()).read_text("utf-8")
    assert text == "## say **one**\n\n**one**\n\n## say two\n\ntwo\n"


def test_answer_is_read_aloud_by_a_voice_of_the_device_alone(page: Page, scripted: Server) -> None:
    page.add_init_script(
        """
        window.spoken = [];
        const voices = [
          { lang: "en-US", localService: false, name: "remote" },
          { lang: "de-DE", localService: true, name: "local" },
        ];
        const synthesis = {
          getVoices: () => voices,
          speak: ({ text, voice }) => window.spoken.push([text, voice.name]),
          cancel: () => window.spoken.push("cancelled"),
        };
        Object.defineProperty(window, "speechSynthesis", { value: synthesis });
        window.SpeechSynthesisUtterance = function (text) { this.text = text; };
        """
    )
    page.goto(scripted.url)
    ask_and_wait(page, "say **one** word")
    button = page.get_by_role("button", name="Read aloud")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")

    spoken = [each for each in page.evaluate("window.spoken") if each != "cancelled"]
    assert [(text.strip(), voice) for text, voice in spoken] == [("one word", "local")]


def test_settings_give_the_page_its_looks(page: Page, tmp_path: Path) -> None:
    looks = {"PAGE_TITLE": "Ask HR <b>", "PAGE_COLOR": "#7d0a0a"}
    settings = {**looks, "PAGE_QUESTIONS": '["say welcome"]'}
    with run_server(HOSTS[-1], tmp_path, {**COMMAND_MODEL, **settings}) as server:
        page.goto(server.url)
        expect(page.get_by_role("heading", level=1)).to_have_text("Ask HR <b>")
        page.get_by_role("button", name="say welcome").click()

        expect(page.locator(".turn .text")).to_have_text("welcome")
        assert page.title() == "Ask HR <b>"
        red, green, blue = page.evaluate(READ_COLOR, "--accent")
        assert red > 100 > 50 > max(green, blue)


@pytest.mark.parametrize("name", ["include_category", "exclude_category"])
def test_folders_are_offered_for_the_filter(page: Page, samples: Server, name: str) -> None:
    page.goto(samples.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()

    field = page.locator(f"[name={name}]")
    options = field.evaluate("input => [...input.list.options].map(({ value }) => value)")
    assert {"company", "plans"} <= {*options}
