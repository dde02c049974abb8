"""Schemathesis calls every route by the OpenAPI document, over a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import openapi_hooks
from tests.support.servers import COMMAND_MODEL, HOSTS, ROOT, Server, run_server

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
OPTIONS = (
    *("--checks", ",".join(CHECKS)),
    *("--phases", "examples,coverage,fuzzing"),
    *("--max-examples", "20"),
    *("--seed", "1"),
    *("--generation-database", "none"),
    *("--request-timeout", "60"),
    "--continue-on-failure",
    "--no-color",
)
HOOKS = openapi_hooks.__name__
TIMEOUT = 1200.0  # seconds; only a hang takes so long


@pytest.fixture(scope="module", params=HOSTS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The app with a folder of its own for what it stores."""
    folder = tmp_path_factory.mktemp("openapi")
    memory = {"MEMORY_FILE": str(folder / "memory.db")}
    with run_server(request.param, folder, COMMAND_MODEL | memory) as running:
        yield running


@pytest.mark.slow
def test_app_keeps_what_its_document_says(server: Server, tmp_path: Path) -> None:
    """No request that the document allows is a 500 or has an undocumented status, and no wrong
    type or range of a declared field is a success."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", *OPTIONS]
    done = subprocess.run(
        [*command, f"{server.url}/api/openapi.json"],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    statuses = Counter(re.findall(r" status=(\d+) ", server.log))

    assert done.returncode == 0, done.stdout[-10_000:]
    assert statuses["200"] > 100
    assert statuses["400"] > 1000


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc"])
def test_web_server_of_the_worker_shows_no_document_of_its_own(server: Server, path: str) -> None:
    """Those of its framework: they would list one route that takes everything."""
    with server.client() as client:
        assert client.get(path).status_code == 404
