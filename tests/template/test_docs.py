"""The documentation: links, names and quoted output are right."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from math import ceil
from pathlib import Path

import pytest
import yaml

from scripts.checks import first_question, postdeploy
from shared.app import ROUTES
from shared.domain.overrides import INTERNAL_FIELDS, Overrides
from tests.support import transcript

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS]


def test_first_command_is_within_the_first_screen() -> None:
    fence = README.split("\n").index("```sh")

    assert fence < 25
    assert README.split("\n")[fence + 1] == "make run"


@pytest.mark.parametrize("path", transcript.PAGES, ids=lambda path: str(path.name))
def test_printed_answers_are_the_real_answers(path: Path) -> None:
    is_current = path.read_text("utf-8") == transcript.page(path)

    assert is_current, "run `python -m tests.support.transcript`"


def test_readme_is_short() -> None:
    assert len(README.split()) <= 1300


def test_readme_names_the_oldest_azd() -> None:
    azure = yaml.safe_load((ROOT / "azure.yaml").read_text("utf-8"))
    minimum = azure["requiredVersions"]["azd"].removeprefix(">= ")

    assert re.search(rf"\[azd\]\(\S+\) {re.escape(minimum)} or later", README)


def test_every_override_is_described() -> None:
    fields = Overrides.model_fields.items()

    assert {name for name, field in fields if not field.description} == {*INTERNAL_FIELDS}


def test_docs_name_every_route() -> None:
    text = "".join(page.read_text("utf-8") for page in DOCS)

    assert [route for route in ROUTES if f"{route}`" not in text] == []


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == set()


def command_lines(page: Path) -> list[str]:
    """The lines of the blocks of commands."""
    blocks = re.findall(r"```(?:sh|bat|powershell)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def inline_code(page: Path) -> list[str]:
    text = re.sub(r"(?s)```.*?```", "", page.read_text("utf-8"))
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES[:1] + DOCS, ids=lambda page: str(page.name))
def test_make_command_has_a_windows_line(page: Path) -> None:
    """On the same page, or on one that it links to."""
    text = page.read_text("utf-8")
    uses_make = any(line.startswith("make ") for line in command_lines(page))

    assert not uses_make or ".venv\\Scripts\\python" in text or "commands.md" in text


@pytest.mark.parametrize("page", PAGES[:1] + DOCS, ids=lambda page: str(page.name))
def test_commands_run_in_the_environment_of_the_project(page: Path) -> None:
    """The packages are in .venv: `make` or .venv/bin/python finds them, a bare name does not."""
    module = r"python[\d.]* -m (?!venv|http\.server|pip install -r requirements.txt -c)"
    bare = re.compile(rf"(?:^|[;&|(] *)(?:{module}|python |pytest|pip3? )")

    assert [line for line in command_lines(page) + inline_code(page) if bare.search(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_lead_to_existing_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8"))
    # ../../actions is on the repository's site, which takes README from /blob/main/.
    files = [link for link in links if not link.startswith(("http", "../../actions/"))]

    assert [link for link in files if not (page.parent / link).exists()] == []


def anchor(heading: str) -> str:
    """Return the anchor of a heading: lower case, hyphens for spaces, no punctuation."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_anchors_lead_to_existing_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]*)\)", page.read_text("utf-8"))
    for file, name in links:
        text = (page.parent / file if file else page).read_text("utf-8")
        headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)

        assert name in map(anchor, headings), f"{file}#{name}"


@pytest.mark.parametrize("name", ["architecture.svg", "performance.svg"])
def test_diagram_has_a_description_and_a_dark_mode(name: str) -> None:
    drawing = (ROOT / "docs" / name).read_text("utf-8")
    root = ElementTree.fromstring(drawing)
    words = {node.tag.rpartition("}")[2]: node.text or "" for node in root[:2]}

    assert len(words["title"]) > 0
    assert len(words["desc"]) > 100
    assert "prefers-color-scheme: dark" in drawing


def test_readme_shows_the_diagram() -> None:
    assert "docs/architecture.svg" in README


def test_architecture_page_names_the_existing_folders() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    folders = {path.name for path in (ROOT / "shared").iterdir() if path.is_dir()}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "shared").rglob("*.py"))
    names = re.findall(r"`([A-Za-z_]+)(?:\.([a-z_]+))?`", page.partition("## One request")[2])
    parts = {part for first, second in names if second != "py" for part in (first, second)}

    assert folders - {"__pycache__"} <= set(re.findall(r"^\| \[`(\w+)/`\]", page, re.MULTILINE))
    assert [part for part in parts if not re.search(rf"\b{part}\b", code)] == []


