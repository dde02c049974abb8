"""Writes what the app prints into the docs: `python -m tests.support.transcript`, after a change.

README.md has the answer to its own question; docs/performance.md has the score of the demo model.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.bootstrap.build import build
from shared.settings import read_settings
from tests.support.calls import ask, call
from tests.support.questions import Score, measure
from tests.support.servers import ROOT

REQUEST = re.compile(r"-d '(.*?)'", re.DOTALL)
STREAM = re.compile(r"(?<=```json\n).*?(?=```)", re.DOTALL)
QUOTE = re.compile(r"(?:^>.*\n)+", re.MULTILINE)
SCORE = re.compile(r"^\| questions .*?(?=\n\n)", re.MULTILINE | re.DOTALL)
FIRST_LINE, LAST_LINE = 105, 74  # characters that are shown of each
KINDS = {
    "plain": "about the sample documents, in their words",
    "table": "about numbers of a table",
    "follow-up": "that refer to the question before",
    "shares words": "that the documents do not answer, in words of the documents",
    "unknown": "that the documents do not answer, in other words",
    "two pages": "whose answer needs two pages",
    "paraphrase": "in other words than the documents",
    "German": "in German",
}


def readme(text: str) -> str:
    """Return the text of README with the answer to its first question."""
    request = REQUEST.search(text)
    assert request is not None
    lines = ask(
        call("/chat/stream", request[1].encode()), build(read_settings({"INDEX_FILE": "samples"}))
    ).lines
    answer = "".join(line["delta"].get("content", "") for line in lines)
    quote = "".join(f"> {line}\n" for line in answer.splitlines())
    text = STREAM.sub(lambda _: shortened(lines), text, count=1)
    return QUOTE.sub(lambda _: quote, text, count=1)


def shortened(lines: Sequence[Any]) -> str:
    """Return the first and last lines of a stream as they are sent, cut after some characters."""
    sent = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines]
    first, last = sent[0][:FIRST_LINE], sent[-1][:LAST_LINE]
    return "\n".join((f"{first}...", *sent[1:4], "...", sent[-2], f"{last}...", ""))


def performance(text: str) -> str:
    """Return the text of docs/performance.md with the score of the demo model."""
    table = format_score(asyncio.run(measure()))
    return SCORE.sub(lambda _: table, text, count=1)


def format_score(score: Score) -> str:
    """Return a table of how many questions are answered as expected, by their kinds."""
    rows = ["| questions | number | as expected | the quote has the answer |", "|---|---|---|---|"]
    for kind, description in KINDS.items():
        answers = "" if kind in ("shares words", "unknown") else score.answering[kind]
        rows.append(f"| {description} | {score.all[kind]} | {score.holding[kind]} | {answers} |")
    return "\n".join(rows)


PAGES = {ROOT / "README.md": readme, ROOT / "docs" / "performance.md": performance}


def page(path: Path) -> str:
    """Return the text of a page as it should be."""
    return PAGES[path](path.read_text("utf-8"))


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path), "utf-8")
