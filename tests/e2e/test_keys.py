"""Function keys: every route with a key, without, and with a wrong one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from shared.app import ROUTES
from shared.protocols.openai.files import PREFIXES as FILE_PREFIXES
from shared.protocols.openai.responses.routes import PREFIXES as RESPONSES
from shared.protocols.openai.routes import CHATS, LISTS, ONES, OTHERS
from shared.protocols.opensearch.routes import HANDLERS as OPENSEARCH
from tests.support.servers import COMMAND_MODEL, HOSTS, Server, command, run_server

KEY = "the-k3y"
OPTIONS = ("--enable-auth", "--key", KEY)
CITED = "/content/plans/northwind_health_plus.pdf"
QUESTION = {"messages": [{"role": "user", "content": "say yes"}], "input": "say yes"}
# A request for every route; the body of a POST is the question, unless there is another here.
BODIES = {
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    "/feedback": {"request_id": "x", "rating": "up"},
    "/api/chat": {"messages": [{"role": "user", "parts": [{"type": "text", "text": "say Yes"}]}]},
}
PAGE = ("/", "/page/{path}", "/config", "/auth_setup")
FILES = {
    path: path.replace("{id}", "upload-1")
    for prefix in FILE_PREFIXES
    for path in (prefix, f"{prefix}/{{id}}")
}
STORED = {
    f"{route}{path}": method
    for route in RESPONSES
    for path, method in (("/{id}", "GET"), ("/{id}/input_items", "GET"), ("/{id}/cancel", "POST"))
}
CALLS = {
    "/chat": ("POST", "/chat"),
    "/chat/stream": ("POST", "/chat/stream"),
    "/ask": ("POST", "/ask"),
    "/api/chat": ("POST", "/api/chat"),
    "/api/chat/{id}/stream": ("GET", "/api/chat/1/stream"),
    "/api/openapi.json": ("GET", "/api/openapi.json"),
    "/health": ("GET", "/health"),
    "/feedback": ("POST", "/feedback"),
    "/feedback/copies/{id}": ("DELETE", f"/feedback/copies/{'0' * 32}"),
    "/feedback/conversations/{id}": ("GET", "/feedback/conversations/x"),
    "/upload": ("POST", "/upload"),
    "/list_uploaded": ("GET", "/list_uploaded"),
    "/delete_uploaded": ("POST", "/delete_uploaded"),
    "/uploads": ("GET", "/uploads"),
    "/uploads/{id}": ("DELETE", "/uploads/upload-1"),
    "/content/{path}": ("GET", CITED),
    "/page/{path}": ("GET", "/page/app.js"),
    "/config": ("GET", "/config"),
    "/auth_setup": ("GET", "/auth_setup"),
    "/aog/v0.2/services/{service}": ("POST", "/aog/v0.2/services/chat"),
    "/aog/v0.2/service": ("GET", "/aog/v0.2/service"),
    "/aog/v0.2/service_provider": ("GET", "/aog/v0.2/service_provider"),
    "/aog/{*path}": ("GET", "/aog/v0.1/service"),
    "/mcp": ("POST", "/mcp"),
    **{route: ("POST", route.replace("{deployment}", "command_model")) for route in CHATS},
    **{route: ("GET", route) for route in LISTS},
    **{route: ("GET", route.replace("{*id}", "command_model")) for route in ONES},
    **{route: ("POST", route.replace("{*path}", "embeddings")) for route in OTHERS},
    **{route: ("GET", path) for route, path in FILES.items()},
    **{route: ("POST", route) for route in RESPONSES},
    **{route: (method, route.replace("{id}", "resp_1")) for route, method in STORED.items()},
    **{
        route: (next(iter(methods)), re.sub(r"\{\*?\w+\}", "x", route))
        for route, methods in OPENSEARCH.items()
    },
}
# Health checks, the page, and routes of OpenAI's clients, which have a key of the app.
OPEN = {"/health", *PAGE, *CHATS, *LISTS, *ONES, *RESPONSES}
GUARDED = sorted(CALLS.keys() - OPEN - STORED.keys() - {*OTHERS, *FILES})
# Nothing is there: 404, or 400.
# Which the host does not take.
UPLOADS = ("/upload", "/list_uploaded", "/delete_uploaded", "/uploads", "/uploads/{id}")
EMPTY = {
    *(*OPENSEARCH, *OTHERS, *STORED, *UPLOADS, *FILES, "/aog/{*path}"),
    *("/feedback/copies/{id}", "/feedback/conversations/{id}"),
}


def host_supports_keys() -> bool:
    """Whether a host with configurable keys is available; Core Tools is not."""
    if "functions" not in HOSTS:
        return False
    result = subprocess.run(
        [*command("functions"), "--help"], capture_output=True, text=True, timeout=60
    )
    return all(option in result.stdout for option in OPTIONS if option.startswith("--"))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app on a host that requires keys."""
    if not host_supports_keys():
        pytest.skip("FUNCTIONS_HOST names no host that can be given a key")
    folder = tmp_path_factory.mktemp("keys")
    line = [*command("functions"), *OPTIONS]
    with run_server("functions", folder, COMMAND_MODEL, line=line) as running:
        yield running


def send(server: Server, route: str, query: str = "", **headers: str) -> httpx.Response:
    method, path = CALLS[route]
    body = BODIES.get(route, QUESTION) if method == "POST" else None
    with server.client() as client:
        return client.request(method, path + query, json=body, headers=headers)


def test_every_route_is_covered() -> None:
    assert CALLS.keys() == ROUTES.keys()


@pytest.mark.parametrize("route", GUARDED)
def test_missing_or_wrong_key_is_a_401(host: Server, route: str) -> None:
    for answer in (
        send(host, route),
        send(host, route, **{"x-functions-key": "wrong"}),
        send(host, route, query="?code=wrong"),
    ):
        assert (answer.status_code, answer.content) == (401, b"")


@pytest.mark.parametrize("route", sorted(CALLS))
def test_route_answers_with_the_key(host: Server, route: str) -> None:
    for answer in (
        send(host, route, **{"x-functions-key": KEY}),
        send(host, route, query=f"?code={KEY}"),
    ):
        assert answer.is_success or route in EMPTY
        assert "x-request-id" in answer.headers  # any response of the app


@pytest.mark.parametrize("route", sorted(OPEN))
def test_anonymous_route_answers_without_a_key(host: Server, route: str) -> None:
    assert send(host, route).status_code == 200
    assert send(host, route, **{"x-functions-key": "wrong"}).status_code == 200


def test_log_has_no_key(host: Server) -> None:
    send(host, "/chat", query=f"?code={KEY}", **{"x-functions-key": KEY})

    assert "POST /chat " in host.log
    assert KEY not in host.log
