"""The files of tools lose the lines of a part."""

from __future__ import annotations

import json

import pytest

from scripts.parts.catalog import Catalog, Part
from scripts.parts.comments import remove_from_comments
from scripts.parts.elsewhere import remove_elsewhere
from scripts.parts.removal import Removal, Tree

PART = Part(
    gives="measurements",
    paths=("evals/", "requirements-eval.txt"),
    words=("evaluation",),
    settings=("EVAL_MODEL",),
    packages=("azure-eval",),
    routes=("/eval/*",),
)


def write_tasks(commands: list[str], **more: object) -> str:
    tasks = [{"command": command} for command in commands]
    return json.dumps({"tasks": tasks} | more, indent=2) + "\n"


BEFORE: Tree = {
    "evals/__main__.py": "",
    "evals/requirements.txt": "",  # of the same name as another one
    "requirements-eval.txt": "",
    "shared/app.py": "",
    "requirements-dev.txt": "-r requirements.txt\n# It.\n-r requirements-eval.txt\npytest==9\n",
    "requirements.txt": "# A.\nazure-eval[a]==1 ; python_version > '3'\n# B.\nazure-eval-x==1\n",
    ".funcignore": "evals\nrequirements-eval.txt\nshared\n",
    "tests/template/functions.txt": "a FUNCTION GET eval/{id}\nb FUNCTION GET chat\n",
    "local.settings.sample.json": '{\n  "Values": {\n    "EVAL_MODEL": "",\n    "B": ""\n  }\n}\n',
    "azure.yaml": "services:\n  api:\n    project: .\n  evals: # c\n    project: evals\n"
    "    hooks:\n      a: b\na:\n  secrets:\n    - EVAL_MODEL\n"
    "  variables: # b\n    - A\n    - EVAL_MODEL\n",
    ".github/dependabot.yml": 'a: ["/", "/evals", "/shared"]\n',
    ".github/workflows/a.yml": "env:\n  EVAL_MODEL: ${{ vars.EVAL_MODEL }}\n  A: b\n",
    "test.http": "@host = a\n\n### One\nGET {{host}}/chat\n\n### Two\nGET {{host}}/eval/1\n",
    ".vscode/tasks.json": write_tasks(["make eval A=${input:a}", "make run"], inputs=[{"id": "a"}]),
    "pyproject.toml": 'files = ["shared", "evals"]\n\n[[tool.importlinter.contracts]]\nname = "a"\n'
    'modules = [\n    "shared.app",\n    "evals",\n]\n\n'
    '[[tool.importlinter.contracts]]\nname = "b"\nforbidden_modules = ["evals"]\n\n[end]\n',
    "Makefile": ".PHONY: help eval run\n\n"
    "# Measures.\neval: $(VENV)/.eval ## measure\n\t@$(BIN)/python -m evals \\\n\t\t$(ARGS)\n\n"
    "run: $(VENV)/.run\n\t@$(BIN)/python -m app\n\n"
    "$(VENV)/.eval: requirements.txt requirements-eval.txt\n\t@touch $@\n\n"
    "$(VENV)/.run: requirements.txt\n\t@touch $@ $(VENV)/.eval\n",
    "docs/a.md": "# A\n\nCall `make run`. Or call `make eval`.\n",
}
AFTER = {
    "requirements-dev.txt": "-r requirements.txt\npytest==9\n",
    "requirements.txt": "# B.\nazure-eval-x==1\n",
    ".funcignore": "shared\n",
    "tests/template/functions.txt": "b FUNCTION GET chat\n",
    "local.settings.sample.json": '{\n  "Values": {\n    "B": ""\n  }\n}\n',
    "azure.yaml": "services:\n  api:\n    project: .\na:\n  variables: # b\n    - A\n",
    ".github/dependabot.yml": 'a: ["/", "/shared"]\n',
    ".github/workflows/a.yml": "env:\n  A: b\n",
    "test.http": "@host = a\n\n### One\nGET {{host}}/chat\n",
    ".vscode/tasks.json": write_tasks(["make run"]),
    "pyproject.toml": 'files = ["shared"]\n\n[[tool.importlinter.contracts]]\nname = "a"\n'
    'modules = [\n    "shared.app",\n]\n\n[end]\n',
    "Makefile": ".PHONY: help run\n\nrun: $(VENV)/.run\n\t@$(BIN)/python -m app\n\n"
    "$(VENV)/.run: requirements.txt\n\t@touch $@\n",
    "docs/a.md": "# A\n\nCall `make run`.\n",
}


@pytest.fixture(scope="module")
def tree() -> Tree:
    """What is left of BEFORE."""
    tree = dict(BEFORE)
    removal = Removal(Catalog(parts={"evals": PART}), ("evals",), ("evals",))
    removal.settings |= {*PART.settings}
    removal.delete(tree, [path for path in tree if PART.owns(path)])
    remove_elsewhere(tree, removal)
    return tree


@pytest.mark.parametrize("name", AFTER)
def test_lines_of_a_part_are_removed(tree: Tree, name: str) -> None:
    assert tree[name] == AFTER[name]
    if name.endswith(".json"):
        json.loads(AFTER[name])


def test_target_goes_with_the_command_that_it_runs() -> None:
    recipes = {
        name: f"eval-{name}:\n\t@python -m evals {name} $(ARGS)\n\n" for name in ("draft", "run")
    }
    tree: Tree = {
        "Makefile": ".PHONY: help eval-draft eval-run\n\n" + "".join(recipes.values()),
        "evals/__main__.py": "",
        "evals/requirements.txt": "",  # of the same name as another one
        "evals/runner.py": "",
        "evals/drafts/command.py": "",
    }
    removal = Removal(Catalog(parts={"evals": PART}), ("evals",), ("evals",))
    removal.delete(tree, ["evals/drafts/command.py"])
    remove_elsewhere(tree, removal)

    assert tree["Makefile"] == ".PHONY: help eval-run\n\n" + recipes["run"]


def test_comments_lose_the_sentences_that_mention() -> None:
    text = "# One. AOG\n# is two.\na = 1 # AOG\nb = '#AOG' # three\n\n# AOG.\n# More of it.\nc\n"
    rest = remove_from_comments(text, "#", lambda text: "AOG" in text)

    assert rest == "# One.\na = 1\nb = '#AOG' # three\n\n# More of it.\nc\n"


def test_descriptions_in_bicep_lose_them_too() -> None:
    text = "@description('It\\'s a key. AOG has one, too.')\nparam a string // AOG\n"
    rest = remove_from_comments(text, "//", lambda text: "AOG" in text)

    assert rest == "@description('It\\'s a key.')\nparam a string\n"
