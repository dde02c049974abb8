"""The app over real HTTP: streams, clients that leave, every error, limits, keys in no log."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.domain import errors
from tests.support.isolation import app_copy
from tests.support.servers import COMMAND_MODEL, TIMEOUT, Server, asking, ended, run_server, text

ROUTES = ["/chat", "/chat/stream", "/ask"]


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@contextmanager
def stream(client: httpx.Client, *orders: str) -> Iterator[Iterator[Any]]:
    with client.stream("POST", "/chat/stream", json=asking(*orders)) as response:
        assert response.status_code == 200
        yield (json.loads(line) for line in response.iter_lines())


def test_chunks_arrive_one_by_one(client: httpx.Client, server: Server) -> None:
    with server.client() as other, stream(client, "say one", "wait for go", "say two") as lines:
        first, one = next(lines), next(lines)
        other.post("/chat", json=asking("release go"))  # only now can the model go on
        rest = list(lines)

    assert "data_points" in first["context"]
    assert one == {"delta": {"content": "one"}}
    assert [line["delta"].get("content") for line in rest] == ["two", None]


def test_stream_is_chunked_with_its_headers(client: httpx.Client) -> None:
    with client.stream("POST", "/chat/stream", json=asking("say x")) as response:
        data = b"".join(response.iter_raw())

    assert response.headers["content-type"] == "application/jsonl"
    assert response.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in response.headers
    assert response.headers["x-request-id"]
    assert data.endswith(b"}\n")


def test_body_with_input_gets_output_text(client: httpx.Client) -> None:
    whole = client.post("/chat", json={"input": "say x"})
    broken = {"input": [{"role": "user", "content": "say x; fail with outage"}]}
    with client.stream("POST", "/chat/stream", json=broken) as response:
        first, *rest = [json.loads(line) for line in response.iter_lines()]

    assert whole.json()["output_text"] == "x"
    assert response.headers["content-type"] == "application/x-ndjson"
    assert first["type"] == "response.context"
    assert rest == [
        {"type": "response.output_text.delta", "delta": "x"},
        {"error": errors.Unavailable.default},
    ]


async def leave(server: Server, route: str, lines: int, *orders: str) -> None:
    """Ask, read some lines of the answer, and go. Without lines: go while nothing has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(server.url).port)
    body = json.dumps(asking(*orders)).encode()
    head = f"POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    count = 0
    while count < lines:
        line = await reader.readline()
        assert line, "the answer ended"
        count += line.startswith(b"{")
    if not lines:
        await until_open(server, orders[0].removeprefix("open as "))
    writer.close()


async def until_open(server: Server, name: str) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT, trust_env=False) as other:
        async with asyncio.timeout(TIMEOUT):
            while True:
                answer = await other.post("/chat", json=asking(f"report {name}"))
                if text(answer) in ("waiting", "open"):
                    return


LEAVING = [
    pytest.param("/chat/stream", 0, ["open as held-1"], id="before the first event"),
    pytest.param("/chat", 0, ["open as held-2"], id="before the model accepts, not streaming"),
    pytest.param("/chat", 0, ["open as whole", "wait for never"], id="while an answer is made"),
    pytest.param("/chat/stream", 1, ["open as early", "wait for never"], id="after the context"),
    pytest.param("/chat/stream", 2, ["open as mid", "say x", "wait for never"], id="in mid-answer"),
]


@pytest.mark.parametrize(("route", "lines", "orders"), LEAVING)
def test_disconnect_closes_the_model_stream(
    server: Server, client: httpx.Client, route: str, lines: int, orders: list[str]
) -> None:
    name = orders[0].removeprefix("open as ")
    asyncio.run(leave(server, route, lines, *orders))

    assert ended(client, name) == "closed"


