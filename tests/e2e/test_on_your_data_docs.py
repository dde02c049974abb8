"""The programs in docs/on-your-data.md and docs/chat-completions.md, each run as it stands against
the app, and a program of On Your Data after the printed change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.calls import CHAT_KEY
from tests.support.fake_search import FakeSearch
from tests.support.search_app import app, home
from tests.support.servers import ROOT, TIMEOUT
from tests.support.upstream import Upstream

__all__ = ["home"]  # a fixture

TEXT = (ROOT / "docs" / "on-your-data.md").read_text("utf-8")
DIFFS = re.findall(r"^```diff\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
OPENAI = (ROOT / "docs" / "chat-completions.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT + OPENAI, re.MULTILINE | re.DOTALL)


# Names a model of the resource that it called.
PROGRAM = """
import os

from openai import AzureOpenAI

client = AzureOpenAI(
    azure_endpoint="https://mine.openai.azure.com",
    api_key=os.environ["AZURE_OPENAI_API_KEY"],
    api_version="2024-05-01-preview",
)
answer = client.chat.completions.create(
    model="gpt-4o",
    messages=[{"role": "user", "content": "Is there a deductible?"}],
    extra_body={
        "data_sources": [
            {
                "type": "azure_search",
                "parameters": {
                    "endpoint": os.environ["AZURE_SEARCH_ENDPOINT"],
                    "index_name": "docs",
                    "authentication": {"type": "api_key", "key": "of the search"},
                },
            }
        ]
    },
)
print(answer.model, answer.choices[0].message.content)
"""


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[tuple[FakeSearch, Upstream, httpx.Client]]:
    with app(home, CHAT_MODEL="demo", CHAT_API_KEY=CHAT_KEY) as parts:
        yield parts


def run_program(parts: tuple[FakeSearch, Upstream, httpx.Client], program: str) -> str:
    """Run a program and return its output. Both addresses of the docs are the app's here."""
    search, _, client = parts
    ours = {
        "CHAT_API_KEY": CHAT_KEY,
        "AZURE_SEARCH_ENDPOINT": search.url,
        "AZURE_SEARCH_INDEX": "docs",
    }
    address = r"http://localhost:7071|https://my-chat\.azurewebsites\.net"
    done = subprocess.run(
        [sys.executable, "-c", re.sub(address, str(client.base_url).rstrip("/"), program)],
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )

    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=["citations", "a stream", "LangChain"])
def test_program_of_the_docs_runs(
    running: tuple[FakeSearch, Upstream, httpx.Client], program: str
) -> None:
    output = run_program(running, program)

    assert "[doc1]" in output
    if "citations" in program:
        assert "[doc1] public.md /content/public.md" in output


def apply_diff(diff: str, program: str) -> str:
    """Apply a diff without line numbers."""
    lines = diff.splitlines()
    before, after = (
        "\n".join(line[1:] for line in lines if not line.startswith(sign)) for sign in "+-"
    )

    assert program.count(before) == 1
    return program.replace(before, after)


@pytest.mark.parametrize("diff", DIFFS)
def test_two_changed_lines_make_a_program_of_on_your_data_run(
    running: tuple[FakeSearch, Upstream, httpx.Client], diff: str
) -> None:
    output = run_program(running, apply_diff(diff, PROGRAM))

    assert re.findall("^[+]", diff, re.MULTILINE) == ["+", "+"]
    assert output.startswith("demo ")
    assert "[doc1]" in output


def test_docs_print_the_change() -> None:
    assert "```diff" in TEXT
