"""How late are answers while uploads are read? `python -m bench.uploads`

The dev server with the demo model, the sample documents and a search by words. Some clients of one
user ask one question after the other: alone, while another user uploads documents, eight at a time,
and while these are read. The probe is `GET /config`, which does nothing: it waits as long as the
event loop is busy. The clients take a part of the same cores.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from threading import Event

from bench.serving.processes import ROOT, copy_app, free_port, run_process, wait_until_up
from tests.support.servers import LAPTOP, SIGN_IN
from tests.support.uploads import FORM, encode_form

USER = "x-ms-client-principal-id"
HEADERS = {"Content-Type": "application/json", USER: "anna"}
OTHER = {**FORM, USER: "ben", "Prefer": "respond-async"}
QUESTION = json.dumps({"messages": [{"role": "user", "content": "May I carry over days?"}]})
CLIENTS, PAUSE = 3, 0.1  # seconds between an answer and the next question
PROBE_PAUSE = 0.02
UPLOADERS = 8
WORDS = "the of a plan day leave travel invoice badge office pay year form manager claim".split()


def make_document(number: int, words: int) -> bytes:
    """Return the text of a document: sections of 200 words."""
    chance = random.Random(number)
    texts = (" ".join(chance.choices(WORDS, k=200)) for _ in range(words // 200))
    sections = (f"# Section {n} of {number}\n\n{text}." for n, text in enumerate(texts))
    return "\n\n".join(sections).encode()


@contextmanager
def run_app(folder: Path) -> Iterator[int]:
    """Run the app over its samples; its port."""
    app, port, log = copy_app(ROOT, folder / "app"), free_port(), folder / "app.log"
    shutil.copytree(ROOT / "ingest", app / "ingest")
    settings = {
        **LAPTOP,
        **SIGN_IN,
        "INDEX_FILE": "samples",
        "CHAT_MODEL": "demo",
        "EMBEDDINGS": "off",
        "UPLOADS": "on",
        "UPLOADS_FOLDER": str(folder / "uploads"),
        "MAX_UPLOADS": "10000",
        "MAX_UPLOADS_PER_DAY": "10000",
    }
    with run_process(["dev_server.py", "--port", str(port)], app, settings, log) as process:
        wait_until_up(process, port, log)
        yield port


def connect(port: int) -> HTTPConnection:
    """Return a connection to the app."""
    return HTTPConnection("127.0.0.1", port, timeout=300)


def ask(connection: HTTPConnection) -> float:
    """Return the seconds to the first token of an answer."""
    start, first = time.monotonic(), 0.0
    connection.request("POST", "/chat/stream", QUESTION, HEADERS)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    for line in response:
        if not first and json.loads(line).get("delta", {}).get("content"):
            first = time.monotonic()
    assert first, "the answer has no token"
    return first - start


def probe(connection: HTTPConnection) -> float:
    """Return the seconds of a request that does nothing."""
    start = time.monotonic()
    connection.request("GET", "/config")
    connection.getresponse().read()
    return time.monotonic() - start


class Load:
    """Clients that do the same again and again, each with its connection, until the block ends."""

    def __init__(
        self, port: int, work: Callable[[HTTPConnection], float], clients: int, pause: float
    ) -> None:
        self.port, self.work, self.pause = port, work, pause
        self.milliseconds: list[float] = []
        self._stop, self._clients = Event(), clients
        self._threads = ThreadPoolExecutor(clients)

    def _run(self) -> None:
        connection = connect(self.port)
        while True:  # once at least
            self.milliseconds.append(self.work(connection) * 1000)
            if self._stop.wait(self.pause):
                break
        connection.close()

    def __enter__(self) -> Load:
        self._runs = [self._threads.submit(self._run) for _ in range(self._clients)]
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        with self._threads:
            for run in self._runs:
                run.result()  # raises what ended a client


def upload_all(port: int, words: int, count: int) -> None:
    """Upload documents, several at a time."""
    documents = [(f"{number}.md", make_document(number, words)) for number in range(count)]

    def upload(document: tuple[str, bytes]) -> None:
        connection = connect(port)
        connection.request("POST", "/upload", encode_form(document), OTHER)
        response = connection.getresponse()
        assert response.status == 202, response.read()
        connection.close()

    with ThreadPoolExecutor(UPLOADERS) as pool:
        list(pool.map(upload, documents))


def wait_until_read(port: int) -> None:
    """Wait until all documents are read."""
    connection = connect(port)
    while True:
        connection.request("GET", "/uploads", headers={USER: "ben"})
        uploads = json.load(connection.getresponse())["uploads"]
        states = {each["state"] for each in uploads}
        assert "failed" not in states
        if states == {"ready"}:
            break
        time.sleep(1)
    connection.close()


def measure(port: int, work: Callable[[], None]) -> tuple[Sequence[float], Sequence[float], float]:
    """Measure while some work lasts: milliseconds to tokens and of probes, and its seconds."""
    start = time.monotonic()
    with Load(port, ask, CLIENTS, PAUSE) as questions, Load(port, probe, 1, PROBE_PAUSE) as probes:
        work()
    return questions.milliseconds, probes.milliseconds, time.monotonic() - start


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of values is below."""
    return sorted(values)[int(len(values) * share)]


def row(name: str, questions: Sequence[float], probes: Sequence[float], seconds: float) -> str:
    """Format a line: medians and high percentiles."""
    columns = (
        seconds,
        statistics.median(questions),
        percentile(questions, 0.95),
        statistics.median(probes),
        percentile(probes, 0.99),
        max(probes),
    )
    return f"{name:<16}" + "".join(f"{each:>11.1f}" for each in columns)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.uploads", description=__doc__)
    parser.add_argument("--uploads", type=int, default=200)
    parser.add_argument("--words", type=int, default=4000, help="of a document")
    parser.add_argument("--seconds", type=float, default=30, help="of the clients alone")
    options = parser.parse_args()
    titles = ("seconds", "token p50", "token p95", "probe p50", "probe p99", "probe max")
    print(f"{'milliseconds':<16}" + "".join(f"{title:>11}" for title in titles))

    with tempfile.TemporaryDirectory() as folder, run_app(Path(folder)) as port:
        measure(port, partial(time.sleep, 1))  # to warm up
        print(row("alone", *measure(port, partial(time.sleep, options.seconds))), flush=True)

        # In a process of its own: it would hold up the clients here.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            sending = partial(upload_all, port, options.words, options.uploads)
            figures = measure(port, lambda: process.submit(sending).result())
        print(row(f"{options.uploads} uploads", *figures), flush=True)
        print(row("reading them", *measure(port, partial(wait_until_read, port))), flush=True)


if __name__ == "__main__":
    main()
