"""What does a worker do before its first answer? `python -m bench.start`

Starts the app several times over fakes of Azure, with all Azure services in its settings: on the
dev server and, where FUNCTIONS_HOST names one, as for the tests, in a Functions host. Then lists
what the imports take. On a busy machine the processor time and the shares count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from bench.serving.fake_azure import IDENTITY_HEADER
from bench.serving.processes import (
    ROOT,
    SECONDS,
    Fakes,
    copy_app,
    cpu_seconds,
    free_port,
    peak_mib,
    run_fakes,
    run_process,
    wait_until_up,
)
from bench.serving.report import format_table
from tests.support.servers import LAPTOP, WORKER

QUESTION = json.dumps({"messages": [{"role": "user", "content": "May I carry over days?"}]})
IMPORT_TIME = re.compile(r"import time: +(\d+) \| +\d+ \| +(\S+)")
# Becomes a command line that is not Python's.
REPLACE_PROCESS = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


@dataclass(frozen=True, slots=True)
class App:
    """A copy of the app with its settings, and the log of its processes."""

    folder: Path
    settings: Mapping[str, str]
    log: Path


def azure_settings(fakes: Fakes) -> dict[str, str]:
    """The settings of an app that uses every service of Azure."""
    names = ("SEARCH", "OPENAI", "STORAGE", "COSMOS")
    return {
        **{f"AZURE_{name}_ENDPOINT": fakes.endpoint for name in names},
        "AZURE_SEARCH_INDEX": "docs",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
        "IDENTITY_ENDPOINT": f"http://127.0.0.1:{fakes.control}/token",
        "IDENTITY_HEADER": IDENTITY_HEADER,
        "SSL_CERT_FILE": str(fakes.authority),
        **LAPTOP,
        **WORKER,
    }


def request(port: int, method: str, path: str, body: str = "") -> int:
    """Send a request, and read its response. Returns the status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def ask(port: int) -> float:
    """The seconds to the end of an answer."""
    start = time.perf_counter()
    status = request(port, "POST", "/chat/stream", QUESTION)
    if status != 200:
        raise SystemExit(f"The answer has the status {status}.")
    return time.perf_counter() - start


def measure(app: App, command: Sequence[str]) -> dict[str, float]:
    """Start a server and ask it twice: milliseconds, and MiB."""
    port, start = free_port(), time.perf_counter()
    line = [*command, "--port", str(port)]
    with run_process(line, app.folder, app.settings, app.log) as process:
        wait_until_up(process, port, app.log)
        request(port, "HEAD", "/")  # the dev server listens before it has loaded the app
        loaded = time.perf_counter() - start
        first = ask(port)
        used, peak = cpu_seconds(process.pid), peak_mib(process.pid)
        return {
            "start": loaded * 1000,
            "first answer": first * 1000,
            "second answer": ask(port) * 1000,
            "CPU to the first": used * 1000,
            "MiB": peak,
        }


def library(module: str) -> str:
    """The library of a module; a package of Azure by its own name."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[0] == "azure" else parts[:1])


def import_shares(app: App) -> Iterator[tuple[str, str, str]]:
    """The modules of each library, and their share of the time of all imports."""
    log = app.log.with_suffix(".imports")
    command = ["-X", "importtime", "-c", "import function_app"]
    with run_process(command, app.folder, app.settings, log) as process:
        process.communicate()
    modules, times = Counter[str](), Counter[str]()
    for microseconds, module in IMPORT_TIME.findall(log.read_text()):
        modules[library(module)] += 1
        times[library(module)] += int(microseconds)
    yield "library", "modules", "share"
    for name, microseconds in times.most_common():
        if (share := microseconds / times.total()) >= 0.01:
            yield name, str(modules[name]), f"{share:.0%}"
    yield "all", str(modules.total()), "100%"


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is started")
    options = parser.parse_args()
    commands = {"dev server": ["dev_server.py"]}
    if host := os.environ.get("FUNCTIONS_HOST"):
        commands["Functions host"] = ["-c", REPLACE_PROCESS, *shlex.split(host)]
    with tempfile.TemporaryDirectory() as name, run_fakes(Path(name)) as fakes:
        copy = copy_app(ROOT, Path(name) / "app")
        app = App(copy, azure_settings(fakes), Path(name) / "app.log")
        rounds = [[measure(app, line) for line in commands.values()] for _ in range(options.rounds)]
        shares = list(import_shares(app))
    lines: list[tuple[str, ...]] = [("milliseconds", *rounds[0][0])]
    for server, results in zip(commands, zip(*rounds, strict=True), strict=True):
        medians = (median(each[column] for each in results) for column in results[0])
        lines.append((server, *(f"{number:.0f}" for number in medians)))
    print(format_table(lines))
    print(f"\n{format_table(shares)}")


if __name__ == "__main__":
    main()
