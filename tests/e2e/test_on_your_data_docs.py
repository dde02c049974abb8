"""The programs in docs/on-your-data.md, each run as it stands against the app."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.test_azure_search import app, home
from tests.support.calls import CHAT_KEY
from tests.support.fake_search import FakeSearch
from tests.support.servers import ROOT, TIMEOUT
from tests.support.upstream import Upstream

__all__ = ["home"]  # a fixture

TEXT = (ROOT / "docs" / "on-your-data.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[tuple[FakeSearch, Upstream, httpx.Client]]:
    with app(home, CHAT_MODEL="demo", CHAT_API_KEY=CHAT_KEY) as parts:
        yield parts


@pytest.mark.parametrize("program", PROGRAMS, ids=["citations", "a stream", "LangChain"])
def test_program_of_the_docs_runs(
    running: tuple[FakeSearch, Upstream, httpx.Client], program: str
) -> None:
    search, _, client = running
    ours = {
        "CHAT_API_KEY": CHAT_KEY,
        "AZURE_SEARCH_ENDPOINT": search.url,
        "AZURE_SEARCH_INDEX": "docs",
    }
    done = subprocess.run(
        [sys.executable, "-c", program.replace("http://localhost:7071", str(client.base_url))],
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )

    assert done.returncode == 0, done.stderr
    assert "[doc1]" in done.stdout
    if "citations" in program:
        assert "[doc1] public.md /content/public.md" in done.stdout
