"""What a person does on the page, clicked through in a browser."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, Route, expect

from tests.support.browser.page import VACATION, ask, last_answer
from tests.support.servers import Server


def test_first_screen_says_what_runs_and_offers_questions(page: Page, samples: Server) -> None:
    page.goto(samples.url)

    expect(page.get_by_text("The demo model answers")).to_be_visible()
    expect(page.get_by_text("It searches the sample documents.")).to_be_visible()
    expect(page.get_by_text("make index DOCS=path/to/documents")).to_be_visible()
    for example in page.locator("#examples button").all_inner_texts():
        page.get_by_role("button", name=example).click()
        expect(page.locator(".turn .citation").first).to_be_visible()
        page.get_by_role("button", name="New chat").click()


def test_citation_shows_the_passage_with_the_quote_marked(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    ask(page, VACATION)
    page.locator(".turn .citation").first.click()

    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading")).to_have_text("company/employee_handbook.md")
    marked = " ".join(panel.locator("mark").all_inner_texts())
    assert "20 days of paid vacation a year" in " ".join(marked.split())
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator(".turn .citation").first).to_be_focused()


def test_document_opens_in_a_new_tab(page: Page, context: BrowserContext, samples: Server) -> None:
    page.goto(samples.url)
    ask(page, "What does Northwind Health Plus cover that Northwind Standard does not?")
    page.locator(".citations button").first.click()
    with context.expect_event("request", lambda request: "/content/" in request.url) as opened:
        page.get_by_role("link", name="Open the document").click()

    assert opened.value.url.startswith(f"{samples.url}/content/plans/")


def test_second_question_knows_the_first_one(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    ask(page, "What is the annual deductible of Northwind Standard for one person?")
    expect(page.locator(".turn .citation").first).to_be_visible()
    ask(page, "And in Health Plus?")
    expect(page.locator(".turn").nth(1).locator(".citation").first).to_be_visible()

    assert "deductible" in last_answer(page).lower()


def test_thoughts_are_folded_and_show_the_search_query(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    ask(page, VACATION)
    thoughts = page.locator(".thoughts")
    expect(thoughts).to_be_visible()
    step = thoughts.get_by_text("Generated search query")
    expect(step).to_be_hidden()
    thoughts.get_by_text("How this answer was made").click()
    step.click()

    expect(thoughts.locator("pre").nth(1)).to_have_text(VACATION)


def test_answer_streams_and_can_be_stopped(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say first; wait for ever; say second")
    expect(page.locator(".turn .text")).to_have_text("first")
    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    assert last_answer(page) == "first"
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_last_question_can_be_edited_and_asked_again(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say one")
    expect(page.locator(".turn .text")).to_have_text("one")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".turn .text")).to_have_text("one")
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Ask a question")).to_have_value("say one")
    ask(page, "say two")

    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".turn .text")).to_have_text("two")


def test_answer_can_be_copied(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say **one**")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()

    assert page.evaluate("navigator.clipboard.readText()") == "**one**"


def test_followup_questions_are_buttons(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Suggest follow-up questions").check()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    ask(page, VACATION)
    question = page.locator(".followups button").first.inner_text()
    page.locator(".followups button").first.click()

    expect(page.locator(".turn .question p").last).to_have_text(question)


def test_options_are_sent_as_overrides(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Passages").fill("2")
    page.get_by_label("Only this category").fill("plans")
    page.keyboard.press("Escape")
    with page.expect_request("**/chat/stream") as sent:
        ask(page, VACATION)

    overrides = json.loads(sent.value.post_data or "")["context"]["overrides"]
    assert overrides == {"top": 2, "include_category": "plans"}


def test_conversations_are_listed_opened_renamed_and_deleted(page: Page, samples: Server) -> None:
    page.on("dialog", lambda dialog: dialog.accept("Days off"))
    page.goto(samples.url)
    ask(page, "How many sick days do I get?")
    expect(page.locator(".turn .citation").first).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Conversations").click()
    item = page.get_by_role("listitem").filter(has_text="How many sick days do I get?")
    item.get_by_role("button", name="Rename").click()
    renamed = page.get_by_role("button", name="Days off", exact=True)
    renamed.click()
    expect(page.locator(".turn .citation").first).to_be_visible()
    page.locator(".turn .citation").first.click()

    expect(page.get_by_role("complementary").locator("mark").first).to_be_visible()
    page.get_by_role("complementary").get_by_role("button", name="Close").click()
    page.get_by_role("listitem").filter(has=renamed).get_by_role("button", name="Delete").click()
    expect(renamed).to_have_count(0)
    expect(page.locator(".turn")).to_have_count(0)


def reopen(page: Page, name: str) -> None:
    """Open the stored conversation again."""
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name=name, exact=True).click()


def edit(page: Page, question: str) -> None:
    """Ask another question instead of the last one, and wait for the answer."""
    page.get_by_role("button", name="Edit").click()
    ask(page, question)
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()


def test_edited_question_replaces_the_stored_turn(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    first, second, edited = "How many bank holidays?", "Sick days?", "And parental leave?"
    for question in (first, second):
        ask(page, question)
        expect(page.get_by_role("button", name="Ask again")).to_be_visible()
    with page.expect_request("**/chat/stream") as sent:
        edit(page, edited)
    with page.expect_request("**/chat/stream") as repeated:
        page.get_by_role("button", name="Ask again").click()
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()

    for request in (sent, repeated):
        messages = json.loads(request.value.post_data or "")["messages"]
        asked = [each["content"] for each in messages if each["role"] == "user"]
        assert asked == [first, edited]
    reopen(page, first)
    expect(page.locator(".question p")).to_have_text([first, edited])


def test_edited_first_question_replaces_the_stored_conversation(
    page: Page, samples: Server
) -> None:
    page.goto(samples.url)
    first, edited = "Is jury duty paid leave?", "Is bereavement leave paid?"
    ask(page, first)
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()
    edit(page, edited)
    reopen(page, edited)

    expect(page.locator(".question p")).to_have_text([edited])
    expect(page.get_by_role("button", name=first, exact=True)).to_have_count(0)


def test_edited_question_without_an_answer_replaces_nothing(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    first, edited = "Are tuition fees paid?", "Are commuting costs paid?"
    ask(page, first)
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()
    page.route("**/chat/stream", lambda route: route.fulfill(status=503))
    page.get_by_role("button", name="Edit").click()
    ask(page, edited)
    expect(page.get_by_role("alert")).to_be_visible()
    reopen(page, first)

    expect(page.locator(".question p")).to_have_text([first])


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
    expect(page.get_by_label("Ask a question")).to_have_value(orders)


def test_interrupted_answer_stays(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say so far; fail with outage")

    expect(page.get_by_role("alert")).to_contain_text("The answer broke off.")
    assert last_answer(page) == "so far"


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


def test_key_dialog_can_be_left_without_a_key(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    page.route("**/chat/stream", lambda route: route.fulfill(status=401))
    ask(page, "say hello")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Edit").click()

    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_label("Ask a question")).to_have_value("say hello")
    assert page.evaluate("sessionStorage.length") == 0


def test_key_is_asked_for_and_sent_as_a_header(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)

    def host(route: Route) -> None:  # the Functions host rejects calls without a key
        if route.request.headers.get("x-functions-key") == "secret":
            route.continue_()
        else:
            route.fulfill(status=401)

    page.route("**/chat/stream", host)
    ask(page, "say hello")
    page.get_by_label("The function key.").fill("secret")
    page.keyboard.press("Enter")

    expect(page.locator(".turn .text")).to_have_text("hello")
    assert "secret" not in page.url


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8cf"
    "500f0003860180343f3aae0000000049454e44ae426082"
)
DROP = """([selector, bytes, kind]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "photo.png", { type: "image/png" }));
  const options = { bubbles: true, cancelable: true };
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { ...options, clipboardData: data })
    : new DragEvent("drop", { ...options, dataTransfer: data });
  document.querySelector(selector).dispatchEvent(event);
}"""


@pytest.mark.parametrize("way", ["button", "paste", "drop"])
def test_image_is_sent_with_the_question(page: Page, scripted: Server, way: str) -> None:
    page.goto(scripted.url)
    expect(page.get_by_role("button", name="Add image")).to_be_visible()
    if way == "button":
        image = FilePayload(name="photo.png", mimeType="image/png", buffer=PIXEL)
        page.locator("#image-file").set_input_files(image)
    else:
        page.evaluate(DROP, ["#question", list(PIXEL), way])
    expect(page.locator("#image-preview img")).to_be_visible()
    with page.expect_request("**/chat/stream") as sent:
        ask(page, "say seen")

    expect(page.locator(".turn .text")).to_have_text("seen")
    expect(page.locator(".turn .question img")).to_be_visible()
    expect(page.locator("#image-preview")).to_be_hidden()
    assert sent.value.headers["content-type"].startswith("multipart/form-data")


def test_image_can_be_removed_again(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    page.evaluate(DROP, ["#question", list(PIXEL), "drop"])
    page.get_by_role("button", name="Remove image").click()
    with page.expect_request("**/chat/stream") as sent:
        ask(page, "say nothing")

    assert sent.value.headers["content-type"] == "application/json"


def test_demo_model_is_offered_no_images(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    page.evaluate(DROP, ["#question", list(PIXEL), "drop"])

    expect(page.get_by_role("button", name="Add image")).to_be_hidden()
    expect(page.locator("#image-preview")).to_be_hidden()


def test_document_behind_a_key_is_fetched_with_it(
    page: Page, context: BrowserContext, samples: Server
) -> None:
    page.goto(samples.url)
    page.evaluate("sessionStorage.setItem('x-functions-key', 'secret')")
    ask(page, "What is the annual deductible of Northwind Standard for one person?")
    page.locator(".citations button").first.click()
    with page.expect_request("**/content/**") as sent, context.expect_page() as opened:
        page.get_by_role("link", name="Open the document").click()

    assert sent.value.headers["x-functions-key"] == "secret"
    assert "secret" not in sent.value.url
    assert opened.value.url.startswith("blob:")


def test_sign_in_is_where_the_platform_says(page: Page, samples: Server) -> None:
    page.route("**/chat/stream", lambda route: route.fulfill(status=401))
    page.route("**/.auth/**", lambda route: route.fulfill(body="sign in"))
    setup = {"platformSignIn": True, "signInPath": "/.auth/login/aad?post_login_redirect_uri=/"}
    page.route("**/auth_setup", lambda route: route.fulfill(json=setup))
    page.goto(samples.url)
    ask(page, VACATION)
    page.wait_for_url("**/.auth/login/aad?post_login_redirect_uri=/")
    page.evaluate("window.violations = []")


def test_wrong_settings_are_told_at_start(page: Page, scripted: Server) -> None:
    page.route("**/config", lambda route: route.fulfill(status=503, json={"error": "x"}))
    page.goto(scripted.url)

    expect(page.get_by_text("The page could not start. Look at /health.")).to_be_visible()


def test_long_conversation_sends_its_history(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    for number in range(3):
        ask(page, f"say {number}")
        expect(page.locator(".turn .text").last).to_have_text(str(number))
    with page.expect_request("**/chat/stream") as sent:
        ask(page, "say last")

    messages = json.loads(sent.value.post_data or "")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3 + ["user"]
    assert [message["content"] for message in messages[-3:]] == ["say 2", "2", "say last"]


def test_answer_of_100_kilobytes_in_one_line_is_shown_whole(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, f"say {'word ' * 20_000}")
    expect(page.get_by_role("button", name="Copy")).to_be_visible()

    assert last_answer(page).split() == ["word"] * 20_000


def test_an_answer_can_be_rated(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say fine")
    helpful = page.get_by_role("button", name="Helpful", exact=True)
    not_helpful = page.get_by_role("button", name="Not helpful")
    helpful.click()
    expect(helpful).to_have_attribute("aria-pressed", "true")
    not_helpful.click()

    expect(not_helpful).to_have_attribute("aria-pressed", "true")
    expect(helpful).to_have_attribute("aria-pressed", "false")
    ratings = re.findall(r"feedback id=\S+ request=(\S+) rating=(\w+)", scripted.log)
    answers = re.findall(r"request id=(\S+) POST /chat/stream ", scripted.log)
    assert ratings[-2:] == [(answers[-1], "up"), (answers[-1], "down")]


def test_a_rating_that_fails_says_so(page: Page, scripted: Server) -> None:
    page.route("**/feedback", lambda route: route.fulfill(status=503, json={"error": "Busy."}))
    page.goto(scripted.url)
    ask(page, "say fine")
    helpful = page.get_by_role("button", name="Helpful", exact=True)
    helpful.click()

    expect(page.get_by_role("alert")).to_contain_text("Busy.")
    expect(helpful).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize(
    ("route", "name"),
    [
        ("/_plugins/_ml/memory", "Conversations"),
        ("/feedback", "Helpful"),
        ("/content/{path}", "Open the document"),
    ],
)
def test_nothing_is_offered_without_its_route(
    page: Page, samples: Server, route: str, name: str
) -> None:
    def lose_route(handler: Route) -> None:
        config = handler.fetch().json()
        config["routes"].remove(route)
        handler.fulfill(json=config)

    page.route("**/config", lose_route)
    page.goto(samples.url)
    ask(page, VACATION)
    page.locator(".turn .citation").first.click()

    expect(page.get_by_role("complementary")).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    offered = {"Conversations", "Helpful", "Open the document"}
    shown = {each for each in offered if page.get_by_text(each, exact=True).first.is_visible()}
    assert shown == offered - {name}
