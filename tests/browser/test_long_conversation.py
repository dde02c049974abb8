"""A conversation of 200 turns, and what stays in view while an answer grows."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.page import ANSWER, TURNS, VACATION, ask, open_long_conversation, release
from tests.support.servers import Server

RECORD_CHANGES = """() => {
  window.changed = new Set();
  const turns = document.querySelector("#turns");
  new MutationObserver((records) => {
    for (const { target } of records) {
      const element = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      const turn = element.closest(".turn"); // none for the list itself
      if (turn) window.changed.add([...turns.children].indexOf(turn));
    }
  }).observe(turns, { attributes: true, characterData: true, childList: true, subtree: true });
}"""


@pytest.fixture
def long_page(page: Page, samples: Server) -> Page:
    open_long_conversation(page, samples)
    return page


def test_all_turns_are_shown_in_order_from_the_newest(long_page: Page) -> None:
    questions = long_page.locator(".question .words")

    assert questions.all_inner_texts() == [f"Question {number}?" for number in range(TURNS)]
    expect(long_page.locator(".turn").last).to_be_in_viewport()
    expect(long_page.locator(".turn").first).not_to_be_in_viewport()


def test_next_answer_changes_no_earlier_turn(long_page: Page) -> None:
    long_page.evaluate(RECORD_CHANGES)
    with long_page.expect_request("**/chat/stream") as sent:
        ask(long_page, VACATION)
    expect(long_page.locator(".turn").last.locator(".citation").first).to_be_in_viewport()

    messages = json.loads(sent.value.post_data or "")["messages"]
    assert messages == [{"role": "user", "content": VACATION}]
    # The turn before loses the actions of the last one.
    assert sorted(long_page.evaluate("[...window.changed]")) == [TURNS - 1, TURNS]
    expect(long_page.get_by_role("button", name="Edit")).to_have_count(1)


def test_reader_who_has_scrolled_away_stays_there(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, f"say {ANSWER * 99}; wait for reader; say the end")
    expect(page.locator(".turn .text code").last).to_be_in_viewport()
    page.evaluate("scrollTo(0, 0)")
    release(scripted, "reader")

    expect(page.locator(".turn .text")).to_contain_text("the end")
    assert page.evaluate("scrollY") == 0
