"""Parts can be deleted as docs/customize.md says: what is left imports and answers a question.

Each row of its table is applied to a copy of the project. `make test-removal` (REMOVAL=full) also
runs linter, types, import contracts and unit tests of what is left, which takes minutes.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.packaging import copy_files, list_project_files
from tests.support.servers import ROOT

HEADER = "| You do not need | delete | remove |"
FULL = os.environ.get("REMOVAL") == "full"
PYTHON = sys.executable
# Parts that answer where nothing is set; the unit tests that start the app so need them.
DEFAULTS = ("the demo model", "the embedded index")
IGNORED = [
    f"--ignore=tests/unit/{name}"
    for name in (
        "test_app.py",
        "ingest/test_setup.py",
        "chat/test_overrides.py",
        "protocols/test_fuzz_chat.py",
        "protocols/test_page.py",
        "test_function_app.py",
        "test_settings.py",
    )
]
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# Asks the app a question.
SCRIPT = """
import asyncio, json
import function_app
from shared.http.call import Call

async def body():
    yield json.dumps({"messages": [{"role": "user", "content": "What is in Plus?"}]}).encode()

async def connected():
    return False

headers = {"content-type": "application/json"}
call = Call("/chat", "POST", headers, body(), connected, "1")
reply = asyncio.run(function_app.handle_call(function_app.chat_app, call))
print(json.dumps([reply.status, json.loads(reply.body)]))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: `removals` are pairs of a name and the file it is removed from."""

    part: str
    paths: tuple[str, ...]
    exceptions: tuple[str, ...]
    removals: tuple[tuple[str, str], ...]


def read_rows() -> Iterator[Row]:
    """The rows of the table."""
    text = (ROOT / "docs" / "customize.md").read_text("utf-8")
    table = text.partition(HEADER)[2].partition("\n\n")[0]
    for line in table.strip().splitlines()[1:]:
        part, delete, remove = (cell.strip() for cell in line.strip("|").split(" | "))
        paths, _, exceptions = delete.partition(" except ")
        yield Row(part, _names(paths), _names(exceptions), tuple(_removals(remove)))


def _removals(cell: str) -> Iterator[tuple[str, str]]:
    for clause in filter(None, cell.split("; ")):
        names, _, files = clause.partition(" from ")
        yield from ((name, file) for file in _names(files) for name in _names(names))


def _names(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`(.+?)`", text))


ROWS = list(read_rows())


def apply(row: Row, project: Path) -> None:
    """Do what a row says."""
    contents = {name: (project / name).read_bytes() for name in row.exceptions}
    for name in row.paths:
        path = project / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, data in contents.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(data)
    for name, file in row.removals:
        path = project / file
        remove_name = REMOVERS.get(path.suffix, remove_block)
        text = path.read_text("utf-8")
        changed = remove_name(name, text)
        assert changed != text, f"{file} has no {name}"
        path.write_text(changed, "utf-8")


def remove_from_python(name: str, text: str) -> str:
    """Remove what defines a name, each `if` that tests it or does nothing else, its place in a
    list of one line, and each other line that names it.
    """
    lines, word = text.splitlines(keepends=True), rf"(?<!\w){re.escape(name)}(?!\w)"
    for node in ast.walk(ast.parse(text)):
        defines = isinstance(node, DEFINITIONS) and node.name == name
        tests = isinstance(node, ast.If) and _is_about(word, node)
        if isinstance(node, ast.stmt) and (defines or tests):
            decorators = getattr(node, "decorator_list", ())
            first = min([node.lineno, *(each.lineno for each in decorators)])
            lines[first - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - first + 1)
    return "".join(_without(word, line) for line in lines)


def _is_about(word: str, node: ast.If) -> bool:
    only = not node.orelse and all(re.search(word, ast.unparse(each)) for each in node.body)
    return only or re.search(word, ast.unparse(node.test)) is not None


def _without(word: str, line: str) -> str:
    if not re.search(word, line):
        return line
    changed, count = re.subn(rf"(?<=[(\[ ]){word}, |, {word}(?=[)\]\n])", "", line)
    return changed if count else ""


def remove_block(name: str, text: str) -> str:
    """Remove a key of YAML or a target of a Makefile, with the indented lines under it."""
    return re.sub(rf"(?m)^{re.escape(name)}:.*\n(?:[ \t]+.*\n)*\n?", "", text)


def remove_setting(name: str, text: str) -> str:
    """Remove a setting's row from a table, and its name from a list."""
    quoted = re.escape(f"`{name}`")
    return re.sub(rf"(?m)^\| {quoted} \|.*\n|{quoted}, ", "", text)


def remove_lines(name: str, text: str) -> str:
    """Remove each line with a name."""
    return re.sub(rf"(?m)^.*\b{re.escape(name)}\b.*\n", "", text)


