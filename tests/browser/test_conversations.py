"""Stored conversations on the page: the list of them, their addresses, what is stored."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.support.browser.page import (
    MEMORY,
    VACATION,
    ask,
    ask_and_wait,
    open_conversation,
    open_list,
    release,
    reopen,
)
from tests.support.servers import Server


def entry(page: Page, name: str) -> Locator:
    """The entry of the list with this name."""
    link = page.get_by_role("link", name=name, exact=True)
    return page.locator("#conversations li").filter(has=link)


def act(page: Page, name: str, action: str) -> None:
    """Press a button of an entry."""
    entry(page, name).hover()
    entry(page, name).get_by_role("button", name=action).click()


def store(server: Server, name: str, *turns: tuple[str, str]) -> str:
    """Store a conversation by the memory API. Returns its id."""
    with server.client() as client:
        id = str(client.post(MEMORY, json={"name": name}).json()["memory_id"])
        for question, answer in turns:
            turn = {"input": question, "response": answer}
            client.post(f"{MEMORY}/{id}/messages", json=turn).raise_for_status()
    return id


def stored_turns(server: Server, id: str) -> list[tuple[str, str, object]]:
    """The turns of a conversation: question, answer, and how the answer ended."""
    with server.client() as client:
        messages = client.get(f"{MEMORY}/{id}/messages").json()["messages"]
    infos = [each["additional_info"] for each in messages]
    ended = [info.get("ended") if isinstance(info, dict) else None for info in infos]
    return [
        (each["input"], each["response"], end) for each, end in zip(messages, ended, strict=True)
    ]


def current_id(page: Page) -> str:
    """The id of the conversation in the address."""
    match = re.search(r"#c=(\w+)", page.url)
    assert match is not None
    return match[1]


def test_new_conversation_is_listed_at_once_and_marked(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask(page, "say listed; wait for the list")

    expect(entry(page, "say listed; wait for the list").get_by_role("link")).to_have_attribute(
        "aria-current", "page"
    )
    release(stored, "the list")
    expect(page.locator(".turn .retry")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.locator("#conversations [aria-current]")).to_have_count(0)


def test_conversation_is_renamed_in_its_place(page: Page, stored: Server) -> None:
    store(stored, "Old name", ("Why?", "So."))
    page.goto(stored.url)
    act(page, "Old name", "Rename")
    page.get_by_label("New name").fill("A draft")
    page.keyboard.press("Escape")
    expect(entry(page, "Old name").get_by_role("link")).to_be_focused()
    act(page, "Old name", "Rename")
    page.get_by_label("New name").fill("Better name")
    page.keyboard.press("Enter")
    expect(entry(page, "Better name").get_by_role("link")).to_be_focused()
    page.reload()

    expect(entry(page, "Better name")).to_be_visible()
    expect(entry(page, "Old name")).to_have_count(0)


def test_deletion_can_be_undone_for_some_seconds(page: Page, stored: Server) -> None:
    id = store(stored, "Kept after all", ("Why?", "So."))
    page.goto(stored.url)
    open_conversation(page, "Kept after all")
    expect(page.locator(".turn")).to_have_count(1)
    act(page, "Kept after all", "Delete")
    expect(page.locator(".turn")).to_have_count(0)
    expect(entry(page, "Kept after all")).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="is deleted")).to_be_visible()
    page.get_by_role("button", name="Undo").click()

    expect(page.locator(".turn")).to_have_count(1)
    expect(entry(page, "Kept after all").get_by_role("link")).to_be_focused()
    assert stored_turns(stored, id) == [("Why?", "So.", None)]


def test_deletion_is_carried_out_when_it_is_no_longer_offered_to_undo(
    page: Page, stored: Server
) -> None:
    for name in ("Stays", "Gone by the next", "Gone by leaving"):
        store(stored, name)
    page.goto(stored.url)
    with page.expect_response(lambda response: response.request.method == "DELETE") as deleted:
        act(page, "Gone by the next", "Delete")
        act(page, "Gone by leaving", "Delete")
    assert deleted.value.ok
    page.reload()
    open_list(page)

    expect(entry(page, "Stays")).to_be_visible()
    expect(entry(page, "Gone by the next")).to_have_count(0)
    expect(entry(page, "Gone by leaving")).to_have_count(0)


def test_list_is_searched_by_name_also_beyond_its_first_page(page: Page, stored: Server) -> None:
    store(stored, "The needle")
    for number in range(110):
        store(stored, f"Hay {number}")
    page.goto(stored.url)
    expect(entry(page, "The needle")).to_have_count(0)
    page.get_by_label("Search the names of conversations").fill("NEEDLE")

    expect(page.locator("#conversations li")).to_have_count(1)
    expect(entry(page, "The needle")).to_be_visible()
    page.get_by_label("Search the names of conversations").fill("no such name")
    expect(page.get_by_text("No conversation has “no such name” in its name.")).to_be_visible()


def test_failure_of_the_list_is_explained_in_it(page: Page, stored: Server) -> None:
    failure = {"error": {"reason": "The store does not respond."}}
    page.route("**/_plugins/_ml/memory?*", lambda route: route.fulfill(status=503, json=failure))
    page.goto(stored.url)
    alert = page.locator("#conversations").get_by_role("alert")
    expect(alert).to_contain_text("The app could not answer (503).")
    expect(alert).to_contain_text("The store does not respond.")
    ask(page, "say still here")

    expect(page.locator(".turn .text")).to_have_text("still here")


def test_drawer_of_a_phone_closes_by_choice_escape_and_outside(page: Page, stored: Server) -> None:
    store(stored, "On a phone", ("Why?", "So."))
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(stored.url)
    drawer = page.locator("#conversations")
    expect(drawer).to_be_hidden()
    open_list(page)
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page.get_by_role("button", name="Conversations")).to_be_focused()
    open_list(page)
    page.mouse.click(350, 400)
    expect(drawer).to_be_hidden()
    open_conversation(page, "On a phone")

    expect(page.locator(".turn")).to_have_count(1)
    expect(drawer).to_be_hidden()


def test_reload_and_back_keep_the_conversation(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say first conversation")
    page.get_by_role("button", name="New chat").click()
    ask_and_wait(page, "say second conversation")
    page.reload()
    expect(page.locator(".turn .text")).to_have_text("second conversation")
    page.go_back()
    expect(page.locator(".turn .text")).to_have_text("first conversation")
    page.go_forward()

    expect(page.locator(".turn .text")).to_have_text("second conversation")


def test_link_to_an_answer_opens_its_turn(page: Page, stored: Server) -> None:
    turns = [(f"Question {number}", "An answer.\n\n" * 9) for number in range(1, 9)]
    store(stored, "Eight turns", *turns)
    page.goto(stored.url)
    open_conversation(page, "Eight turns")
    third = page.locator(".turn").nth(2)
    third.get_by_role("button", name="Link to this answer").click()
    expect(third.get_by_role("button", name="Copied")).to_be_visible()
    address = page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(address)

    expect(third.locator(".question")).to_be_in_viewport()
    expect(page.locator(".turn").last).not_to_be_in_viewport()


def test_address_of_a_missing_conversation_says_so(page: Page, stored: Server) -> None:
    page.goto(f"{stored.url}/#c=0000000000000000")
    expect(page.get_by_text("This conversation does not exist any more.")).to_be_visible()
    ask_and_wait(page, "say at work")

    expect(page.locator(".turn .text")).to_have_text("at work")
    assert "0000" not in page.url


def test_conversation_deleted_elsewhere_goes_on_as_another_one(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask_and_wait(page, "say one")
    id = current_id(page)
    with stored.client() as client:
        client.delete(f"{MEMORY}/{id}").raise_for_status()
    ask(page, "list questions")
    expect(page.get_by_role("alert")).to_contain_text("404")
    page.get_by_role("button", name="Ask again").click()

    expect(page.locator(".turn .text").last).to_have_text("say one")
    assert current_id(page) != id


def test_stopped_answer_is_stored_and_the_model_gets_it(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask(page, "say begun; wait for a stop that never comes")
    expect(page.locator(".turn .text")).to_have_text("begun")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    expect(page.get_by_role("button", name="Link to this answer")).to_be_visible()
    page.reload()
    expect(page.locator(".turn .text")).to_have_text("begun")
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    with page.expect_request("**/chat/stream") as sent:
        ask_and_wait(page, "list questions")

    assert len(json.loads(sent.value.post_data or "")["messages"]) == 1
    expect(page.locator(".turn .text").last).to_have_text(
        "say begun; wait for a stop that never comes"
    )


def test_answer_that_broke_off_is_stored_with_what_had_come(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask(page, "say so far; fail with outage")
    expect(page.get_by_role("alert")).to_contain_text("The answer broke off.")
    expect(page.get_by_role("button", name="Link to this answer")).to_be_visible()

    question = "say so far; fail with outage"
    assert stored_turns(stored, current_id(page)) == [(question, "so far", "failed")]
    page.reload()
    expect(page.get_by_text("This answer broke off.")).to_be_visible()


def test_answer_is_stored_if_the_page_is_left_while_it_streams(
    page: Page, context: BrowserContext, stored: Server
) -> None:
    page.goto(stored.url)
    ask(page, "say half; wait for somebody who has left")
    expect(page.locator(".turn .text")).to_have_text("half")
    address = page.url
    page.goto("about:blank")
    page.goto(address)

    expect(page.locator(".turn .text")).to_have_text("half")
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()


def test_stopped_answer_is_stored_if_the_page_is_left_at_once(page: Page, stored: Server) -> None:
    # Never answered: what the page reads to find out whether the app has stored the answer.
    page.route("**/conversation/*max_results=1", lambda route: None)
    page.goto(stored.url)
    ask(page, "say part; wait for a stop before the page is left")
    expect(page.locator(".turn .text")).to_have_text("part")
    with page.expect_request("**/conversation/*max_results=1"):
        page.get_by_role("button", name="Stop", exact=True).click()
    address = page.url
    page.goto("about:blank")
    page.goto(address)

    expect(page.locator(".turn .text")).to_have_text("part")
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()


def test_first_answer_that_was_stopped_before_a_word_keeps_its_question(
    page: Page, stored: Server
) -> None:
    page.goto(stored.url)
    ask(page, "wait for nothing at all")
    expect(page.get_by_text("Writing")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Link to this answer")).to_be_visible()
    page.reload()

    expect(page.locator(".question .words")).to_have_text("wait for nothing at all")
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()


def test_conversation_with_sources_is_opened_with_them(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    ask_and_wait(page, VACATION)
    reopen(page, VACATION)
    page.locator(".turn .citation").first.click()

    expect(page.get_by_role("complementary").locator("mark").first).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("complementary")).to_be_hidden()


@pytest.mark.parametrize("width", [360, 1280])
def test_list_is_used_by_keyboard_alone(page: Page, stored: Server, width: int) -> None:
    store(stored, f"By keyboard {width}", ("Why?", "So."))
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(stored.url)
    expect(page.get_by_label("Ask a question")).to_be_focused()
    page.get_by_role("button", name="Conversations").focus()
    page.keyboard.press("Enter")
    if width > 1000:  # it was open
        page.keyboard.press("Enter")
    expect(page.get_by_label("Search the names of conversations")).to_be_focused()
    page.keyboard.type(f"by keyboard {width}")
    expect(entry(page, f"By keyboard {width}")).to_be_visible()  # the list may still be loading
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.locator(".turn .words")).to_have_text("Why?")


def test_answer_is_stored_if_another_conversation_is_begun(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    ask(page, "say half of it; wait for a change of mind")
    expect(page.locator(".turn .text")).to_have_text("half of it")
    id = current_id(page)
    page.get_by_role("button", name="New chat").click()
    ask_and_wait(page, "say the other")

    question = "say half of it; wait for a change of mind"
    assert stored_turns(stored, id) == [(question, "half of it", "stopped")]


def test_deleted_conversation_stays_away_while_the_list_is_read_again(
    page: Page, stored: Server
) -> None:
    store(stored, "Doomed", ("Why?", "So."))
    page.goto(stored.url)
    open_conversation(page, "Doomed")
    expect(page.locator(".turn")).to_have_count(1)
    act(page, "Doomed", "Delete")
    ask_and_wait(page, "say a new one is listed")

    expect(entry(page, "say a new one is listed")).to_be_visible()
    expect(entry(page, "Doomed")).to_have_count(0)


def test_undo_is_within_reach_on_a_phone(page: Page, stored: Server) -> None:
    store(stored, "Phone", ("Why?", "So."))
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(stored.url)
    open_list(page)
    act(page, "Phone", "Delete")
    page.get_by_role("button", name="Undo").click()

    expect(entry(page, "Phone")).to_be_visible()


def test_answer_that_the_app_has_stored_whole_is_not_stored_again(
    page: Page, stored: Server
) -> None:
    def lose_last_line(route: Route) -> None:
        reply = route.fetch()
        lines = reply.text().splitlines(keepends=True)
        route.fulfill(response=reply, body="".join(lines[:-1]))

    page.route("**/chat/stream", lose_last_line)
    page.goto(stored.url)
    ask(page, "say whole")
    expect(page.get_by_role("alert")).to_contain_text("The answer broke off.")
    expect(page.get_by_role("button", name="Link to this answer")).to_be_visible()

    assert stored_turns(stored, current_id(page)) == [("say whole", "whole", None)]
