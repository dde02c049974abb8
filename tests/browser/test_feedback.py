"""The form below an answer that did not help: reasons, a comment, a copy with consent."""

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
from tests.support.browser.page import ask
from tests.support.servers import Server

pytestmark = [pytest.mark.part("feedback"), pytest.mark.part("conversations")]


def open_form(page: Page, server: Server) -> Locator:
    """Rate an answer as not helpful. Returns the form."""
    page.goto(server.url)
    ask(page, "say fine")
    page.get_by_role("button", name="Not helpful").press("Enter")
    return form_of(page)


def test_a_comment_is_sent_by_keyboard_alone(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    form.get_by_role("textbox", name=COMMENT).press_sequentially("It is 30 days.")
    page.keyboard.press("Tab")
    expect(form.get_by_role("checkbox")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(form.get_by_role("status")).to_have_text("Thank you.")
    expect(form.get_by_role("button", name="Delete the copy")).to_be_hidden()


@pytest.mark.part("feedback-copies")
def test_a_copy_needs_consent_and_can_be_deleted(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    consent = form.get_by_role("checkbox", name="for 30 days, without my name")
    expect(consent).to_have_accessible_name(re.compile("up to three before them"))
    expect(consent).not_to_be_checked()
    consent.check()
    form.get_by_role("button", name="Send").click()
    id = copy_id(form)
    form.get_by_role("button", name="Delete the copy").click()

    expect(form.get_by_role("status")).to_have_text("The copy is deleted.")
    expect(consent).not_to_be_checked()
    assert delete_copy(page, stored, id) == 404


@pytest.mark.part("feedback-copies")
def test_a_later_reason_keeps_the_comment_and_the_copy(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    id = send_with_consent(form)
    missing = form.get_by_role("button", name="Something is missing")
    missing.click()
    expect(missing).to_have_attribute("aria-pressed", "true")

    assert delete_copy(page, stored, id) == 204


@pytest.mark.part("feedback-copies")
def test_a_good_rating_deletes_the_copy(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    id = send_with_consent(form)
    page.get_by_role("button", name="Helpful", exact=True).click()
    expect(form).to_be_hidden()

    assert delete_copy(page, stored, id) == 404


def test_reasons_in_quick_succession_are_all_sent(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    sent: list[list[str]] = []
    page.on("request", lambda it: sent.append((it.post_data_json or {}).get("reasons", [])))
    for name in ("It is not true", "Something is missing", "It does not answer the question"):
        form.get_by_role("button", name=name).click()
    expect(form.locator("[aria-pressed=true]")).to_have_count(3)

    assert sent[-1] == ["incorrect", "incomplete", "irrelevant"]


def test_a_comment_that_cannot_be_sent_stays(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    comment = form.get_by_role("textbox", name=COMMENT)
    comment.fill("It is 30 days.")
    busy = {"error": "Busy."}
    page.route("**/feedback", lambda route: route.fulfill(status=503, json=busy))
    form.get_by_role("button", name="Send").click()

    expect(page.get_by_role("alert")).to_contain_text("Busy.")
    expect(comment).to_have_value("It is 30 days.")
    page.unroute("**/feedback")
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("status")).to_have_text("Thank you.")
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.part("feedback-copies")
def test_a_second_press_changes_nothing(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    id = send_with_consent(form)
    page.get_by_role("button", name="Not helpful").dblclick()
    expect(form.get_by_role("textbox")).to_have_count(1)

    assert copy_id(form) == id
    assert delete_copy(page, stored, id) == 204


def test_a_double_click_opens_one_form(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask(page, "say fine")
    page.get_by_role("button", name="Not helpful").dblclick()
    form = page.get_by_role("group", name="What was wrong?")
    expect(form.get_by_role("textbox")).to_have_count(1)
    page.wait_for_load_state("networkidle")

    assert form.get_by_role("textbox").count() == form.get_by_role("list").count() == 1


@pytest.mark.part("feedback-copies")
def test_the_last_of_two_ratings_at_once_counts(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    form.get_by_role("checkbox").check()
    order: list[str] = []

    def delay_consent(route: Route) -> None:
        fields = route.request.post_data_json or {}
        order.append(fields["rating"])
        if fields["keep_copy"]:
            page.wait_for_timeout(300)
        route.continue_()

    page.route("**/feedback", delay_consent)
    sent = []
    page.on("response", lambda it: sent.append(it.json()) if it.status == 200 else None)
    form.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Helpful", exact=True).click()
    expect(form).to_be_hidden()

    assert order == ["down", "up"]
    assert delete_copy(page, stored, sent[0]["copy_id"]) == 404


def test_reasons_do_not_wait_for_the_comment(page: Page, stored: Server) -> None:
    def hold_setup(route: Route) -> None:
        if route.request.method != "GET":
            route.continue_()

    page.route("**/feedback", hold_setup)
    form = open_form(page, stored)
    missing = form.get_by_role("button", name="Something is missing")
    missing.click()

    expect(missing).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")


def test_a_form_is_not_sent_under_another_rating(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    form.get_by_role("checkbox").check()
    sent: list[str] = []

    def delay_rating(route: Route) -> None:
        sent.append((route.request.post_data_json or {})["rating"])
        page.wait_for_timeout(300)
        route.continue_()

    page.route("**/feedback", delay_rating)
    page.get_by_role("button", name="Helpful", exact=True).click()
    form.get_by_role("button", name="Send").click()
    expect(form).to_be_hidden()
    page.wait_for_timeout(300)

    assert sent == ["up"]


def test_a_rating_keeps_the_error_of_a_broken_answer(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    page.get_by_label("Ask a question").fill("say so far; fail with outage")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("broke off")
    page.get_by_role("button", name="Not helpful").click()
    expect(page.get_by_role("group", name="What was wrong?")).to_be_visible()

    expect(page.get_by_role("alert")).to_contain_text("broke off")


@pytest.mark.part("feedback-copies")
def test_the_focus_stays_in_the_form(page: Page, stored: Server) -> None:
    form = open_form(page, stored)
    form.get_by_role("checkbox").check()
    form.get_by_role("button", name="Send").press("Enter")
    copy_id(form)
    expect(form.get_by_role("button", name="Send")).to_be_focused()
    form.get_by_role("button", name="Delete the copy").press("Enter")

    expect(form.get_by_role("checkbox")).to_be_focused()


def test_only_reasons_are_asked_for_where_nothing_is_stored(page: Page, scripted: Server) -> None:
    form = open_form(page, scripted)

    expect(form.get_by_role("button", name="It is not true")).to_be_visible()
    expect(form.get_by_role("textbox")).to_be_hidden()
    expect(form.get_by_role("checkbox")).to_be_hidden()


def test_consent_is_not_asked_for_where_no_copies_are_kept(page: Page, samples: Server) -> None:
    form = open_form(page, samples)

    expect(form.get_by_role("textbox", name=COMMENT)).to_be_visible()
    expect(form.get_by_role("checkbox")).to_be_hidden()
