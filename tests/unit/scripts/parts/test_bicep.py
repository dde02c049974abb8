"""Where a parameter becomes a constant, all that follows from it is gone, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.parts.bicep import fold_file, fold_files, read_declarations

ROOT = Path(__file__).parents[4]
FILES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "infra").rglob("*")
    if path.suffix in (".bicep", ".json")
}
MAIN = """@description('Keeps conversations.')
param useMemory bool = true

@description('Where.')
param region string = ''

@description('Where.')
param location string

var memory = signIn && useMemory
var names = {
  app: 'a'
  store: 's'
}

// The store.
module store 'modules/store.bicep' = if (memory) {
  params: {
    name: names.store
    location: region
  }
}

module roles 'modules/roles.bicep' = {
  params: {
    app: names.app
    // The store's name.
    store: memory ? store!.outputs.name : ''
  }
}

output STORE string = memory ? store!.outputs.name : ''
output APP string = names.app
"""
ROLES = """param app string
param store string

resource account 'Some/accounts@2025-01-01' existing = {
  name: empty(store) ? 'none' : store
}

resource one 'Some/roles@2025-01-01' = if (!empty(store)) {
  scope: account
}

resource two 'Some/roles@2025-01-01' = {
  properties: union({ app: app }, empty(store) ? {} : { store: store })
}
"""
REST = """@description('Where.')
param location string

var names = {
  app: 'a'
}

module roles 'modules/roles.bicep' = {
  params: {
    app: names.app
  }
}

output APP string = names.app
"""


def write_parameters(**variables: str) -> str:
    values = {name: {"value": f"${{{value}}}"} for name, value in variables.items()}
    return json.dumps({"parameters": values})


def test_module_that_is_never_deployed_goes_with_all_that_it_alone_used() -> None:
    tree = {
        "infra/main.bicep": MAIN,
        "infra/main.parameters.json": write_parameters(
            useMemory="AZURE_USE_MEMORY=true", region="AZURE_REGION", location="AZURE_LOCATION"
        ),
        "infra/modules/store.bicep": "param name string\n",
        "infra/modules/roles.bicep": ROLES,
    }
    variables = fold_files(tree, {"useMemory": "false"})

    assert tree["infra/main.bicep"] == REST
    assert tree["infra/modules/roles.bicep"] == (
        "param app string\n\nresource two 'Some/roles@2025-01-01' = {\n"
        "  properties: { app: app }\n}\n"
    )
    assert "infra/modules/store.bicep" not in tree
    assert list(json.loads(tree["infra/main.parameters.json"])["parameters"]) == ["location"]
    assert variables == {"AZURE_USE_MEMORY", "AZURE_REGION"}


@pytest.mark.parametrize(
    ("expression", "folded"),
    [
        ("on && a", "a"),
        ("off && a", "false"),
        ("off || !a", "!a"),
        ("!on ? a : off ? b : c", "c"),
        ("empty(none) ? a : b", "a"),
        ("union(a, on ? {} : b, c)", "union(a, c)"),
        ("concat(\n  a,\n  on ? [] : b\n)", "a"),
        ("concat(\n  a,\n  b,\n  on ? [] : c\n)", "concat(\n  a,\n  b\n)"),
        ("[a, gone]", "[a]"),
        ("{ a: none, b: 1 }", "{ b: 1 }"),
        ("{ a: '', b: 1 }", "{ a: '', b: 1 }"),
        ("[for x in nothing: { a: x }]", None),
    ],
)
def test_expression_is_folded(expression: str, folded: str | None) -> None:
    constants = {"on": "true", "off": "false", "none": "''", "gone": "null", "nothing": "[]"}
    text = fold_file(f"var one = {expression}\n", constants)

    assert text == (f"var one = {folded}\n" if folded else "\n")


def test_files_of_the_project_stay_as_they_are_without_constants() -> None:
    for text in [text for name, text in FILES.items() if name.endswith(".bicep")]:
        assert "".join(each.head + each.text for each in read_declarations(text)) == text
        assert fold_file(text, {}) == text


def test_conversations_leave_no_trace_in_the_project() -> None:
    tree = dict(FILES)
    fold_files(tree, {"useMemory": "false"})
    code = [line.partition("//")[0] for text in tree.values() for line in text.splitlines()]

    assert "infra/modules/cosmos.bicep" not in tree
    assert [line for line in code if "cosmos" in line.lower() and "@description" not in line] == []