def remove_item(name: str, text: str) -> str:
    """Remove a text from a list of texts that is on one line."""
    return text.replace(f', "{name}"', "")


REMOVERS = {
    ".py": remove_from_python,
    ".md": remove_setting,
    ".html": remove_lines,
    ".toml": remove_item,
    ".txt": remove_lines,
}


def missing_imports(project: Path, file: Path) -> list[str]:
    """What a file imports of the project and is not there: `module` or `module:name`."""
    return [each for each in _imports(file) if not _exists(project, *each.split(":"))]


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}:{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _exists(project: Path, module: str, name: str = "") -> bool:
    """Whether a module is there, and binds a name; a package has its modules, too."""
    if module.partition(".")[0] not in ("shared", "ingest", "scripts", "tests", "bench", "evals"):
        return True
    path = project.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return False
    inside = (path / name).is_dir() or (path / f"{name}.py").is_file()
    return not name or inside or name in _bound(file.read_text("utf-8"))


@cache
def _bound(text: str) -> set[str]:
    """The names that a module binds."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.name for node in nodes if isinstance(node, DEFINITIONS)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}


def write_examples(project: Path) -> dict[str, str]:
    """Write the model and the retriever of the docs; the settings that name what is needed."""
    text = (ROOT / "docs" / "own-model-or-search.md").read_text("utf-8")
    model, search = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (project / "own_model.py").write_text(model)
    (project / "own_search.py").write_text(search)
    settings = {}
    if not (project / "shared" / "models" / "demo.py").exists():
        settings["CHAT_MODEL"] = "own_model:make"
    if not (project / "shared" / "retrieval" / "sqlite").exists():
        settings["RETRIEVER"] = "own_search:make"
    return settings


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.part))
def test_rest_imports_and_answers(row: Row, tmp_path: Path) -> None:
    others = ("tests/", "bench/", "infra/")
    names = [
        name for name in list_project_files() if not name.startswith(others) or name in row.paths
    ]
    apply(row, copy_files(ROOT, names, tmp_path))
    settings = write_examples(tmp_path)
    files = [*tmp_path.glob("*.py"), *tmp_path.glob("shared/**/*.py")]
    files += tmp_path.glob("scripts/**/*.py")
    missing = {file.name: names for file in files if (names := missing_imports(tmp_path, file))}

    assert missing == {}
    assert bool(settings) == (row.part in DEFAULTS)
    done = run(tmp_path, "-c", SCRIPT, **settings)
    assert done.returncode == 0, done.stderr
    status, answer = json.loads(done.stdout.splitlines()[-1])
    assert status == 200, answer
    assert answer["message"]["content"]
    assert answer["context"]["data_points"]["text"]


def run(project: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy of the project."""
    path = {name: value for name, value in os.environ.items() if name in ("PATH", "SYSTEMROOT")}
    command = [PYTHON, *arguments]
    return subprocess.run(
        command, cwd=project, env=path | settings, capture_output=True, text=True, timeout=600
    )


def delete_importers(project: Path) -> None:
    """Delete the tests and benchmarks that import what is gone, and what imports these."""
    while True:
        files = [*project.glob("tests/**/*.py"), *project.glob("bench/**/*.py")]
        gone = [file for file in files if missing_imports(project, file)]
        if not gone:
            return
        for file in gone:
            file.unlink()


def delete_contracts(project: Path) -> None:
    """Delete the lines of the import contracts that name a module that is gone."""
    path = project / "pyproject.toml"
    text, section, contracts = path.read_text("utf-8").partition("[tool.importlinter]")

    def is_kept(line: str) -> bool:
        name = re.fullmatch(r' *"(?:shared\.)?([\w.]+)",\n', line)
        return name is None or _exists(project, f"shared.{name[1]}")

    lines = filter(is_kept, contracts.splitlines(keepends=True))
    path.write_text(text + section + "".join(lines), "utf-8")


@pytest.fixture(scope="session")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.skipif(not FULL, reason="takes minutes: make test-removal")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.part))
def test_rest_passes_its_checks(row: Row, tmp_path: Path, mypy_cache: Path) -> None:
    names = [name for name in list_project_files() if not name.startswith("tests/template/")]
    apply(row, copy_files(ROOT, names, tmp_path))
    delete_importers(tmp_path)
    delete_contracts(tmp_path)
    ignored = IGNORED if row.part in DEFAULTS else []
    contracts = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    for command in (
        ("-m", "ruff", "check", "--fix", "--no-cache"),
        ("-m", "mypy", "--cache-dir", str(mypy_cache)),
        ("-c", contracts, "--no-cache"),
        ("-m", "pytest", "-p", "no:cacheprovider", "tests/unit", *ignored),
    ):
        done = run(tmp_path, *command)

        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
