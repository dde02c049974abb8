"""Authentication to Azure: managed identity, azd and az, and cached tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx
import pytest

from tests.support.azure_cli import AZ, write_cli
from tests.support.calls import QUESTION
from tests.support.servers import ROOT, TIMEOUT, Server, run_server
from tests.support.upstream import Upstream, error_response, run_upstream

AZD = {"token": "token-of-azd", "expiresOn": "2099-01-01T00:00:00Z"}


@pytest.fixture
def model() -> Iterator[Upstream]:
    with run_upstream() as running:
        yield running


def azure(model: Upstream, folder: Path, **more: str) -> dict[str, str]:
    return {
        "AZURE_OPENAI_ENDPOINT": f"{model.url}/",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
        "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        **more,
    }


def ask(server: Server, times: int = 1) -> httpx.Response:
    with server.client() as client:
        for _ in range(times):
            response = client.post("/chat", json=QUESTION)
    return response


def test_az_token_is_requested_once(kind: str, model: Upstream, tmp_path: Path) -> None:
    write_cli(tmp_path, "azd", None)
    calls = write_cli(tmp_path, "az", AZ)
    with run_server(kind, tmp_path, azure(model, tmp_path)) as server:
        response = ask(server, times=3)

    assert response.status_code == 200
    assert [each.headers["authorization"] for each in model.requests] == ["Bearer token-of-az"] * 3
    assert {each.path for each in model.requests} == {"/openai/v1/chat/completions"}
    assert {each.body["model"] for each in model.requests} == {"chat"}
    assert len(calls.read_text().splitlines()) == 1
    assert "https://cognitiveservices.azure.com" in calls.read_text()


def test_azd_precedes_az(model: Upstream, tmp_path: Path) -> None:
    write_cli(tmp_path, "azd", AZD)
    calls = write_cli(tmp_path, "az", AZ)
    with run_server("dev", tmp_path, azure(model, tmp_path)) as server:
        ask(server)

    assert model.requests[0].headers["authorization"] == "Bearer token-of-azd"
    assert not calls.exists()


def test_az_is_tried_after_a_failing_azd(model: Upstream, tmp_path: Path) -> None:
    write_cli(tmp_path, "azd", None)
    script = tmp_path / "azd"
    script.write_text("#!/bin/sh\necho 'AADSTS70043: the refresh token has expired' >&2; exit 1\n")
    write_cli(tmp_path, "az", AZ)
    with run_server("dev", tmp_path, azure(model, tmp_path)) as server:
        response = ask(server)

    assert response.status_code == 200
    assert model.requests[0].headers["authorization"] == "Bearer token-of-az"


def test_unreachable_identity_endpoint_is_misconfigured(model: Upstream, tmp_path: Path) -> None:
    more = {"IDENTITY_ENDPOINT": "http://127.0.0.1:9/token", "IDENTITY_HEADER": "h"}
    with run_server("dev", tmp_path, azure(model, tmp_path, **more)) as server:
        response = ask(server)

    assert response.status_code == 503
    assert "Misconfigured: identity: " in server.log


def test_error_without_identity_names_the_commands(model: Upstream, tmp_path: Path) -> None:
    write_cli(tmp_path, "azd", None)
    write_cli(tmp_path, "az", None)
    with run_server("dev", tmp_path, azure(model, tmp_path)) as server:
        response = ask(server)

    assert response.status_code == 503
    assert "run `azd auth login` or `az login`" in response.json()["error"]
    assert f"request id={response.headers['x-request-id']} Misconfigured: identity: " in server.log
    assert model.requests == []


class Platform(BaseHTTPRequestHandler):
    """The identity endpoint of the platform."""

    requests: list[tuple[dict[str, list[str]], str]]

    def do_GET(self) -> None:
        query = parse_qs(urlparse(self.path).query)
        self.requests.append((query, self.headers["X-IDENTITY-HEADER"]))
        token = {"access_token": "token-of-the-platform", "expires_on": "4070908800"}
        # The SDK caches the token for the resource that the response names.
        named = {"resource": query["resource"][0], "token_type": "Bearer"}
        data = json.dumps(token | named).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def platform() -> Iterator[tuple[str, list[tuple[dict[str, list[str]], str]]]]:
    requests: list[tuple[dict[str, list[str]], str]] = []
    handler = type("Made", (Platform,), {"requests": requests})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", requests
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("client_id", ["", "11111111-2222-3333-4444-555555555555"])
def test_managed_identity_token_is_requested_once(
    model: Upstream, tmp_path: Path, client_id: str
) -> None:
    with platform() as (address, requests):
        more = {"IDENTITY_ENDPOINT": address, "IDENTITY_HEADER": "h", "AZURE_CLIENT_ID": client_id}
        with run_server("dev", tmp_path, azure(model, tmp_path, **more)) as server:
            response = ask(server, times=3)
    ((query, header),) = requests

    assert response.status_code == 200
    assert model.requests[0].headers["authorization"] == "Bearer token-of-the-platform"
    assert header == "h"
    assert query["resource"] == ["https://cognitiveservices.azure.com"]
    assert query.get("client_id", [""]) == [client_id]


def test_cli_is_not_called_before_a_question(model: Upstream, tmp_path: Path) -> None:
    calls = write_cli(tmp_path, "az", AZ)
    with (
        run_server("dev", tmp_path, azure(model, tmp_path)) as server,
        server.client() as client,
    ):
        assert client.get("/").status_code == 200
        time.sleep(0.5)

    assert not calls.exists()


@pytest.mark.parametrize("status", [401, 403])
def test_log_names_the_role_that_a_rejected_identity_lacks(
    model: Upstream, tmp_path: Path, status: int
) -> None:
    write_cli(tmp_path, "az", AZ)
    model.plan = [error_response(status)]
    with run_server("dev", tmp_path, azure(model, tmp_path)) as server:
        response = ask(server)

    assert response.status_code == 503
    assert "have the role Cognitive Services OpenAI User on it?" in server.log
    assert "Cognitive Services" not in response.text


# As the worker of Functions does: it loads the app in its event loop.
LOAD_IN_A_LOOP = """
import asyncio, logging

