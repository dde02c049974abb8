"""Questions that are edited or asked again: nothing is lost, here or in the store."""

from __future__ import annotations

import json

from playwright.sync_api import Page, Route, expect

from tests.support.browser.page import (
    ask,
    ask_and_wait,
    edit,
    last_answer,
    open_conversation,
    release,
    reopen,
    send_edited,
)
from tests.support.servers import Server


def test_question_is_edited_in_its_place_and_can_be_cancelled(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask_and_wait(page, "say one")
    page.get_by_label("Ask a question").fill("a draft")
    page.get_by_role("button", name="Edit").click()
    field = page.get_by_label("Edit the question")
    expect(field).to_have_value("say one")
    expect(field).to_be_focused()
    field.fill("say two")
    page.keyboard.press("Escape")

    expect(page.locator(".turn .words")).to_have_text("say one")
    expect(page.locator(".turn .text")).to_have_text("one")
    expect(page.get_by_role("button", name="Edit")).to_be_focused()
    expect(page.get_by_label("Ask a question")).to_have_value("a draft")


def test_versions_of_an_answer_can_be_paged(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask_and_wait(page, "say one")
    edit(page, "say two")
    edit(page, "say three")
    versions = page.locator(".versions")
    expect(versions).to_contain_text("3 of 3")
    expect(page.get_by_role("button", name="Next version")).to_be_disabled()
    page.get_by_role("button", name="Previous version").click()
    page.get_by_role("button", name="Previous version").click()

    expect(versions).to_contain_text("1 of 3")
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".turn .words")).to_have_text("say one")
    assert last_answer(page) == "one"
    expect(page.get_by_role("button", name="Next version")).to_be_focused()


def test_model_gets_the_version_that_is_shown(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say one")
    edit(page, "say two")
    with page.expect_request("**/chat/stream") as newest:
        ask_and_wait(page, "list questions")
    expect(page.locator(".turn .text").last).to_have_text("say two")
    page.locator(".turn").first.get_by_role("button", name="Previous version").click()
    ask_and_wait(page, "list questions")

    assert len(json.loads(newest.value.post_data or "")["messages"]) == 1  # the app has the rest
    expect(page.locator(".turn .text").last).to_contain_text("say one")
    expect(page.locator(".turn .text").last).not_to_contain_text("say two")


def test_versions_are_stored(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say one")
    ask_and_wait(page, "say two")
    edit(page, "say three")
    page.get_by_role("button", name="Ask again").last.click()
    expect(page.locator(".versions").last).to_contain_text("3 of 3")
    expect(page.locator(".turn .retry").last).to_be_visible()
    page.reload()

    expect(page.locator(".turn .words")).to_have_text(["say one", "say three"])
    expect(page.locator(".turn .text")).to_have_text(["one", "three"])
    page.get_by_role("button", name="Previous version").click()
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(".turn .words")).to_have_text(["say one", "say two"])


def test_edited_first_question_names_the_conversation(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say a first name")
    address = page.url
    edit(page, "say a second name")
    open_conversation(page, "say a second name")

    expect(page.locator(".versions")).to_contain_text("2 of 2")
    assert page.url == address
    ask_and_wait(page, "list questions")
    expect(page.locator(".turn .text").last).to_have_text("say a second name")


def test_name_that_a_person_gave_stays(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say something to be named")
    page.locator("#conversations li").first.hover()
    page.locator("#conversations li").first.get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill("My own name")
    page.keyboard.press("Enter")
    edit(page, "say something else")
    page.reload()

    expect(page.get_by_role("link", name="My own name")).to_be_visible()


def test_edited_question_without_an_answer_replaces_nothing(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say it stays")
    edit(page, "refuse with outage")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(".turn .text")).to_have_text("it stays")
    reopen(page, "say it stays")
    expect(page.locator(".turn .words")).to_have_text(["say it stays"])
    ask_and_wait(page, "list questions")

    expect(page.locator(".turn .text").last).to_have_text("say it stays")


def test_earlier_version_stays_until_the_new_answer_begins_and_after_a_stop(
    page: Page, stored: Server
) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say before")
    send_edited(page, "say after; wait for a version")
    expect(page.locator(".turn .text")).to_have_text("after")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Link to this answer")).to_be_visible()
    release(stored, "a version")
    page.reload()

    expect(page.locator(".versions")).to_contain_text("2 of 2")
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(".turn .text")).to_have_text("before")


def test_retry_of_a_failed_question_leaves_no_empty_version(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    page.route("**/chat/stream", lambda route: route.fulfill(status=503), times=1)
    ask(page, "say back")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("button", name="Ask again").click()

    expect(page.locator(".turn .text")).to_have_text("back")
    expect(page.locator(".versions")).to_be_hidden()


def test_versions_of_an_earlier_turn_can_be_paged_there_and_back(
    page: Page, stored: Server
) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say one")
    edit(page, "say two")
    for number in range(3):
        ask_and_wait(page, f"say later {number}")
    page.reload()
    first = page.locator(".turn").first
    first.get_by_role("button", name="Previous version").click()
    expect(first.locator(".text")).to_have_text("one")
    expect(first.get_by_role("button", name="Edit")).to_be_hidden()
    first.get_by_role("button", name="Next version").click()

    expect(first.locator(".text")).to_have_text("two")


def test_new_chat_during_an_edited_answer_keeps_both_versions(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say original")
    address = page.url
    send_edited(page, "say changed; wait for a new chat")
    expect(page.locator(".turn .text")).to_have_text("changed")
    page.get_by_role("button", name="New chat").click()
    ask_and_wait(page, "say something else")
    page.goto(address)

    expect(page.locator(".turn .text")).to_have_text("changed")
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(".turn .text")).to_have_text("original")


def test_new_chat_before_an_edited_answer_begins_replaces_nothing(
    page: Page, stored: Server
) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say it remains")
    address = page.url
    send_edited(page, "say never; open as held for ever")
    expect(page.get_by_text("Searching")).to_be_visible()
    with page.expect_response(lambda response: response.request.method == "PUT"):
        page.get_by_role("button", name="New chat").click()
    ask_and_wait(page, "say something else")
    page.goto(address)
    expect(page.locator(".turn .words")).to_have_text("say it remains")
    ask_and_wait(page, "list questions")

    expect(page.locator(".turn .text").last).to_have_text("say it remains")


def test_answer_stopped_and_asked_again_at_once_is_a_version(page: Page, stored: Server) -> None:
    def store_late(route: Route) -> None:
        page.wait_for_timeout(500)
        route.continue_()

    page.route("**/messages", store_late)
    page.goto(stored.url)
    ask(page, "say it begins; wait for the late")
    expect(page.locator(".turn .text")).to_have_text("it begins")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".versions")).to_contain_text("2 of 2")
    expect(page.locator(".turn .text")).to_have_text("it begins")
    release(stored, "the late")
    expect(page.locator(".turn .retry")).to_be_visible()
    page.reload()

    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".versions")).to_contain_text("2 of 2")
