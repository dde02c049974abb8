"""Rules beyond the import contracts of pyproject.toml: cycles, libraries, wire names."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (
        ROOT / "function_app.py",
        *sorted((ROOT / "shared").rglob("*.py")),
        *sorted((ROOT / "ingest").rglob("*.py")),
    )
}
APP = [name for name in FILES if name.partition(".")[0] != "ingest"]
# Imported only if the settings need them.
ADAPTERS = (
    "shared.azure",
    "shared.files.blobs",
    "shared.files.folder",
    "shared.memory.cosmos",
    "shared.memory.sqlite",
    "shared.models.demo",
    "shared.models.openai",
    "shared.models.providers.request_provider",
    "shared.retrieval.azure_search",
    "shared.retrieval.sqlite",
    "shared.telemetry.open_telemetry",
    "shared.uploads.blob",
)
LIGHT = {"shared.retrieval.azure_search.search_fields"}  # parses a setting, without the SDK


def is_adapter(name: str) -> bool:
    return name.startswith(ADAPTERS) and name not in LIGHT


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text("utf-8"))


def imported_modules(node: ast.stmt) -> list[str]:
    """Return the modules of an import statement."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        modules = [name for name in inner if name in FILES]
        whole = len(modules) == len(inner)
        return modules if whole else [node.module, *modules]
    return []


def imports(name: str, top_only: bool = False) -> set[str]:
    nodes = tree(name).body if top_only else ast.walk(tree(name))
    return {
        module for node in nodes if isinstance(node, ast.stmt) for module in imported_modules(node)
    }


def own_imports(name: str) -> set[str]:
    return {module for module in imports(name) if module.startswith(("shared", "ingest"))}


def test_imports_have_no_cycle() -> None:
    graph = {name: own_imports(name) - {"shared", "ingest", name} for name in FILES}

    assert len(list(TopologicalSorter(graph).static_order())) >= len(FILES)


def test_bootstrap_imports_adapters_lazily() -> None:
    makers = [name for name in APP if name.startswith("shared.bootstrap")]
    early = {module for name in makers for module in imports(name, top_only=True)}

    assert not {module for module in early if is_adapter(module)}


@pytest.mark.parametrize("name", APP)
def test_sdks_are_imported_only_by_adapters(name: str) -> None:
    libraries = {module.partition(".")[0] for module in imports(name)}
    assert ("opentelemetry" in libraries) == (name == "shared.telemetry.open_telemetry")
    allowed = {"function_app": {"azure", "azurefunctions"}}.get(name, set())
    if is_adapter(name):
        allowed = {"sqlite3", "openai", "azure"}

    assert libraries & {"azure", "azurefunctions", "openai", "sqlite3"} <= allowed


@pytest.mark.parametrize("name", APP)
def test_only_the_function_app_reads_the_environment(name: str) -> None:
    sees = bool(imports(name) & {"os", "dotenv"})

    assert sees == (name == "function_app")


# Names that only protocols may use; "messages" and the overrides' names are used elsewhere, too.
WIRE_NAMES = {
    "choices",
    "delta",
    "message",
    "output_text",
    "sessionState",
    "session_state",
    "context",
    "data_points",
    "thoughts",
    "citations",
    "followup_questions",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "function_call",
    "tool_calls",
    "stream",
    "imageEmbedding",
}


CHAT_ANSWERS = {"message", "output_text"}  # values of that setting

# OpenAI's wire format has the same names, which its adapter needs. So has AOG's, which defines
# the providers' metadata and the content parts.
SPEAK = (
    "shared.bootstrap.models",
    "shared.bootstrap.providers",
    "shared.models.formats",
    "shared.models.openai.client",
    "shared.models.providers.metadata",
    "shared.protocols",
)


@pytest.mark.parametrize("name", [name for name in APP if not name.startswith(SPEAK)])
def test_wire_names_occur_only_in_protocols(name: str) -> None:
    texts = {node.value for node in ast.walk(tree(name)) if isinstance(node, ast.Constant)}

    assert texts & WIRE_NAMES == (CHAT_ANSWERS if name == "shared.settings" else set())


@pytest.mark.parametrize("name", APP)
def test_import_has_no_side_effects(name: str) -> None:
    calls = [
        ast.unparse(node.func)
        for statement in tree(name).body
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    ]
    busy = {"open", "read_text", "read_bytes", "connect", "getenv", "run", "start"}
    busy_calls = [call for call in calls if call.rpartition(".")[2] in busy]

    assert busy_calls == (["start"] if name == "function_app" else [])
