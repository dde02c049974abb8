"""Are the questions of `questions.jsonl` answered right?

`python -m tests.unit.models.test_questions` prints how many are, and the others with their answers.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from shared.bootstrap.build import SHARED_FOLDER
from shared.chat.events import collect
from shared.chat.messages import Message
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest
from shared.models.demo.model import DemoModel
from shared.models.router import Router
from shared.rag.flow import Rag, answer
from shared.rag.prompt import read_prompts
from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages
from tests.support.servers import ROOT

QUESTIONS = ROOT / "tests" / "support" / "questions.jsonl"
FLAGSHIP = "What is included in my Northwind Health Plus plan that is not in standard?"


@dataclass(frozen=True, slots=True)
class Score:
    """How many questions of each kind there are, and the wrong answers by their kind."""

    asked: Mapping[str, int]
    wrong: Sequence[tuple[str, str]]

    def right(self, kind: str) -> int:
        """How many questions of a kind were answered right."""
        return self.asked[kind] - sum(1 for wrong, _ in self.wrong if wrong == kind)

    def __str__(self) -> str:
        counts = ", ".join(f"{kind} {self.right(kind)}/{self.asked[kind]}" for kind in self.asked)
        return "\n\n".join((counts, *(f"{kind}: {text}" for kind, text in self.wrong)))


def kind_of(line: Mapping[str, Any]) -> str:
    if not line["citation"]:
        return "unknown"
    return "leaning" if line.get("history") else "plain"


def is_right(line: Mapping[str, Any], text: str) -> bool:
    if not line["citation"]:
        return "I don't know" in text and "[" not in text
    cited = any(f"[{citation}]" in text for citation in line["citation"])
    return cited and line.get("contains", "").lower() in text.lower()


async def conversation(rag: Rag, questions: Sequence[str]) -> str:
    """The answer to the last question, the earlier ones asked and answered before it."""
    messages: tuple[Message, ...] = ()
    for question in questions:
        messages = (*messages, Message("user", question))
        content = (await collect(answer(rag, ChatRequest(messages)))).content
        messages = (*messages, Message("assistant", content))
    return messages[-1].content


async def measure() -> Score:
    """Ask every question of the file."""
    asked: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    with closing(SqliteRetriever(read_passages(SHARED_FOLDER / "data" / "samples.jsonl"))) as index:
        rag = Rag(
            index,
            Router.of(DemoModel()),
            read_prompts(SHARED_FOLDER / "rag" / "prompts"),
            Overrides(top=3),
        )
        for line in map(json.loads, QUESTIONS.read_text("utf-8").splitlines()):
            questions = [*line.get("history", ()), line["question"]]
            text = await conversation(rag, questions)
            asked[kind_of(line)] += 1
            if not is_right(line, text):
                said = f"{' / '.join(questions)}\n  wanted {line['citation']}\n  {text}"
                wrong.append((kind_of(line), said))
    return Score(asked, wrong)


def test_nine_in_ten_questions_of_each_kind_are_answered_right() -> None:
    score = asyncio.run(measure())

    assert set(score.asked) == {"plain", "leaning", "unknown"}
    for kind, number in score.asked.items():
        assert score.right(kind) >= 0.9 * number, str(score)


if __name__ == "__main__":
    print(asyncio.run(measure()))
