"""What goes wrong is explained, and nothing is lost by it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.support.browser.page import VACATION, ask, ask_and_wait, last_answer, release
from tests.support.servers import Server


@pytest.mark.parametrize(
    ("orders", "sentence"),
    [
        ("refuse with 429 after 7", r"Too many requests\. Ask again in [5-7] seconds"),
        ("refuse with outage", r"The app could not answer \(503\)"),
        ("refuse with content filter", r"The app could not answer \(400\)"),
        ("refuse with bug", r"The app could not answer \(500\)"),
    ],
)
def test_failure_is_explained_and_can_be_retried(
    page: Page, scripted: Server, orders: str, sentence: str
) -> None:
    page.goto(scripted.url)
    ask(page, orders)

    expect(page.get_by_role("alert")).to_have_text(re.compile(sentence))
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Edit the question")).to_have_value(orders)


def test_wait_of_a_429_counts_down_to_now(page: Page, scripted: Server) -> None:
    headers = {"Retry-After": "2"}
    page.route("**/chat/stream", lambda route: route.fulfill(status=429, headers=headers))
    page.goto(scripted.url)
    ask(page, "say hello")

    expect(page.get_by_role("alert")).to_contain_text("Ask again in 2 seconds.")
    expect(page.get_by_role("alert")).to_contain_text("Ask again in 1 second")
    expect(page.get_by_role("alert")).to_contain_text("You can ask again now.")


def test_sentence_of_the_app_is_translated_or_marked_as_english(
    page: Page, scripted: Server
) -> None:
    page.add_init_script("localStorage.setItem('language', '\"de\"')")
    page.goto(scripted.url)
    page.locator("#question:enabled").fill("refuse with misconfigured")
    page.keyboard.press("Enter")
    alert = page.locator(".turn .error")
    expect(alert).to_contain_text("Die App ist nicht richtig eingerichtet.")
    expect(alert.locator("[lang=en]")).to_have_count(0)
    page.route(
        "**/chat/stream", lambda route: route.fulfill(status=400, json={"error": "top: too many"})
    )
    page.locator(".turn .retry").click()

    expect(alert.locator("[lang=en]")).to_have_text("(top: too many)")


def test_interrupted_answer_stays(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say so far; fail with outage")

    expect(page.get_by_role("alert")).to_contain_text("The answer broke off.")
    assert last_answer(page) == "so far"


def test_answer_at_its_limit_says_so_and_can_go_on(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask_and_wait(page, "say the first half; end with length")
    expect(page.get_by_text("The answer reached its length limit.")).to_be_visible()
    page.get_by_role("button", name="Continue the answer").click()

    expect(page.locator(".turn .words").last).to_have_text("Continue the answer where it ended.")
    expect(page.locator(".turn .retry").last).to_be_visible()
    expect(page.get_by_role("button", name="Continue the answer")).to_have_count(0)


def test_empty_answer_says_so(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask_and_wait(page, "end with stop")

    expect(page.get_by_text("The model gave an empty answer. Ask again.")).to_be_visible()


def test_answer_that_stalls_says_for_how_long(page: Page, scripted: Server) -> None:
    page.clock.install()
    page.goto(scripted.url)
    ask(page, "say begun; wait for the stalled")
    expect(page.locator(".turn .text")).to_have_text("begun")
    page.clock.run_for(12_000)
    expect(page.get_by_text(re.compile(r"nothing new for 1[0-2] seconds"))).to_be_visible()
    release(scripted, "the stalled")
    page.clock.run_for(1_000)

    expect(page.locator(".turn .retry")).to_be_visible()
    expect(page.get_by_text("nothing new for")).to_have_count(0)


def test_without_a_network_the_question_is_kept(
    page: Page, context: BrowserContext, scripted: Server
) -> None:
    page.goto(scripted.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    context.set_offline(True)
    ask(page, "say back")
    expect(page.get_by_role("alert")).to_contain_text("The app does not respond.")
    context.set_offline(False)
    page.get_by_role("button", name="Ask again").click()

    expect(page.locator(".turn .text")).to_have_text("back")


def require_key(route: Route) -> None:
    """Respond as the Functions host does without the key."""
    if route.request.headers.get("x-functions-key") == "secret":
        route.continue_()
    else:
        route.fulfill(status=401)


def ask_without_key(page: Page, server: Server) -> None:
    page.goto(server.url)
    page.route("**/chat/stream", require_key)
    ask(page, "say hello")


def enter_key(page: Page, key: str) -> None:
    page.get_by_label("The function key.").fill(key)
    page.keyboard.press("Enter")


def test_key_dialog_can_be_left_without_a_key(page: Page, scripted: Server) -> None:
    ask_without_key(page, scripted)
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Edit").click()

    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_label("Edit the question")).to_have_value("say hello")
    assert page.evaluate("sessionStorage.length") == 0


def test_key_is_asked_for_and_sent_as_a_header(page: Page, scripted: Server) -> None:
    ask_without_key(page, scripted)
    enter_key(page, "secret")

    expect(page.locator(".turn .text")).to_have_text("hello")
    assert "secret" not in page.url


def test_wrong_key_is_called_wrong(page: Page, scripted: Server) -> None:
    ask_without_key(page, scripted)
    alert = page.get_by_role("dialog").get_by_role("alert")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(alert).to_be_hidden()
    enter_key(page, "wrong")
    expect(alert).to_have_text("The app did not accept the key.")
    enter_key(page, "secret")

    expect(page.locator(".turn .text")).to_have_text("hello")


def test_key_that_no_header_can_carry_is_refused(page: Page, scripted: Server) -> None:
    ask_without_key(page, scripted)
    enter_key(page, "schlüssel")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("only Latin letters")
    enter_key(page, "secret")

    expect(page.locator(".turn .text")).to_have_text("hello")


def test_missing_document_behind_a_key_is_explained(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    page.evaluate("sessionStorage.setItem('x-functions-key', 'secret')")
    page.route("**/content/**", lambda route: route.fulfill(status=404, json={"error": "No file."}))
    ask(page, VACATION)
    page.locator(".citations button").first.click()
    page.get_by_role("link", name="Open the document").click()

    expect(page.locator("#notice")).to_contain_text("No file.")


def test_sign_in_is_where_the_platform_says(page: Page, samples: Server) -> None:
    page.route("**/chat/stream", lambda route: route.fulfill(status=401))
    page.route("**/.auth/**", lambda route: route.fulfill(body="sign in"))
    setup = {"platformSignIn": True, "signInPath": "/.auth/login/aad?post_login_redirect_uri=/"}
    page.route("**/auth_setup", lambda route: route.fulfill(json=setup))
    page.goto(samples.url)
    ask(page, VACATION)
    page.wait_for_url("**/.auth/login/aad?post_login_redirect_uri=/")
    page.evaluate("window.violations = []")
    page.goto(samples.url)  # as the platform does after the sign-in

    expect(page.get_by_label("Ask a question")).to_have_value(VACATION)


def test_wrong_settings_are_told_at_start(page: Page, scripted: Server) -> None:
    page.route("**/config", lambda route: route.fulfill(status=503, json={"error": "x"}))
    page.goto(scripted.url)

    expect(page.get_by_text("The page could not start. Look at /health.")).to_be_visible()


@pytest.mark.parametrize("languages", ["de", "{de,en}"])
def test_page_works_without_the_file_of_its_language(
    page: Page, scripted: Server, languages: str
) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'languages', { get: () => ['de-DE'] })")
    page.route(f"**/languages/{languages}.json", lambda route: route.fulfill(status=404))
    page.goto(scripted.url)
    page.locator("#question:enabled").fill("say hello")
    page.keyboard.press("Enter")

    expect(page.locator(".turn .text")).to_have_text("hello")


def test_page_works_where_the_browser_refuses_its_storage(page: Page, scripted: Server) -> None:
    page.add_init_script(
        """
        const refuse = { get() { throw new DOMException("refused", "SecurityError"); } };
        for (const name of ["localStorage", "sessionStorage"]) {
          Object.defineProperty(window, name, refuse);
        }
        """
    )
    ask_without_key(page, scripted)
    enter_key(page, "secret")

    expect(page.locator(".turn .text")).to_have_text("hello")
