"""What a person does on the chat page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.servers import Server

TURNS = 200
ANSWER = "**Some** words of an answer, with a `mark`. " * 4
MEMORY = "/_plugins/_ml/memory"

VACATION = "How many vacation days do I get?"


def ask(page: Page, question: str) -> None:
    page.get_by_label("Ask a question").fill(question)
    expect(page.get_by_role("button", name="Send")).to_be_visible()  # no answer is under way
    page.keyboard.press("Enter")


def ask_and_wait(page: Page, question: str) -> None:
    """Ask, and wait for the end of the answer."""
    ask(page, question)
    expect(page.locator(".turn .retry").last).to_be_visible()


def send_edited(page: Page, question: str) -> None:
    """Ask another question in the place of the last one."""
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Edit the question").last.fill(question)
    page.keyboard.press("Enter")


def edit(page: Page, question: str) -> None:
    """Ask another question in the place of the last one, and wait for the end of the answer."""
    send_edited(page, question)
    expect(page.locator(".turn .retry").last).to_be_visible()


def reopen(page: Page, name: str) -> None:
    """Begin another conversation, and open the stored one again."""
    page.get_by_role("button", name="New chat").click()
    open_conversation(page, name)


def last_answer(page: Page) -> str:
    return str(page.locator(".turn .text").last.inner_text())


def release(server: Server, name: str) -> None:
    """Let the model go on, and return when it has."""
    question = {"messages": [{"role": "user", "content": f"release {name}; say done"}]}
    with server.client() as client:
        assert client.post("/chat", json=question).json()["message"]["content"] == "done"


def open_list(page: Page) -> None:
    """Show the list of conversations, which a wide page does by itself."""
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    if page.locator("#conversations").is_hidden():
        page.get_by_role("button", name="Conversations").click()


def open_conversation(page: Page, name: str) -> None:
    """Open the newest stored conversation of this name."""
    open_list(page)
    page.locator("#conversations").get_by_role("link", name=name, exact=True).first.click()


def open_long_conversation(
    page: Page, server: Server, turns: int = TURNS, answer: str = ANSWER
) -> None:
    """Store a conversation, and open it on the page."""
    with server.client() as client:
        body = {"name": f"{turns} turns"}
        conversation = client.post(MEMORY, json=body).json()["memory_id"]
        for number in range(turns):
            turn = {"input": f"Question {number}?", "response": answer}
            client.post(f"{MEMORY}/{conversation}/messages", json=turn).raise_for_status()
    page.goto(server.url)
    open_conversation(page, body["name"])
    expect(page.locator(".turn")).to_have_count(turns)
