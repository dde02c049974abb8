"""A fake model that drafts questions about the passages of a small index."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from shared.domain.events import Source
from tests.support.retrievers import write_file
from tests.support.upstream import RecordedRequest, Step, Upstream, answer_events, stream_response

FILLER = " It is paid at the end of each month, by everyone who has a contract with the company."
FEE = re.compile(r"fee of (plan \w+) is (\d+ euros)")

Reply = Callable[[str, str], Any]
"""Returns the JSON of a reply to a plan and its fee."""


def draft_reply(plan: str, fee: str) -> Any:
    answer = f"The fee of {plan} is {fee} a month."
    return {"question": f"What does {plan} cost?", "answer": answer, "facts": [fee]}


def check_reply(plan: str, fee: str) -> Any:
    return {"answer": f"It is {fee}."}


class DraftUpstream(Upstream):
    """Replies to the prompts of a draft and of its check; a text instead of JSON is sent as is."""

    draft: Reply = staticmethod(draft_reply)
    check: Reply = staticmethod(check_reply)

    def respond(self, request: RecordedRequest) -> list[Step]:
        if not request.path.endswith("/chat/completions"):
            return super().respond(request)
        data = json.loads(request.body["messages"][1]["content"])
        match = FEE.search(data["passage"])
        assert match is not None
        reply = (self.check if "question" in data else self.draft)(*match.groups())
        return stream_response(
            answer_events(reply if isinstance(reply, str) else json.dumps(reply))
        )


def plans(files: int, passages: int) -> list[Source]:
    """The passages of some files, each about the fee of another plan."""
    return [
        plan_passage(f"plans/{file}.md", f"{file.upper()}{number}", 100 + number)
        for file in ascii_lowercase[:files]
        for number in range(1, passages + 1)
    ]


def plan_passage(name: str, plan: str, fee: int, **more: Any) -> Source:
    text = f"The fee of plan {plan} is {fee} euros.{FILLER}"
    return Source(f"id-{plan}", text, name, name, "plans", **more)


def settings_for(url: str, passages: Sequence[Source], folder: Path) -> dict[str, str]:
    """The settings of an app with these passages and the model at `url`."""
    return {
        "INDEX_FILE": str(write_file(passages, folder)),
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_CHAT_MODEL": "gpt-4o",
    }