COST = (ROOT / "docs" / "cost.md").read_text("utf-8")


def cells(start: str, page: str = COST) -> list[str]:
    """Return the cells of the table row with this start."""
    (row,) = re.findall(rf"^\| {re.escape(start)}(.*)\|$", page, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")[1:]]


def first(text: str) -> float:
    """Return the first number in a cell."""
    (number,) = re.findall(r"\d[\d.]*", text.replace(",", ""))[:1]
    return float(number)


def test_cost_table_matches_its_prices() -> None:
    to_read, to_write = map(float, cells("`gpt-5.6-luna`, a million tokens")[0].split(", "))
    question = (2000 * to_read + 300 * to_write) / 1e6 * (1 + 0.5 / 3)
    seconds = 100_000 * 3 / 4 * 2 - 100_000  # of a GB, after the free grant
    functions = seconds * first(cells("Functions: GB-second on demand")[0])
    search = first(cells("Search `basic`, one hour")[0]) * 730

    _, thousand, many = cells("Model, `gpt-5.6-luna`")
    assert first(thousand) == pytest.approx(question * 1000, abs=0.01)
    assert first(many) == pytest.approx(question * 100_000, abs=1)
    assert first(cells("Functions ")[2]) == pytest.approx(functions, abs=0.01)
    assert first(cells("Search, `basic` ")[0]) == pytest.approx(search, abs=0.01)
    totals = [first(cell) for cell in cells("**in all, `basic`**")]
    small = (0.5, 0.5, 2)  # vectors, storage, logs
    parts = (0, question * 1000, question * 100_000 + functions)
    assert totals == [
        pytest.approx(search + p + s, abs=1) for p, s in zip(parts, small, strict=True)
    ]


def busiest_minute(users: int) -> dict[str, float]:
    """Compute the first table of docs/scale.md for a number of users."""
    rate = users * 5 / 480 * 3
    return {
        "questions": rate,
        "answers": rate / 60 * 3,
        "instances, by concurrency": ceil(rate / 60 * 3 / 16),
        "instances, by CPU": ceil(rate / 60 * 0.048 / 0.5),
        "tokens": rate * 2683,
        "requests to the model": rate * 4 / 3,
        "requests a minute for vectors": rate,
        "searches": rate / 60,
        "request units": rate / 60 * 100,
        "GB": users * 5 * 2e-6,
    }


def monthly_costs(users: int) -> dict[str, float]:
    """Compute the parts of the last table of docs/scale.md that follow from docs/cost.md."""
    questions = users * 5 * 22
    second = first(cells("Functions: GB-second on demand")[0])
    thousand = first(cells("Model, `gpt-5.6-luna`")[1])
    return {
        "questions": questions,
        "Functions": max(0, questions * 3 / 4 * 2 - 100_000) * second,
        "Model": questions * thousand / 1000,
    }


@pytest.mark.parametrize(("column", "users"), [(-3, 10), (-2, 1_000), (-1, 100_000)])
def test_scale_tables_match_their_formulas(column: int, users: int) -> None:
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    minute = page.partition("in the busiest minute")[2].partition("## ")[0]
    month = page.partition("## What it costs")[2]
    for table, values in ((minute, busiest_minute(users)), (month, monthly_costs(users))):
        for name, value in values.items():
            number = first(cells(name, table)[column])

            assert number == pytest.approx(value, rel=0.06, abs=0.01), name
    parts = ("Functions", "Search", "Model", "Logs")
    costs = [cells(part, month)[column] for part in parts]
    total = sum(first(cost) for cost in costs if not cost.startswith("under"))
    assert first(cells("**in all", month)[column]) == pytest.approx(total, abs=1)


def test_docs_print_the_end_of_a_deployment() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    (block,) = re.findall(r"```text\n(The app works.*?)```", page, re.DOTALL)
    app = "https://APP.azurewebsites.net"
    report = postdeploy.WORKS.format(
        question=first_question.TEXT, seconds=2.1, answer="ANSWER", access=postdeploy.REFUSES
    )
    start, end = report.split("ANSWER")

    assert block.startswith(start)
    assert block.endswith(f"{end}\n\n{postdeploy.first_call({}, app)}\n")