def test_fifty_concurrent_streams_are_complete(server: Server) -> None:
    async def one(client: httpx.AsyncClient, starts: list[int]) -> list[Any]:
        body = asking("say a", "wait for all", "say b")
        async with client.stream("POST", "/chat/stream", json=body) as response:
            lines = response.aiter_lines()
            read = [json.loads(await anext(lines)) for _ in range(2)]
            starts.append(1)
            return read + [json.loads(line) async for line in lines]

    async def go() -> list[list[Any]]:
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(
            base_url=server.url, timeout=TIMEOUT, limits=limits, trust_env=False
        ) as client:
            starts: list[int] = []
            streams = [asyncio.create_task(one(client, starts)) for _ in range(50)]
            async with asyncio.timeout(TIMEOUT):
                while len(starts) < 50:
                    await asyncio.sleep(0.01)
            await client.post("/chat", json=asking("release all"))
            return await asyncio.gather(*streams)

    for lines in asyncio.run(go()):
        contents = [line["delta"].get("content") for line in lines]
        assert contents == [None, "a", "b", None]
        assert lines[-1]["context"]["finish_reason"] == "stop"


REFUSALS = [
    ("refuse with content filter", 400, errors.FILTERED_MESSAGE, None),
    ("refuse with too long", 400, errors.TooLong.default, None),
    ("refuse with 429", 429, errors.TooManyRequests.default, "1"),
    ("refuse with 429 after 7", 429, errors.TooManyRequests.default, "7"),
    ("refuse with outage", 503, errors.Unavailable.default, "1"),
    ("refuse with outage after 7", 503, errors.Unavailable.default, "7"),
    ("refuse with misconfigured", 503, errors.Misconfigured.default, None),
    ("refuse with timeout", 504, errors.DeadlineExceeded.default, None),
    ("refuse with bug", 500, errors.UNEXPECTED_MESSAGE, None),
]


def is_error(response: httpx.Response, status: int, sentence: str) -> None:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    assert response.json() == {"error": sentence}


@pytest.mark.parametrize(("order", "status", "sentence", "retry_after"), REFUSALS)
@pytest.mark.parametrize("route", ROUTES)
def test_rejection_keeps_the_connection(
    client: httpx.Client,
    route: str,
    order: str,
    status: int,
    sentence: str,
    retry_after: str | None,
) -> None:
    refused = client.post(route, json=asking(order))

    is_error(refused, status, sentence)
    assert refused.headers.get("retry-after") == retry_after
    assert client.post("/chat", json=asking("say next")).status_code == 200


@pytest.mark.parametrize(("order", "status", "sentence", "retry_after"), REFUSALS)
def test_failure_in_the_stream_is_the_last_line(
    client: httpx.Client, order: str, status: int, sentence: str, retry_after: str | None
) -> None:
    order = order.replace("refuse", "fail")
    with stream(client, "say x", order) as lines:
        read = list(lines)

    assert read[1:] == [{"delta": {"content": "x"}}, {"error": sentence}]
    is_error(client.post("/chat", json=asking("say x", order)), status, sentence)


@pytest.mark.parametrize("route", ROUTES)
def test_finish_reasons_of_a_cut_answer(client: httpx.Client, route: str) -> None:
    flagged = client.post(route, json=asking("say x", "end with content_filter"))
    broken = client.post(route, json=asking("say x", "end with nothing"))
    broke = {"error": "The model's answer broke off. Ask again."}

    if route == "/chat/stream":
        assert json.loads(flagged.text.split("\n")[-2]) == {"error": errors.FILTERED_MESSAGE}
        assert json.loads(broken.text.split("\n")[-2]) == broke
    else:
        is_error(flagged, 400, errors.FILTERED_MESSAGE)
        is_error(broken, 503, broke["error"])


JSON, FORM, MIB = "application/json", "multipart/form-data; boundary=b", 1024 * 1024
BODIES: list[tuple[bytes, str, int, str]] = [
    (b"{", JSON, 400, "The body is not valid JSON (line 1 column 1)."),
    (b"", JSON, 400, "The body is not valid JSON (line 1 column 0)."),
    (b'{"messages": []}', JSON, 400, "messages: must not be empty"),
    (b"question", "text/plain", 415, "The Content-Type is text/plain. Send the request as "),
    (b"x", FORM, 400, "The form cannot be read: it is not valid multipart/form-data."),
    (b" " * (4 * MIB + 1), JSON, 413, "The request is larger than the limit of 4194304 bytes"),
    (b" " * (20 * MIB + 1), FORM, 413, "The request is larger than the limit of 20971520 bytes"),
]


