"""A model that answers with the question itself: hostile text reaches the page as an answer.

`long N` is answered with Markdown of about N characters.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from shared.domain.events import Delta, Done, Usage
from shared.models.base import ModelStream, Prompt
from tests.support.servers import HOSTS, ROOT, Server, run_server

ECHO = {"CHAT_MODEL": f"{__name__}:make_model"}  # the setting
CHUNK = 7  # characters: cuts words, marks and tags
PARAGRAPH = "Some **words** of an answer, with `code` and a [link](https://example.com). " * 6


class EchoModel:
    """Streams the question in small chunks."""

    name = "echo"
    max_prompt_tokens = 1_000_000
    limits: Mapping[str, str] = {}

    def count(self, text: str) -> int:
        """Return a number that always fits."""
        return len(text) // 4

    async def ready(self) -> None:
        """Do nothing."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Accept any prompt."""
        question = prompt.messages[-1].content.partition("\n\nSources:")[0]
        size = re.fullmatch(r"long (\d+)", question)
        paragraphs = int(size[1]) // len(PARAGRAPH) if size else 0
        stream = _stream("\n\n".join([PARAGRAPH] * paragraphs) or question)
        yield stream
        await stream.aclose()


async def _stream(text: str) -> ModelStream:
    for start in range(0, len(text), CHUNK):
        yield Delta(text[start : start + CHUNK])
    yield Done(usage=Usage(1, 1))


def make_model(_settings: object) -> EchoModel:
    """The factory for `CHAT_MODEL`."""
    return EchoModel()


@contextmanager
def run_echo(folder: Path, documents: Mapping[str, str]) -> Iterator[Server]:
    """Run the app with this model and a memory, over documents by their names."""
    sources, index = folder / "documents", folder / "index.db"
    sources.mkdir()
    for name, text in documents.items():
        (sources / name).write_text(text, "utf-8")
    command = [sys.executable, "-m", "ingest", str(sources)]
    environment = {"INDEX_FILE": str(index), "PATH": ""}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    memory = {"MEMORY_FILE": str(folder / "memory.db"), "INDEX_FILE": str(index)}
    with run_server(HOSTS[-1], folder, {**ECHO, **memory}) as server:
        yield server
