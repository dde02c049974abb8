"""The page in Firefox: the scenarios of tests/clients/firefox.mjs, over the app with a memory."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.node import CLIENTS, needs_packages, run
from tests.support.servers import Server

FIREFOX = os.environ.get("TEST_FIREFOX")
SCENARIOS = re.findall(
    r'^  async "(.+)"\(\)', (CLIENTS / "firefox.mjs").read_text("utf-8"), re.MULTILINE
)

pytestmark = [
    needs_packages,
    pytest.mark.skipif(not FIREFOX, reason="TEST_FIREFOX names no Firefox"),
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_page_works_in_firefox(tmp_path: Path, stored: Server, scenario: str) -> None:
    done = run(tmp_path, "node", "firefox.mjs", str(FIREFOX), stored.url, scenario)

    assert done.returncode == 0, done.stderr
