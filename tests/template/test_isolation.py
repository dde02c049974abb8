"""The tests do not depend on the developer's settings, index, memory and environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import ROOT, TIMEOUT
from tests.support.terminal import MAKE, script

# Servers, a service in this process, `make run`, `make index`, and a separate program.
TESTS = (
    "tests/e2e/test_servers.py::test_health_lists_the_parts",
    "tests/integration/test_health.py::test_model_check_lists_models",
    "tests/e2e/test_readme.py::test_command_blocks_run_in_sequence",
    "tests/e2e/test_newcomer.py::test_run_fakes_serves_the_azure_adapters",
)
NOT_COPIED = (".[!p]*", "__pycache__", "node_modules", "local.settings.json", "*.db*")
SETTINGS = {
    "AZURE_COSMOS_ENDPOINT": "https://127.0.0.1:9",
    "AZURE_SEARCH_ENDPOINT": "https://127.0.0.1:9",
    "CHAT_API_KEY": "hostile",
    "DEFAULT_TOP": "99",
    "MEMORY_FILE": "memory.db",
    "MODEL_PROVIDERS": "[",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "WEBSITE_AUTH_ENABLED": "true",
}
ENVIRONMENT = SETTINGS | {
    "APPLICATIONINSIGHTS_CONNECTION_STRING": "hostile",
    "ALL_PROXY": "http://127.0.0.1:9",
    "CODESPACES": "true",
    "CONTAINER_NAME": "hostile",
    "FUNC": "hostile",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "IDENTITY_ENDPOINT": "http://127.0.0.1:9",
    "INDEX_FILE": "index.db",
    "OTEL_SDK_DISABLED": "hostile",
    "PORT": "1",
}

pytestmark = pytest.mark.skipif(os.name == "nt" or not MAKE, reason="needs make and a shell")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A clone with settings, index and memory that would break tests that read them."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*NOT_COPIED))
    script(clone / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
    for stamp in (".made", ".dev"):
        (clone / ".venv" / stamp).touch()
    local = {"Values": SETTINGS, "Host": {"CORS": "*"}}
    (clone / "local.settings.json").write_text(json.dumps(local))
    for name in ("index.db", "memory.db"):
        (clone / name).write_text("garbage")
    return clone


def test_make_test_passes_with_hostile_settings(hostile: Path) -> None:
    command = [MAKE, "test-all", f"ARGS=--durations=5 {' '.join(TESTS)}"]
    done = subprocess.run(
        command,
        cwd=hostile,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "slowest 5 durations" in done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
    assert (hostile / "index.db").read_text() == (hostile / "memory.db").read_text() == "garbage"
