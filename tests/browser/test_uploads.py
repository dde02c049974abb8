"""The dialog of the user's documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FilePayload, Locator, Page, Route, expect

from tests.support.browser.page import ask
from tests.support.servers import HOSTS, Server, run_server

BADGE = b"# Badges\n\nThe animal on the secret badge is the quokka."
DROP = """(names) => {
  const dataTransfer = new DataTransfer();
  for (const name of names) dataTransfer.items.add(new File(["A text."], name));
  const options = { bubbles: true, cancelable: true, dataTransfer };
  document.body.dispatchEvent(new DragEvent("drop", options));
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app as `make run UPLOADS=on` serves it, over the samples."""
    folder = tmp_path_factory.mktemp("uploading")
    settings = {"UPLOADS": "on", "UPLOADS_FOLDER": str(folder / "uploads")}
    with run_server(HOSTS[-1], folder, settings) as running:
        yield running


@pytest.fixture
def dialog(page: Page, server: Server) -> Iterator[Locator]:
    """The open dialog of a user without documents."""
    page.goto(server.url)
    page.get_by_role("button", name="Your documents").click()
    dialog = page.get_by_role("dialog", name="Your documents")
    expect(dialog).to_contain_text("No documents yet.")
    yield dialog
    page.unroute_all()
    for each in page.request.get(f"{server.url}/uploads").json()["uploads"]:
        page.request.delete(f"{server.url}/uploads/{each['id']}")


def add(dialog: Locator, *files: tuple[str, bytes]) -> None:
    """Choose files with the button."""
    with dialog.page.expect_file_chooser() as chooser:
        dialog.get_by_role("button", name="Add documents").click()
    chooser.value.set_files(
        [FilePayload(name=name, mimeType="", buffer=data) for name, data in files]
    )


def row(dialog: Locator, name: str) -> Locator:
    return dialog.get_by_role("listitem").filter(has_text=name)


def test_document_is_added_asked_about_and_deleted(page: Page, dialog: Locator) -> None:
    add(dialog, ("badge.md", BADGE))
    expect(row(dialog, "badge.md")).to_contain_text("Ready.")
    dialog.get_by_role("button", name="Close").click()
    ask(page, "Which animal is on the secret badge?")
    expect(page.locator(".turn .text")).to_contain_text("quokka")
    expect(page.locator(".citations button").first).to_contain_text("badge.md")

    page.get_by_role("button", name="Your documents").click()
    dialog.get_by_role("button", name="Delete badge.md").press("Enter")
    expect(dialog).to_contain_text("No documents yet.")
    expect(dialog.get_by_role("button", name="Add documents")).to_be_focused()
    page.keyboard.press("Escape")
    ask(page, "Which animal is on the secret badge?")
    expect(page.locator(".turn .retry").last).to_be_visible()
    expect(page.locator(".turn .text").last).not_to_contain_text("quokka")


def test_question_about_a_document_begins_with_a_button(page: Page, dialog: Locator) -> None:
    add(dialog, ("badge.md", BADGE), ("fake.pdf", b"text"))
    expect(row(dialog, "badge.md")).to_contain_text("Ready.")
    expect(row(dialog, "fake.pdf")).to_contain_text("Not readable.")
    expect(dialog.get_by_role("button", name="Ask about this: ")).to_have_count(1)
    page.keyboard.press("Escape")
    question = page.get_by_label("Ask a question")
    for written, text in (
        ("", "badge.md "),
        ("Which animal is on the badge of ", "Which animal is on the badge of badge.md "),
        ("Summarize", "Summarize badge.md "),
    ):
        question.fill(written)
        page.get_by_role("button", name="Your documents").click()
        dialog.get_by_role("button", name="Ask about this: badge.md").press("Enter")
        expect(dialog).to_be_hidden()
        expect(question).to_have_value(text)
        expect(question).to_be_focused()
    page.reload()
    expect(question).to_have_value("Summarize badge.md ")  # as what is typed

    page.keyboard.press("Control+End")
    page.keyboard.type("on the secret badge")
    page.keyboard.press("Enter")
    expect(page.locator(".turn .text")).to_contain_text("quokka")
    expect(question).to_have_value("")


def test_button_for_a_question_is_in_the_language_of_the_page(
    browser: Browser, server: Server
) -> None:
    uploads = [{"id": "a", "filename": "badge.md", "state": "ready"}]
    answer = {"uploads": uploads, "max_bytes": 2**20, "max_uploads": 4}
    for language, label in (("de", "Dazu fragen"), ("ar", "اسأل عن هذا")):
        with browser.new_context(locale=language) as context:
            page = context.new_page()
            page.route("**/uploads", lambda route: route.fulfill(json=answer))
            page.goto(server.url)
            page.locator("#show-uploads").click()
            button = page.get_by_role("button", name=f"{label}: badge.md")
            expect(button).to_have_text(label)


def test_dropped_files_are_sent_one_after_the_other(page: Page, dialog: Locator) -> None:
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    under_way, most = 0, 0

    def count(route: Route) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        response = route.fetch()
        under_way -= 1
        route.fulfill(response=response)

    page.route("**/upload", count)
    page.evaluate(DROP, ["a.txt", "b.txt", "c.txt"])

    for name in ("a.txt", "b.txt", "c.txt"):
        expect(row(dialog, name)).to_contain_text("Ready.")
    assert most == 1


def test_unreadable_file_has_its_reason(dialog: Locator) -> None:
    add(dialog, ("fake.pdf", b"text"))

    expect(row(dialog, "fake.pdf")).to_contain_text(
        "Not readable. Its content is not what its name says."
    )
    dialog.get_by_role("button", name="Delete fake.pdf").click()
    expect(row(dialog, "fake.pdf")).to_have_count(0)


def test_file_over_the_limit_is_not_sent(page: Page, dialog: Locator) -> None:
    sent: list[str] = []
    page.on("request", lambda it: sent.append(it.url) if it.url.endswith("/upload") else None)
    answer = {"uploads": [], "max_bytes": 2**20, "max_uploads": 4}
    page.route("**/uploads", lambda route: route.fulfill(json=answer))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Your documents").click()
    expect(dialog).to_contain_text("No documents yet.")
    add(dialog, ("large.txt", b"x" * (2**20 + 1)))

    expect(row(dialog, "large.txt")).to_contain_text("The file is larger than 1 MB.")
    assert sent == []


def test_refused_file_has_its_reason_and_the_others_are_sent(page: Page, dialog: Locator) -> None:
    def refuse_one(route: Route) -> None:
        if b"1.txt" in (route.request.post_data_buffer or b""):
            route.fulfill(status=429, json={"error": "You have 100 uploads."})
        else:
            route.continue_()

    page.route("**/upload", refuse_one)
    add(dialog, *((f"{number}.txt", b"A text.") for number in range(3)))

    for number in (0, 2):
        expect(row(dialog, f"{number}.txt")).to_contain_text("Ready.")
    expect(row(dialog, "1.txt")).to_contain_text("You have 100 uploads.")
    dialog.get_by_role("button", name="Delete 1.txt").click()
    expect(dialog.get_by_role("listitem")).to_have_count(2)
    expect(dialog.get_by_role("button", name="Add documents")).to_be_focused()


def test_file_that_cannot_be_sent_can_be_sent_again(page: Page, dialog: Locator) -> None:
    page.route("**/upload", lambda route: route.abort())
    add(dialog, ("badge.md", BADGE))
    expect(row(dialog, "badge.md")).to_contain_text("The app does not respond.")
    page.unroute("**/upload")
    add(dialog, ("badge.md", BADGE))

    expect(row(dialog, "badge.md").filter(has_text="Ready.")).to_have_count(1)


def test_file_that_is_being_sent_can_be_taken_back(page: Page, dialog: Locator) -> None:
    def hold_first(route: Route) -> None:
        if b"a.txt" not in (route.request.post_data_buffer or b""):
            route.continue_()

    page.route("**/upload", hold_first)
    add(dialog, ("a.txt", b"A text."), ("b.txt", b"A text."))
    expect(row(dialog, "a.txt")).to_contain_text("Sending")
    expect(row(dialog, "b.txt")).to_contain_text("Waiting")
    dialog.get_by_role("button", name="Delete a.txt").click()

    expect(row(dialog, "b.txt")).to_contain_text("Ready.")
    expect(row(dialog, "a.txt")).to_have_count(0)


def test_closed_dialog_says_when_a_document_is_ready(page: Page, dialog: Locator) -> None:
    add(dialog, ("badge.md", BADGE))
    expect(row(dialog, "badge.md")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.locator("#notice")).to_contain_text("badge.md: Ready.")


def test_deletion_that_fails_says_so(page: Page, dialog: Locator) -> None:
    add(dialog, ("badge.md", BADGE))
    expect(row(dialog, "badge.md")).to_contain_text("Ready.")
    busy = {"error": "The disk is busy."}
    page.route("**/uploads/*", lambda route: route.fulfill(status=503, json=busy))
    dialog.get_by_role("button", name="Delete badge.md").click()

    expect(dialog.get_by_role("alert")).to_contain_text("The disk is busy.")
    expect(row(dialog, "badge.md")).to_be_visible()
    page.unroute("**/uploads/*")
    dialog.get_by_role("button", name="Delete badge.md").click()
    expect(row(dialog, "badge.md")).to_have_count(0)
    expect(dialog.get_by_role("alert")).to_be_hidden()


def test_list_that_cannot_be_read_is_read_again(page: Page, server: Server) -> None:
    busy = {"status": 503, "headers": {"retry-after": "1"}, "json": {"error": "Busy."}}
    page.route("**/uploads", lambda route: route.fulfill(**busy))
    page.goto(server.url)
    page.get_by_role("button", name="Your documents").click()
    expect(page.get_by_role("alert")).to_contain_text("Busy.")
    page.unroute("**/uploads")

    expect(page.get_by_text("No documents yet.")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_page_without_uploads_takes_none(page: Page, samples: Server) -> None:
    page.goto(samples.url)
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    page.evaluate(DROP, ["a.txt"])

    expect(page.get_by_role("button", name="Your documents")).to_be_hidden()
    expect(page.get_by_role("dialog")).to_be_hidden()
