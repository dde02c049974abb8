"""What a person does on the page, clicked through in a browser."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, Route, expect

from tests.support.browser.page import VACATION, ask, ask_and_wait, last_answer
from tests.support.servers import Server


def test_first_screen_says_what_runs_and_offers_questions(page: Page, samples: Server) -> None:
    page.goto(samples.url)

    expect(page.get_by_text("The demo model answers")).to_be_visible()
    expect(page.get_by_text("It searches the sample documents.")).to_be_visible()
    expect(page.get_by_text("make index DOCS=path/to/documents")).to_be_visible()
    for example in page.locator("#examples button").all_inner_texts():
        page.get_by_role("button", name=example, exact=True).click()
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

    expect(thoughts.locator("pre").nth(2)).to_have_text(VACATION)


def test_answer_streams_and_can_be_stopped(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say first; wait for ever; say second")
    expect(page.locator(".turn .text")).to_have_text("first")
    page.get_by_role("button", name="Stop", exact=True).click()

    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    assert last_answer(page) == "first"
    expect(page.get_by_role("button", name="Send")).to_be_visible()


READ_HTML = """async () => {
  const [item] = await navigator.clipboard.read();
  return (await item.getType("text/html")).text();
}"""


def test_answer_can_be_copied(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say **one**")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()

    assert page.evaluate("navigator.clipboard.readText()") == "**one**"
    html = page.evaluate(READ_HTML)
    assert "<strong>one</strong>" in html


def test_followup_questions_are_buttons(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Suggest follow-up questions").check()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    ask(page, VACATION)
    question = page.locator(".followups button").first.inner_text()
    page.locator(".followups button").first.click()

    expect(page.locator(".turn .question p").last).to_have_text(question)


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


def test_image_of_another_kind_is_refused_with_a_sentence(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    image = FilePayload(name="a.svg", mimeType="image/svg+xml", buffer=b"<svg/>")
    page.locator("#image-file").set_input_files(image)

    expect(page.get_by_text("An image must be PNG, JPEG, GIF or WebP.")).to_be_visible()
    expect(page.locator("#image-preview")).to_be_hidden()


def test_reopened_question_says_that_its_image_is_not_stored(page: Page, stored: Server) -> None:
    page.goto(stored.url)
    expect(page.get_by_role("button", name="Add image")).to_be_visible()
    page.evaluate(DROP, ["#question", list(PIXEL), "drop"])
    ask_and_wait(page, "say seen")
    note = page.get_by_text("An image was sent with this question. It is not stored.")
    expect(note).to_be_hidden()
    with page.expect_request("**/chat/stream") as again:
        page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".turn .retry")).to_be_visible()
    page.reload()

    assert again.value.headers["content-type"].startswith("multipart/form-data")
    expect(note).to_be_visible()


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


def test_a_bad_rating_can_have_reasons_by_keyboard(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say fine")
    reasons = page.get_by_role("group", name="What was wrong?")
    expect(page.get_by_role("button", name="Not helpful")).to_be_visible()
    expect(reasons).to_be_hidden()
    page.get_by_role("button", name="Not helpful").press("Enter")
    missing = reasons.get_by_role("button", name="Something is missing")
    missing.press("Enter")
    expect(missing).to_have_attribute("aria-pressed", "true")
    missing.press("Enter")  # it is sent once
    reasons.get_by_role("button", name="The sources do not say it").press(" ")
    expect(reasons.locator("[aria-pressed=true]")).to_have_count(2)

    answer = re.findall(r"request id=(\S+) POST /chat/stream ", scripted.log)[-1]
    given = re.findall(rf"feedback reason=(\w+) request={answer}\n", scripted.log)
    assert given == ["incomplete", "incomplete", "unsupported"]
    page.get_by_role("button", name="Helpful", exact=True).click()
    expect(reasons).to_be_hidden()


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
    offered = {
        "Conversations": page.get_by_role("button", name="Conversations"),
        "Helpful": page.get_by_role("button", name="Helpful", exact=True),
        "Open the document": page.get_by_role("link", name="Open the document"),
    }
    assert {each for each, button in offered.items() if button.is_visible()} == {*offered} - {name}


def test_sources_that_the_answer_does_not_cite_are_shown(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask_and_wait(page, "say nothing of it; deductible")
    expect(page.locator(".citations")).to_be_hidden()
    page.get_by_text(re.compile(r"Sources found \(\d+\)")).click()
    page.locator(".passages button").first.click()

    expect(page.get_by_role("complementary").locator("blockquote")).not_to_be_empty()
    page.get_by_role("button", name="Next source").click()
    heading = page.get_by_role("complementary").get_by_role("heading")
    expect(heading).to_have_text(page.locator(".passages button").nth(1).inner_text())


def test_draft_survives_a_reload(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    page.get_by_label("Ask a question").fill("half a thought")
    page.reload()
    expect(page.get_by_label("Ask a question")).to_have_value("half a thought")
    ask_and_wait(page, "say sent")
    page.reload()

    expect(page.get_by_label("Ask a question")).to_have_value("")


def test_keys_stop_an_answer_and_edit_the_last_question(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    ask(page, "say begun; wait for a key")
    expect(page.locator(".turn .text")).to_have_text("begun")
    page.keyboard.press("Escape")
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    page.keyboard.press("ArrowUp")

    expect(page.get_by_label("Edit the question")).to_be_focused()


def test_text_copied_with_a_picture_of_it_is_pasted_as_text(page: Page, scripted: Server) -> None:
    page.goto(scripted.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    prevented = page.evaluate(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "a.png", { type: "image/png" }));
          data.setData("text/plain", "a cell");
          const event = new ClipboardEvent("paste", {
            bubbles: true, cancelable: true, clipboardData: data,
          });
          return !document.querySelector("#question").dispatchEvent(event);
        }""",
        list(PIXEL),
    )

    assert not prevented
    expect(page.locator("#image-preview")).to_be_hidden()


def test_models_are_offered_by_their_own_names(page: Page, samples: Server) -> None:
    def offer_models(handler: Route) -> None:
        config = handler.fetch().json()
        models = ["DeepSeek-R1", "text", "gpt_4o"]
        config["overrides"].append({"name": "model", "type": "choice", "values": models})
        handler.fulfill(json=config)

    page.route("**/config", offer_models)
    page.goto(samples.url)
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Model").select_option("DeepSeek-R1")

    expect(page.locator("#active-options")).to_contain_text("Model: DeepSeek-R1")
    expect(page.locator("#model")).to_have_text("DeepSeek-R1")
