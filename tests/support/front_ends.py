"""A model that answers chats with citations, and the tasks of a chat page with JSON."""

from __future__ import annotations

from shared.models.base import Prompt
from tests.support.fakes import TextModel

CITED = "company/employee_handbook.md"
ANSWER = f"You get 30 days [{CITED}]."
TITLE = "Vacation days"
TASKS = {
    '"title"': f'{{"title": "{TITLE}"}}',
    '"tags"': '{"tags": ["Work"]}',
    '"follow_ups"': '{"follow_ups": ["How many sick days?"]}',
}


def write(prompt: Prompt) -> str:
    """Answer a chat, which has sources in its prompt; else a task."""
    text = "\n".join(message.content for message in prompt.messages)
    if "Sources:" in text:
        return ANSWER
    return next((answer for key, answer in TASKS.items() if key in text), "{}")


def page_model(_settings: object) -> TextModel:
    """The factory for `CHAT_MODEL`."""
    return TextModel(write)
