"""How many questions get the passage that answers them? `python -m bench.answers FOLDER`

The 40 questions of `bench/questions.jsonl` are about the HTML files of three Debian 12 packages,
which `apt-get download python3.11-doc python-flask-doc debian-policy` and `dpkg-deb -x` unpack:
copy `usr/share/doc/python3.11/html`, `usr/share/doc/python-flask-doc/html` and
`usr/share/doc/debian-policy` into one folder. Half of the questions are by somebody who had not
seen the texts. A question is answerable from a passage that contains one of its `facts`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from shared.bootstrap.build import build
from shared.domain.events import Answer, collect
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.protocols.exchange import App
from shared.rag.flow import answer
from shared.rag.inputs import Rag
from shared.settings import read_settings

QUESTIONS = Path(__file__).with_name("questions.jsonl")
TOPS = (3, 5, 8, 10)


def build_index(folder: Path, settings: Mapping[str, str]) -> None:
    """Index a folder as `make index` does."""
    environment = {"PATH": os.environ.get("PATH", ""), **settings}
    command = [sys.executable, "-m", "ingest", str(folder)]
    subprocess.run(command, check=True, env=environment)


async def ask(rag: Rag, question: str) -> Answer:
    """Return the answer to a question without a history."""
    return await collect(answer(rag, ChatRequest((Message("user", question),))))


def contains_fact(text: str, facts: Iterable[str]) -> bool:
    """Whether a text contains one of the facts, ignoring case and white space."""
    flat = " ".join(text.split()).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return any(fact in flat for fact in facts)


def measure(app: App, questions: Sequence[Any], top: int) -> tuple[int, int, int, float]:
    """Return how many questions have a passage with a fact in the prompt, how many a quote with
    one, how many "I don't know", and the median characters of the sources of an answer."""
    found = quoted = unknown = 0
    sizes = []
    assert app.rag
    rag = replace(app.rag, defaults=Overrides(top=top))
    for row in questions:
        reply = asyncio.run(ask(rag, row["question"]))
        sources = "\n".join(source.prompt_line() for source in reply.context.sources)
        found += contains_fact(sources, row["facts"])
        quoted += contains_fact(reply.content, row["facts"])
        unknown += reply.content.startswith("I don't know")
        sizes.append(len(sources))
    return found, quoted, unknown, median(sizes)


def main() -> None:
    """Index the folder, ask, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.answers", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embeddings", choices=("off", "builtin"), default="off")
    options = parser.parse_args()
    questions = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    print(f"{'top':<6}{'in the prompt':>14}{'quoted':>10}{'unknown':>10}{'characters':>12}")
    with tempfile.TemporaryDirectory() as scratch:
        index = str(Path(scratch) / "index.db")
        settings = {"INDEX_FILE": index, "EMBEDDINGS": options.embeddings, "CHAT_MODEL": "demo"}
        build_index(options.folder, settings)
        app = build(read_settings(settings))
        for top in TOPS:
            found, quoted, unknown, size = measure(app, questions, top)
            print(f"{top:<6}{found:>14}{quoted:>10}{unknown:>10}{size:>12.0f}", flush=True)


if __name__ == "__main__":
    main()