@pytest.mark.parametrize(("body", "media", "status", "sentence"), BODIES, ids=lambda v: str(v)[:30])
@pytest.mark.parametrize("route", ROUTES)
def test_invalid_body_is_rejected_on_every_route(
    server: Server, route: str, body: bytes, media: str, status: int, sentence: str
) -> None:
    with server.client() as client:
        response = client.post(route, content=body, headers={"content-type": media})
        error = response.json()["error"]

        is_error(response, status, error)
        assert error.startswith(sentence)
        assert client.post("/chat", json=asking("say next")).status_code == 200


# On a server of its own: a Functions host may reuse its connection to the worker before it has sent
# the rest of the body, and then the next request on it is lost.
@pytest.mark.parametrize(("megabytes", "media"), [(9, JSON), (21, FORM)], ids=["json", "form"])
def test_body_far_beyond_the_limit_is_rejected(
    kind: str, tmp_path: Path, megabytes: int, media: str
) -> None:
    with run_server(kind, tmp_path, COMMAND_MODEL) as server, server.client() as client:
        body = b" " * (megabytes * MIB)
        response = client.post("/chat", content=body, headers={"content-type": media})

    is_error(response, 413, response.json()["error"])
    assert "is larger than the limit" in response.json()["error"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
def test_wrong_method_is_a_405(client: httpx.Client, route: str, method: str) -> None:
    response = client.request(method, route)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.headers["content-type"] == "application/json"
    assert method == "HEAD" or f"Send POST {route}" in response.json()["error"]


def test_health_lists_the_parts(client: httpx.Client) -> None:
    health = client.get("/health").json()
    details = health.pop("details")

    assert health == {
        "status": "ok",
        "model": "command_model",
        "index": "embedded",
        "files": "folder",
    }
    assert details["index"]["name"] == "samples"
    assert client.head("/health").status_code == 200
    assert client.post("/health").headers["allow"] == "GET, HEAD"


def test_non_ascii_question_is_unchanged(client: httpx.Client) -> None:
    words = "Zażółć gęślą jaźń 漢字 😀 \u2028 end"
    with stream(client, f"say {words}") as lines:
        read = list(lines)

    assert read[1] == {"delta": {"content": words}}


def test_request_id_cannot_inject_into_the_log(client: httpx.Client) -> None:
    headers = {"x-ms-invocation-id": "evil status=200 outcome=ok"}
    got = client.post("/chat", json=asking("say x"), headers=headers)

    assert re.fullmatch(r"[\w-]{36}", got.headers["x-request-id"])


def test_unknown_route_is_a_404(client: httpx.Client) -> None:
    assert client.get("/nothing").status_code == 404


@pytest.mark.parametrize(
    ("person", "answers"),
    [(["--as", "anna", "--groups", "board, hr"], True), (["--as", "ben", "--groups", "it"], False)],
)
def test_rules_of_documents_can_be_tried_as_a_person(
    person: list[str], answers: bool, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    (docs / "hr").mkdir(parents=True)
    (docs / "hr" / "a.md").write_text("Salaries rise by four percent.")
    (docs / "b.md").write_text("Vacation has thirty days.")
    (docs / "acl.yaml").write_text('"hr/**": {groups: [hr]}')
    settings = {"INDEX_FILE": str(tmp_path / "own.db")}
    command = [sys.executable, "-m", "ingest", str(docs)]
    subprocess.run(
        command, cwd=app_copy(), env={**os.environ, **settings}, check=True, capture_output=True
    )
    forged = {"x-ms-client-principal-id": "anna", "X-MS-CLIENT-PRINCIPAL": "eyJ9"}
    question = {"messages": [{"role": "user", "content": "How do salaries rise?"}]}
    line = [sys.executable, "dev_server.py", *person]
    with run_server("dev", tmp_path, settings, line=line) as server, server.client() as client:
        answer = client.post("/chat", json=question, headers=forged).json()
        document = client.get("/content/hr/a.md", headers=forged)

    assert ("four percent" in answer["message"]["content"]) == answers
    assert (document.status_code == 200) == answers
    assert "four percent" not in server.log


def test_unknown_route_on_the_dev_server_names_the_routes(tmp_path: Path) -> None:
    with run_server("dev", tmp_path, {}) as server, server.client() as client:
        wrong, api = client.get("/nothing<b>"), client.post("/api/ask", json=asking("say x"))

    assert wrong.headers["content-type"] == "text/plain; charset=utf-8"
    assert "nothing" not in wrong.text
    assert "There is no such route. These are the routes: /, " in wrong.text
    assert " /chat, /chat/stream, " in wrong.text
    assert "Leave out /api" not in wrong.text
    assert api.text.startswith("Leave out /api. These are the routes: /, ")


def test_unknown_openai_path_is_a_404_in_openais_shape(client: httpx.Client) -> None:
    paths = ["/v1", "/v1/", "/v1/docs", "/openai/v1/x/y", "/openai/deployments/m/embeddings"]
    answers = [client.post(path, json={}) for path in paths]

    assert {(each.status_code, each.json()["error"]["code"]) for each in answers} == {
        (404, "unknown_url")
    }
    assert client.get("/v1/models/command_model").status_code == 200


def test_function_key_is_not_logged(kind: str, tmp_path: Path) -> None:
    with run_server(kind, tmp_path, COMMAND_MODEL) as server:
        with server.client() as client:
            client.post("/chat", json=asking("log requests"))
        with server.client() as client, stream(client, "say x", "wait for go") as held:
            next(held)  # this connection is busy, so the next ones are new: their lines are logged
            with server.client() as other:
                request_id = send_keys(other)

    assert '"POST /chat HTTP/1.1" 500' in server.log  # the web server does write such lines
    assert f"request id={request_id} POST /chat" in server.log
    assert "tests/support/fakes.py" in server.log.replace(
        "\\", "/"
    )  # the bug that was ordered: its stack
    assert "k3y" not in server.log


def send_keys(client: httpx.Client) -> str:
    """Ask every route with keys wherever they may stand; the id of a last, ordinary request."""
    for route in [*ROUTES, "/health", "/nothing"]:
        client.post(
            f"{route}?code=k3y-in-the-query",
            json=asking("say x", "fail with bug"),
            headers={"x-functions-key": "k3y-in-a-header", "authorization": "Bearer k3y-too"},
        )
    return str(client.post("/chat", json=asking("say x", "release go")).headers["x-request-id"])


def test_client_that_stops_reading_is_closed(kind: str, tmp_path: Path) -> None:
    settings = {**COMMAND_MODEL, "ANSWER_TIMEOUT_SECONDS": "1"}
    with (
        run_server(kind, tmp_path, settings) as server,
        server.client() as client,
        socket.create_connection(("127.0.0.1", httpx.URL(server.url).port)) as deaf,
    ):
        body = json.dumps(asking("open as flood", "flood")).encode()
        head = "POST /chat/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        deaf.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

        assert ended(client, "flood") == "closed"


def test_deadline_is_a_504_or_the_last_line(kind: str, tmp_path: Path) -> None:
    settings = {**COMMAND_MODEL, "ANSWER_TIMEOUT_SECONDS": "0.5"}
    with run_server(kind, tmp_path, settings) as server, server.client() as client:
        for route in ("/chat", "/ask"):
            late = client.post(route, json=asking("wait for never"))
            is_error(late, 504, errors.DeadlineExceeded.default)
        is_error(
            client.post("/chat/stream", json=asking("open as held")),
            504,
            errors.DeadlineExceeded.default,
        )
        with stream(client, "say x", "wait for never") as lines:
            assert list(lines)[2:] == [{"error": errors.DeadlineExceeded.default}]


def test_invalid_settings_are_reported(kind: str, tmp_path: Path) -> None:
    settings = {"CHAT_MODEL": "demo", "DEFAULT_TOP": "99"}
    with run_server(kind, tmp_path, settings) as server, server.client() as client:
        for route in ROUTES:
            is_error(client.post(route, json=asking("x")), 503, errors.Misconfigured.default)
        health = client.get("/health")

    assert health.status_code == 503
    assert health.json()["settings"] == ["DEFAULT_TOP must be 50 or less"]
    assert "settings: DEFAULT_TOP must be 50 or less" in server.log
