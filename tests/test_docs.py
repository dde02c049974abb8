"""What the docs say holds: files that are there, overrides that exist, output that is real."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from shared.bootstrap import build
from shared.overrides import Overrides
from shared.service import ROUTES
from shared.settings import Settings
from tests.calls import ask, call
from tests.test_questions import measure

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_first_command_stands_within_the_first_screen() -> None:
    fence = README.split("\n").index("```sh")

    assert fence < 25
    assert README.split("\n")[fence + 1] == "make run"


def test_the_answer_in_the_readme_is_what_the_app_gives() -> None:
    asked = re.search(r"-d '(.*?)'", README, re.DOTALL)
    shown = re.search(r"```json\n(.*?)```", README, re.DOTALL)
    assert asked is not None
    assert shown is not None
    got = ask(call("/chat/stream", asked[1].encode()), build(Settings(INDEX_FILE="samples"))).lines
    first, *rest = shown[1].strip().split("\n")
    known = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in got]

    start, _, _ = first.partition("...")
    assert known[0].startswith(start)
    assert [line for line in rest if line != "..." and line not in known] == []
    assert rest[-1] == known[-1]


def test_every_override_has_its_row_in_the_readme() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", README, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert set(Overrides.model_fields) <= named


def test_every_route_is_told_of() -> None:
    told = README + (ROOT / "docs" / "protocols.md").read_text("utf-8")

    assert [route for route in ROUTES if f"{route}`" not in told] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_link_leads_to_a_file_that_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8"))
    files = [link for link in links if not link.startswith("http")]

    assert [link for link in files if not (page.parent / link).exists()] == []


def test_the_score_in_the_readme_is_what_the_command_counts() -> None:
    score = asyncio.run(measure())
    right = sum(map(score.right, score.asked))

    assert f"{right} of the {sum(score.asked.values())} questions" in README
