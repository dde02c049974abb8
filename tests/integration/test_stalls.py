"""No request holds up the others: a second client is answered while the worst ones are served."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import httpx
import pytest

from tests.support.retrievers import passage, write_file
from tests.support.servers import COMMAND_MODEL, TIMEOUT, Server, run_server
from tests.support.upstream import run_upstream
from tests.support.worst_requests import (
    BOOK,
    WorstRequest,
    chats,
    headers,
    mcp,
    responses,
    searches,
)

STALL = 8.0  # seconds: what held up the worker took 77; a busy machine takes about one
PAUSE = 0.05  # seconds between two questions of the second client


@pytest.fixture(scope="module")
def patient(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The app with a memory, and a model that takes long prompts: a script, or OpenAI's SDK.

    "book": with a script, and an index of one document.
    """
    folder = tmp_path_factory.mktemp("stalls")
    with run_upstream() as model:
        openai = {
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_CHAT_MODEL": "m",
            "MAX_PROMPT_TOKENS": "10000000",
        }
        settings = {**(openai if request.param == "openai" else COMMAND_MODEL)}
        settings["MEMORY_FILE"] = str(folder / "memory.db")
        if request.param == "book":
            pages = [passage(BOOK, page, "1") for page in range(1, 5001)]
            settings["INDEX_FILE"] = str(write_file(pages, folder))
        with run_server(kind, folder, settings) as running:
            yield running


def longest_wait(server: Server, request: WorstRequest) -> tuple[int, float]:
    """The status of a request, and how many seconds another client waited at most meanwhile."""
    done, waits = threading.Event(), list[float]()
    url = httpx.URL(server.url)

    def ask() -> None:
        connection = HTTPConnection(url.host, url.port or 80, timeout=TIMEOUT)
        while not done.is_set():
            start = time.monotonic()
            connection.request("HEAD", "/health")
            connection.getresponse().read()
            waits.append(time.monotonic() - start)
            time.sleep(PAUSE)
        connection.close()

    second = threading.Thread(target=ask)
    second.start()
    try:
        while not waits:
            time.sleep(PAUSE)
        return send(server, request), max(waits)
    finally:
        done.set()
        second.join()


def send(server: Server, request: WorstRequest) -> int:
    """The status of a request, its answer read to the end."""
    with server.client() as client:
        answer = client.request(
            request.method, request.path, content=request.content, headers=request.all_headers
        )
    return answer.status_code


@pytest.mark.parametrize(
    ("patient", "requests"),
    [
        ("scripted", chats),
        ("openai", chats),
        ("scripted", responses),
        ("openai", responses),
        ("scripted", searches),
        ("scripted", headers),
        ("book", mcp),
    ],
    indirect=["patient"],
)
def test_nobody_waits_for_another_clients_request(
    patient: Server, requests: Callable[[], Iterator[WorstRequest]]
) -> None:
    results = {request.name: longest_wait(patient, request) for request in requests()}
    slow = {name: wait for name, (_, wait) in results.items() if wait > STALL}
    broken = {name: status for name, (status, _) in results.items() if status >= 500}

    assert slow == {}
    assert broken == {}
