"""A tab that the browser puts to sleep while an answer streams: closed lid, hidden for long."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from tests.support.browser.page import ask, last_answer, release
from tests.support.browser.relay import run_relay
from tests.support.servers import Server


def sleep(page: Page, context: BrowserContext) -> None:
    set_state(page, context, "frozen")


def wake(page: Page, context: BrowserContext) -> None:
    set_state(page, context, "active")


def set_state(page: Page, context: BrowserContext, state: str) -> None:
    context.new_cdp_session(page).send("Page.setWebLifecycleState", {"state": state})


def test_answer_that_ends_during_sleep_is_whole_afterwards(
    page: Page, context: BrowserContext, scripted: Server
) -> None:
    page.goto(scripted.url)
    ask(page, "say before; wait for sleep; say , during")
    expect(page.locator(".turn .text")).to_have_text("before")
    sleep(page, context)
    release(scripted, "sleep")
    wake(page, context)

    expect(page.locator(".turn .text")).to_have_text("before, during")
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_answer_that_goes_on_after_sleep_is_whole(
    page: Page, context: BrowserContext, scripted: Server
) -> None:
    page.goto(scripted.url)
    ask(page, "say before; wait for waking; say , after")
    expect(page.locator(".turn .text")).to_have_text("before")
    sleep(page, context)
    wake(page, context)
    release(scripted, "waking")

    expect(page.locator(".turn .text")).to_have_text("before, after")


def test_answer_that_lost_its_connection_during_sleep_can_be_asked_again(
    page: Page, context: BrowserContext, scripted: Server
) -> None:
    with run_relay(scripted.url) as relay:
        page.goto(relay.url)
        ask(page, "say so far; wait for network; say , all")
        expect(page.locator(".turn .text")).to_have_text("so far")
        sleep(page, context)
        relay.cut()
        wake(page, context)
        expect(page.get_by_role("alert")).to_have_text("The answer broke off. Ask again.")
        assert last_answer(page) == "so far"
        release(scripted, "network")
        page.get_by_role("button", name="Ask again").click()

        expect(page.locator(".turn .text")).to_have_text("so far, all")
        expect(page.locator(".turn")).to_have_count(1)
