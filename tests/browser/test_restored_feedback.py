"""The feedback on the answers of a stored conversation, after the page is opened again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.browser.feedback import (
    COMMENT,
    copy_id,
    delete_copy,
    form_of,
    send_with_consent,
)
from tests.support.browser.page import ask_and_wait, edit, reopen
from tests.support.servers import Server

pytestmark = [pytest.mark.part("feedback"), pytest.mark.part("conversations")]


def helpful(turn: Locator | Page) -> Locator:
    return turn.get_by_role("button", name="Helpful", exact=True)


def not_helpful(turn: Locator | Page) -> Locator:
    return turn.get_by_role("button", name="Not helpful")


def press(button: Locator) -> None:
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")


def test_a_rating_is_shown_again_and_can_be_changed(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say first")
    press(helpful(page))
    ask_and_wait(page, "say second")
    page.reload()
    first, second = page.locator(".turn").nth(0), page.locator(".turn").nth(1)
    expect(helpful(first)).to_have_attribute("aria-pressed", "true")
    expect(not_helpful(first)).to_have_attribute("aria-pressed", "false")
    expect(helpful(second)).to_have_attribute("aria-pressed", "false")
    press(not_helpful(second))
    press(not_helpful(first))
    expect(helpful(first)).to_have_attribute("aria-pressed", "false")

    given = re.findall(r"feedback id=\S+ request=(\S+) rating=(\w+)", stored.log)[-3:]
    answers = re.findall(r"request id=(\S+) POST /chat/stream ", stored.log)[-2:]
    assert given == [(answers[0], "up"), (answers[1], "down"), (answers[0], "down")]


def test_the_form_has_what_was_sent(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say restored form")
    press(not_helpful(page))
    press(form_of(page).get_by_role("button", name="Something is missing"))
    form_of(page).get_by_role("textbox", name=COMMENT).fill("It is 30 days.")
    form_of(page).get_by_role("button", name="Send").click()
    expect(form_of(page).get_by_role("status")).to_have_text("Thank you.")
    reopen(page, "say restored form")
    expect(form_of(page)).to_be_hidden()
    not_helpful(page).press("Enter")

    expect(form_of(page).get_by_role("textbox", name=COMMENT)).to_have_value("It is 30 days.")
    pressed = form_of(page).locator("[aria-pressed=true]")
    expect(pressed).to_have_text(["Something is missing"])
    press(form_of(page).get_by_role("button", name="It is not true"))
    page.reload()
    not_helpful(page).click()
    expect(form_of(page).get_by_role("textbox", name=COMMENT)).to_have_value("It is 30 days.")
    expect(pressed).to_have_text(["It is not true", "Something is missing"])


@pytest.mark.part("feedback-copies")
def test_a_copy_can_be_deleted_at_a_later_visit(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say with a copy")
    press(not_helpful(page))
    sent = send_with_consent(form_of(page))
    page.reload()
    not_helpful(page).click()
    expect(form_of(page).get_by_role("checkbox")).to_be_checked()
    status = form_of(page).get_by_role("status")
    id = copy_id(form_of(page))
    form_of(page).get_by_role("button", name="Delete the copy").click()
    expect(status).to_have_text("The copy is deleted.")

    assert id == sent
    assert delete_copy(page, stored, id) == 404
    page.reload()
    not_helpful(page).click()
    expect(form_of(page).get_by_role("checkbox")).not_to_be_checked()
    expect(status).to_have_text("")


@pytest.mark.part("feedback-copies")
def test_a_copy_that_was_deleted_by_its_id_is_not_made_again(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say without a copy")
    press(not_helpful(page))
    id = send_with_consent(form_of(page))
    assert delete_copy(page, stored, id) == 204
    page.reload()
    not_helpful(page).click()
    expect(form_of(page).get_by_role("checkbox")).not_to_be_checked()
    press(form_of(page).get_by_role("button", name="It is not true"))

    assert delete_copy(page, stored, id) == 404


def test_each_version_of_an_answer_keeps_its_rating(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say one version")
    press(helpful(page))
    edit(page, "say another version")
    page.reload()
    expect(helpful(page)).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="Previous version").click()

    expect(helpful(page)).to_have_attribute("aria-pressed", "true")


def test_a_broken_answer_of_an_earlier_visit_cannot_be_rated(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    page.get_by_label("Ask a question").fill("say so far; fail with outage")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("broke off")
    expect(helpful(page)).to_be_visible()
    page.wait_for_load_state("networkidle")  # the page has stored it
    with page.expect_response("**/feedback/conversations/*"):
        page.reload()
    expect(page.get_by_role("button", name="Copy", exact=True)).to_be_visible()

    expect(helpful(page)).to_be_hidden()


def test_a_conversation_is_shown_where_its_feedback_cannot_be_read(
    page: Page, stored: Server
) -> None:
    def fail(route: Route) -> None:
        route.fulfill(status=503, json={"error": "Busy."})

    page.route("**/feedback/conversations/*", fail)
    page.goto(stored.url)
    ask_and_wait(page, "say fine")
    with page.expect_response("**/feedback/conversations/*"):
        page.reload()

    expect(page.locator(".turn .text")).to_have_text("fine")
    expect(helpful(page)).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_hidden()