async def load():
    logging.basicConfig(level=logging.INFO)
    import function_app
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

asyncio.run(load())
"""


def load_in_a_loop(identity_endpoint: str) -> str:
    """Load the app with all that it begins in the background. Returns its log."""
    settings = {
        "AZURE_SEARCH_ENDPOINT": "https://127.0.0.1:9",
        "AZURE_SEARCH_INDEX": "docs",
        "AZURE_OPENAI_ENDPOINT": "https://127.0.0.1:9",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
        "IDENTITY_ENDPOINT": identity_endpoint,
        "IDENTITY_HEADER": "h",
    }
    command = [sys.executable, "-c", LOAD_IN_A_LOOP]
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_tokens_are_requested_before_the_first_question() -> None:
    with platform() as (address, requests):
        load_in_a_loop(address)

    resources = sorted(resource for query, _ in requests for resource in query["resource"])
    assert resources == ["https://cognitiveservices.azure.com", "https://search.azure.com"]


def test_app_starts_without_a_token() -> None:
    (line,) = load_in_a_loop("http://127.0.0.1:9/token").splitlines()

    assert line.startswith("INFO:chat:start: model=chat ")


def test_log_has_no_token_and_no_key(model: Upstream, tmp_path: Path) -> None:
    write_cli(tmp_path, "azd", AZD)
    settings = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_CHAT_MODEL": "m"}
    with run_server("dev", tmp_path, azure(model, tmp_path)) as server:
        ask(server)
        first = server.log
    with run_server("dev", tmp_path, {**settings, "OPENAI_API_KEY": "s3cret"}) as server:
        ask(server)

    assert model.requests[1].headers["authorization"] == "Bearer s3cret"
    assert "token-of-azd" not in first
    assert "s3cret" not in server.log
