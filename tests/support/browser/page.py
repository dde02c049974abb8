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


def last_answer(page: Page) -> str:
    return str(page.locator(".turn .text").last.inner_text())


def release(server: Server, name: str) -> None:
    """Let the model go on, and return when it has."""
    question = {"messages": [{"role": "user", "content": f"release {name}; say done"}]}
    with server.client() as client:
        assert client.post("/chat", json=question).json()["message"]["content"] == "done"


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
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name=body["name"], exact=True).first.click()
    expect(page.locator(".turn")).to_have_count(turns)
