"""The arrows of the architecture: who may import whom, who knows the wire, who the environment."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in [ROOT / "function_app.py", *sorted((ROOT / "shared").rglob("*.py"))]
}
APP = [name for name in FILES if not name.startswith("shared.ingest")]
ADAPTERS = {
    "shared.content.blobs",
    "shared.content.folder",
    "shared.identity",
    "shared.memory.cosmos",
    "shared.memory.cosmos_client",
    "shared.memory.sqlite",
    "shared.models.demo_model",
    "shared.models.inline",
    "shared.models.openai_client",
    "shared.models.served",
    "shared.open_telemetry",
    "shared.retrieval.azure_fields",
    "shared.retrieval.azure_search",
    "shared.retrieval.azure_search_client",
    "shared.retrieval.local_index",
}
LOCAL = {
    f"shared.retrieval.local_{part}" for part in ("query", "schema", "search", "state", "vectors")
}
# Files that an adapter has for itself.
QUOTING = {"shared.models.leaning", "shared.models.quoting", "shared.models.splitting"}
FLAVORS = {f"shared.models.flavors{part}" for part in ("", ".aog", ".ollama", ".openai", ".table")}
NOTES = {f"shared.retrieval.{name}" for name in ("notes", "odata", "pictures")}
PRIVATE = (
    FLAVORS
    | QUOTING
    | LOCAL
    | NOTES
    | {"shared.memory.cosmos_kept", "shared.memory.sqlite_file"}
    | {"shared.azure_calls", "shared.connections", "shared.models.reading"}
)
SEAMS = {"shared.content", "shared.memory", "shared.models", "shared.retrieval"}
NOUNS = {"shared.chat", "shared.overrides", "shared.errors"}
PLAIN = {
    f"shared.{name}"
    for name in "function_words images names parts sentences text tokens waits".split()
}
CHOOSING = {f"shared.models.{name}" for name in ("choice", "router", "wrapped")}
WIRE = {f"shared.dialects.{name}" for name in ("wire", "request", "files", "tools")}
# OpenSearch's wire, of which the search stands on the memory's.
SEARCHING = {f"shared.dialects.opensearch{part}" for part in ("", "_errors", "_search", "_source")}
OPENSEARCH = {
    f"shared.opensearch.{name}"
    for name in ("generation", "memory", "pipelines", "routes", "search")
}
FILING = {f"shared.content.{name}" for name in ("conditions", "kinds", "names")}
ROWS = {
    f"shared.dialects.{name}"
    for name in "ai_chat aog aog_request data_sources openai_chat openai_request rag_chat".split()
}
SERVICE = {
    f"shared.{name}"
    for name in ("auth", "deadline", "dialects", "exchange", "followups", "health", "http")
} | {"shared.logs", "shared.rag", "shared.spans", "shared.traced"}

MAY_IMPORT: dict[str, set[str]] = {
    "shared": set(),
    "shared.chat": {"shared.overrides"},
    "shared.overrides": set(),
    "shared.errors": set(),
    "shared.images": set(),
    "shared.names": set(),
    "shared.parts": {"shared.chat", "shared.images"},
    "shared.providers": PLAIN,
    "shared.providers.card": {"shared.providers"},
    "shared.providers.listed": {"shared.providers"},
    "shared.possible": NOUNS | {"shared.models"},
    "shared.sentences": set(),
    "shared.tokens": set(),
    "shared.function_words": set(),
    "shared.text": {"shared.function_words"},
    "shared.waits": set(),
    "shared.content": set(),
    "shared.memory": NOUNS,
    "shared.memory.kept": NOUNS | {"shared.memory"},
    "shared.models": NOUNS,
    "shared.models.wrapped": {"shared.models"},
    "shared.models.choice": NOUNS | {"shared.models", "shared.models.wrapped"},
    "shared.models.router": NOUNS | {"shared.models", "shared.models.choice"},
    "shared.retrieval": NOUNS,
    "shared.retrieval.limited": NOUNS | {"shared.retrieval"},
    "shared.prompt": NOUNS | SEAMS,
    "shared.prompt_verbatim": NOUNS | SEAMS | {"shared.prompt"},
    "shared.followups": NOUNS,
    "shared.deadline": NOUNS,
    "shared.rag": NOUNS
    | SEAMS
    | CHOOSING
    | {f"shared.{name}" for name in ("possible", "prompt", "prompt_verbatim")},
    "shared.auth": NOUNS,
    "shared.spans": set(),
    "shared.logs": NOUNS | {"shared.spans"},
    "shared.traced": NOUNS | SEAMS | CHOOSING | {"shared.rag", "shared.spans"},
    "shared.imported": {"shared.settings"},
    "shared.settings": NOUNS
    | PLAIN
    | {"shared.index_fields", "shared.providers", "shared.providers.listed"},
    "shared.citing": NOUNS,
    "shared.cross_origin": NOUNS,
    "shared.data_source": NOUNS,
    "shared.index_fields": set(),
    "shared.framing": NOUNS | {"shared.dialects.wire"},
    "shared.door": NOUNS
    | CHOOSING
    | ROWS
    | {"shared.auth", "shared.data_source", "shared.dialects.wire", "shared.http"},
    "shared.aog": NOUNS | CHOOSING | ROWS | {"shared.dialects.wire", "shared.http"},
    "shared.http": NOUNS | {"shared.dialects.wire"},
    "shared.dialects": WIRE | ROWS,
    **dict.fromkeys(WIRE | ROWS, NOUNS | PLAIN | WIRE),
    "shared.dialects.openai_chat": NOUNS
    | PLAIN
    | WIRE
    | {f"shared.dialects.{name}" for name in ("data_sources", "openai_request")},
    "shared.dialects.openai_request": NOUNS | PLAIN | WIRE | {"shared.dialects.data_sources"},
    "shared.dialects.aog": NOUNS | WIRE | {"shared.dialects.aog_request", "shared.parts"},
    **dict.fromkeys(SEARCHING, NOUNS | WIRE | SEARCHING | {"shared.memory", "shared.parts"}),
    "shared.opensearch": NOUNS
    | SEAMS
    | WIRE
    | SEARCHING
    | {f"shared.{name}" for name in ("auth", "http", "logs", "rag")},
    **dict.fromkeys(
        OPENSEARCH,
        NOUNS
        | SEAMS
        | WIRE
        | SEARCHING
        | OPENSEARCH
        | CHOOSING
        | {f"shared.{name}" for name in ("memory.kept", "opensearch", "prompt", "rag")},
    ),
    "shared.health": NOUNS,
    "shared.content.conditions": NOUNS | SEAMS,
    "shared.content.kinds": set(),
    "shared.content.names": {"shared.names"},
    "shared.content.serve": NOUNS
    | SEAMS
    | FILING
    | {f"shared.{name}" for name in ("auth", "deadline", "http")},
    "shared.exchange": NOUNS
    | WIRE
    | {f"shared.{name}" for name in ("framing", "http", "logs", "spans")},
    "shared.service": NOUNS
    | SEAMS
    | WIRE
    | SERVICE
    | {"shared.content.serve", "shared.dialects.opensearch_errors", "shared.memory.kept"}
    | {"shared.models.router"}
    | {"shared.aog", "shared.citing", "shared.door", "shared.dialects.openai_request"}
    | {"shared.cross_origin"}
    | {"shared.opensearch", "shared.opensearch.routes"},
    **dict.fromkeys(ADAPTERS | PRIVATE, NOUNS | SEAMS | PLAIN | ADAPTERS | PRIVATE),
    "shared.models.inline": NOUNS | SEAMS | ADAPTERS | {"shared.providers"},
    "shared.open_telemetry": {"shared.spans"},
    "shared.clients": ADAPTERS
    | {"shared.providers", "shared.providers.listed", "shared.retrieval", "shared.settings"},
    "shared.models.provider": SEAMS
    | ADAPTERS
    | CHOOSING
    | FLAVORS
    | {f"shared.{name}" for name in ("clients", "imported", "models.listed", "settings")},
    "shared.models.listed": SEAMS
    | ADAPTERS
    | CHOOSING
    | FLAVORS
    | {f"shared.{name}" for name in ("clients", "providers", "providers.card", "settings")},
    "shared.bootstrap": NOUNS
    | SEAMS
    | ADAPTERS
    | CHOOSING
    | {"shared.imported", "shared.models.provider", "shared.spans"}
    | {f"shared.{name}" for name in ("auth", "clients", "door", "health", "http", "prompt")}
    | {"shared.data_source", "shared.rag", "shared.retrieval.limited", "shared.service"}
    | {"shared.cross_origin", "shared.settings"},
    "function_app": {
        f"shared.{name}" for name in ("bootstrap", "errors", "http", "logs", "settings")
    }
    | {"shared.aog", "shared.door", "shared.opensearch.routes"},
}


def test_every_file_of_the_app_has_its_place() -> None:
    assert MAY_IMPORT.keys() == set(APP)


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text("utf-8"))


def named(node: ast.stmt) -> list[str]:
    """The modules that an import statement names."""
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
    return {module for node in nodes if isinstance(node, ast.stmt) for module in named(node)}


def ours(name: str) -> set[str]:
    return {module for module in imports(name) if module.startswith("shared")}


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_imports_point_inward(name: str) -> None:
    beyond = ours(name) - MAY_IMPORT[name] - {"shared", "shared.dialects"}

    assert beyond == set()


def test_there_is_no_circle() -> None:
    graph = {name: ours(name) - {"shared", name} for name in FILES}

    assert len(list(TopologicalSorter(graph).static_order())) >= len(FILES)


def test_only_the_bootstrap_imports_adapters_and_only_when_they_are_asked_for() -> None:
    makers = {
        "shared.bootstrap",
        "shared.clients",
        "shared.models.listed",
        "shared.models.provider",
    }
    for name in set(APP) - ADAPTERS - PRIVATE - makers:
        assert not ours(name) & (ADAPTERS | PRIVATE), name
    assert not {module for name in makers for module in imports(name, top_only=True)} & ADAPTERS
    assert {module for name in makers for module in ours(name)} >= ADAPTERS


def test_the_service_knows_seams_and_dialects_and_no_adapter() -> None:
    assert not ours("shared.service") & {"shared.settings", "shared.bootstrap", *ADAPTERS}


@pytest.mark.parametrize("name", APP)
def test_libraries_of_services_stay_in_adapters(name: str) -> None:
    libraries = {module.partition(".")[0] for module in imports(name)}
    assert ("opentelemetry" in libraries) == (name == "shared.open_telemetry")
    allowed = {"function_app": {"azure", "azurefunctions"}}.get(name, set())
    if name in ADAPTERS | PRIVATE:
        allowed = {"sqlite3", "openai", "azure"}

    assert libraries & {"azure", "azurefunctions", "openai", "sqlite3"} <= allowed


@pytest.mark.parametrize("name", APP)
def test_only_the_function_app_sees_the_environment(name: str) -> None:
    sees = bool(imports(name) & {"os", "dotenv"})

    assert sees == (name == "function_app")


# What only a protocol knows; "messages" and the overrides' names are the vocabulary's too.
WIRE_NAMES = {
    "choices",
    "delta",
    "message",
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


# OpenAI's own wire has the same names, and its adapter must know them.
SPEAK = {name for name in APP if name.startswith(("shared.dialects", "shared.models.flavors"))}
# So has AOG's, of whose metadata the providers are, and whose content has its forms.
SPEAK |= {"shared.providers", "shared.models.listed", "shared.models.openai_client"}
SPEAK |= {"shared.models.provider"}


@pytest.mark.parametrize("name", sorted(set(APP) - SPEAK))
def test_the_names_of_the_wire_stand_in_dialects_only(name: str) -> None:
    texts = {node.value for node in ast.walk(tree(name)) if isinstance(node, ast.Constant)}

    assert not texts & WIRE_NAMES


@pytest.mark.parametrize("name", APP)
def test_nothing_is_read_or_opened_at_import(name: str) -> None:
    calls = [
        ast.unparse(node.func)
        for statement in tree(name).body
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    ]
    busy = {"open", "read_text", "read_bytes", "connect", "getenv", "run", "start"}
    found = [call for call in calls if call.rpartition(".")[2] in busy]

    assert found == (["start"] if name == "function_app" else [])


def test_without_settings_no_library_of_a_service_is_loaded() -> None:
    code = "import sys, function_app; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={}, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "azurefunctions" in done.stdout
    unasked = {"openai", "httpx2", "aiohttp", "msal", "opentelemetry.sdk", "yaml"}
    assert not unasked & set(done.stdout.split())
