"""Does the app start for somebody who has just cloned it, and does it say what is missing?"""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest

from tests.support.terminal import (
    LEFT_OUT,
    MAKE,
    PATIENCE,
    address,
    control_c,
    environment,
    script,
    started,
    until,
)

ROOT = Path(__file__).parent.parent.parent
SERVE = (sys.executable, "dev_server.py", "--port", "0")

# A host that takes a moment to stop, then ends with the status that it was given.
HOST = """
import signal, sys, time
def stop(*_):
    time.sleep(0.3)
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGINT, stop)
print("up", flush=True)
time.sleep(60)
"""

SAMPLE = json.loads((ROOT / "local.settings.sample.json").read_text("utf-8"))
ORIGINS = "Pages of these origins may call (Host.CORS in local.settings.json): " + str(
    SAMPLE["Host"]["CORS"]
)

needs_make = pytest.mark.skipif(not MAKE, reason="there is no make on this machine")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no sh and another Ctrl+C")


def core_tools(folder: Path, *lines: str, version: str = "4.13.0") -> None:
    """Write a `func` that prints its version, or else runs the lines."""
    script(folder / "func", f'if [ "$1" = --version ]; then echo "{version}"; exit; fi', *lines)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project as cloned, in a folder whose name has a space."""
    folder = tmp_path / "my app"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return folder


@pytest.fixture
def installed(clone: Path) -> Path:
    """A clone whose .venv is there: its Python is the one that runs these tests."""
    script(clone / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
    (clone / ".venv/.made").touch()
    (clone / ".venv/.run").touch()
    return clone


def make(folder: Path, env: dict[str, str], *goals: str) -> subprocess.CompletedProcess[str]:
    """Run make to its end."""
    command = [MAKE, *goals]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE
    )


@contextmanager
def taken_port() -> Generator[int]:
    """A port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_dev_server_stops_on_control_c(clone: Path) -> None:
    with started(*SERVE, folder=clone, env=environment()) as process:
        address(process)
        output = control_c(process)

        assert output.splitlines()[-1] == "Stopped."
        assert "Traceback" not in output
        assert process.returncode == 0


def test_dev_server_prints_what_answers_and_where_in_five_lines(clone: Path) -> None:
    with started(*SERVE, folder=clone, env=environment()) as process:
        until(process, "INFO start: ")
        rest = [until(process, "").strip() for _ in range(5)]
        address = rest[2].removeprefix("Health: ")
        httpx.head(address, timeout=PATIENCE, trust_env=False)  # it listens for Ctrl+C now
        output = control_c(process)

    names = [line.partition(":")[0] for line in rest]
    assert names == ["Page", "Chat", "Health", "Docs", "Not imitated"]
    assert rest[1].startswith("Chat: POST http://localhost:")
    assert [line for line in output.splitlines() if " HEAD /health " not in line] == ["Stopped."]


def test_dev_server_returns_404_for_unknown_routes_and_methods(
    clone: Path,
) -> None:
    with started(*SERVE, folder=clone, env=environment()) as process:
        base = address(process)
        with httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False) as client:
            answers = [client.get("/nowhere"), client.request("QUERY", "/chat")]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert all("There is no such route." in answer.text for answer in answers)


def test_dev_server_logs_no_key_of_the_query(clone: Path) -> None:
    with started(*SERVE, folder=clone, env=environment()) as process:
        httpx.get(f"{address(process)}/health?code=hush", timeout=PATIENCE, trust_env=False)
        process.terminate()
        output = process.communicate(timeout=PATIENCE)[0]

        assert output.count(" GET /health ") == 2
        assert "hush" not in output


def dev_server(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the dev server to its end."""
    return subprocess.run(
        [sys.executable, "dev_server.py", *arguments],
        cwd=clone,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_run_fakes_serves_the_azure_adapters() -> None:
    command = (sys.executable, "-m", "tests.support.run_fakes", "--port", "0")
    question = {"messages": [{"role": "user", "content": "How many vacation days do I get?"}]}
    with started(*command, folder=ROOT, env=environment()) as process:
        with httpx.Client(base_url=address(process), timeout=PATIENCE, trust_env=False) as client:
            parts = client.get("/health").json()
            index = parts.pop("details")["index"]
            answer = client.post("/chat", json=question).json()["message"]["content"]
        output = control_c(process)

    assert parts == {
        "status": "ok",
        "model": "chat",
        "index": "Azure AI Search",
        "memory": "Azure Cosmos DB",
        "vectors": "embedding",
    }
    samples = (ROOT / "shared" / "data" / "samples.jsonl").read_text("utf-8")
    assert index == {
        "name": "docs",
        "passages": len(samples.splitlines()),
        "search": "words and vectors",
    }
    assert "20 days of paid vacation a year. [company/employee_handbook.md]" in answer
    assert output.splitlines()[-1] == "Stopped."
    assert "Traceback" not in output


def test_run_fakes_answers_clients_of_openai() -> None:
    command = (sys.executable, "-m", "tests.support.run_fakes", "--port", "0")
    text = "How many vacation days do I get?"
    question: Any = {"role": "user", "content": text}
    parts: Any = {"role": "user", "content": [{"type": "text", "text": text}]}
    instructions: Any = {"role": "system", "content": "Be brief."}
    earlier: Any = {"role": "assistant", "content": "20 days [doc1]."}
    with started(*command, folder=ROOT, env=environment()) as process:
        search = until(process, "  search https://").split()[1]
        base = address(process)
        source = {"type": "azure_search", "parameters": {"endpoint": search, "index_name": "docs"}}
        with httpx2.Client(trust_env=False) as http:
            options: Any = {"api_key": "none", "max_retries": 0, "http_client": http}
            plain: Any = openai.OpenAI(base_url=f"{base}/v1", **options)
            azure: Any = openai.AzureOpenAI(azure_endpoint=base, api_version="1", **options)
            create = plain.chat.completions.create
            answers = [
                create(model="chat", messages=[instructions, question], frequency_penalty=0.5),
                create(model="chat", messages=[parts]),
                create(model="chat", messages=[question, earlier, question]),
                azure.chat.completions.create(
                    model="gpt-4o", messages=[question], extra_body={"data_sources": [source]}
                ),
            ]
            chunks = list(create(model="chat", messages=[question], stream=True))
        control_c(process)
    texts = [answer.choices[0].message.content for answer in answers]
    texts.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))

    assert [text for text in texts if "20 days of paid vacation a year. [doc" not in text] == []
    assert {answer.model for answer in answers} == {"chat"}


def test_invalid_port_is_one_sentence(clone: Path) -> None:
    ended = dev_server(clone, "--port", "99999")

    assert ended.stderr == "Port 99999 cannot be used: try `make run PORT=40000`.\n"


def test_misspelt_local_setting_is_named_beside_what_it_breaks(clone: Path) -> None:
    values = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_CHAT_MODLE": "llama"}
    (clone / "local.settings.json").write_text(json.dumps({"Values": values}))
    with started(*SERVE, folder=clone, env=environment()) as process:
        warning = until(process, "WARNING")
        error = until(process, "ERROR")

    assert "OPENAI_CHAT_MODLE is not a setting of this app: did you mean" in warning
    assert "OPENAI_CHAT_MODEL is required with OPENAI_BASE_URL" in error


def test_local_settings_with_numbers_and_invalid_json(clone: Path) -> None:
    (clone / "local.settings.json").write_text('{"Values": {"DEFAULT_TOP": 5}}')
    with started(*SERVE, folder=clone, env=environment()) as process:
        address(process)
    (clone / "local.settings.json").write_text('{"Values": {},}')
    ended = dev_server(clone, "--port", "0")

    assert ended.stderr.startswith("local.settings.json is not valid JSON: ")
    assert len(ended.stderr.splitlines()) == 1


def test_invalid_host_json_is_one_sentence(clone: Path) -> None:
    host = clone / "host.json"
    original = host.read_text("utf-8")
    host.write_text("{")
    try:
        ended = dev_server(clone, "--port", "0")
    finally:
        host.write_text(original, "utf-8")

    assert ended.stderr.startswith("host.json is not valid JSON: ")
    assert len(ended.stderr.splitlines()) == 1


def test_port_in_use_is_one_sentence(clone: Path) -> None:
    with taken_port() as port:
        ended = subprocess.run(
            [sys.executable, "dev_server.py", "--port", str(port)],
            cwd=clone,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    assert ended.stderr == f"Port {port} is in use: try `make run PORT={port + 1}`.\n"
    assert ended.returncode == 1


@needs_make
def test_make_lists_the_targets(clone: Path) -> None:
    ended = make(clone, environment())

    commands = [line.split()[1] for line in ended.stdout.splitlines()]
    tests = ["test", "test-all", "test-browser", "test-model", "test-front-ends", "test-removal"]
    tests += ["mutants", "eval", "eval-questions", "eval-feedback", "eval-safety", "bench", "soak"]
    others = ["check", "samples", "rename", "parts", "remove", "keep", "lock"]
    first = ["help", "run", "index", "knowledge-base", "run-fakes"]
    assert commands == [*first, *tests, *others]


@needs_make
def test_make_run_starts_core_tools(installed: Path, tmp_path: Path) -> None:
    core_tools(tmp_path / "bin", 'echo "$@"', "pwd", 'echo "$VIRTUAL_ENV"', "command -v python")

    ended = make(installed, environment(tmp_path / "bin"), "run", "PORT=7199")

    virtual = installed / ".venv"
    started_with = [ORIGINS, "start --port 7199 --address 127.0.0.1", str(installed)]
    assert ended.stdout.splitlines() == [*started_with, str(virtual), str(virtual / "bin/python")]
    assert ended.returncode == 0


@needs_make
@pytest.mark.parametrize("version", ["4.13.0", "4.14.0-preview.1", "4.15.1", "4.20.0"])
def test_make_run_uses_core_tools_that_listen_on_loopback(
    installed: Path, tmp_path: Path, version: str
) -> None:
    core_tools(tmp_path / "bin", 'echo "func $@"', version=version)

    ended = make(installed, environment(tmp_path / "bin"), "run")

    assert ended.stdout.splitlines()[1:] == ["func start --port 7071 --address 127.0.0.1"]


@needs_make
@pytest.mark.parametrize("host", [{}, {"Host": {"CORS": ""}}, {"Host": {"LocalHttpPort": 1}}])
def test_make_run_says_that_core_tools_allow_no_origin(
    installed: Path, tmp_path: Path, host: dict[str, object]
) -> None:
    core_tools(tmp_path / "bin", "echo func")
    (installed / "local.settings.json").write_text(json.dumps({"Values": {}, **host}))

    ended = make(installed, environment(tmp_path / "bin"), "run")

    assert ended.stdout.splitlines()[0].endswith("(Host.CORS in local.settings.json): none")


@needs_make
@pytest.mark.parametrize(
    "version",
    ["4.0.7512", "4.1.0", "4.9.0", "4.12.1", "3.0.4868", "5.0.0-preview.3", "", "no version"],
)
def test_make_run_uses_the_dev_server_if_core_tools_listen_everywhere(
    installed: Path, tmp_path: Path, version: str
) -> None:
    core_tools(tmp_path / "bin", "echo func", version=version)
    (installed / "dev_server.py").write_text("import sys; print('dev server', *sys.argv[1:])")

    ended = make(installed, environment(tmp_path / "bin"), "run")
    named = make(installed, environment(), "run", f"FUNC={tmp_path}/bin/func")

    reason, served = ended.stdout.splitlines()
    assert "Core Tools may listen on every network interface, unless they are 4.13" in reason
    assert f"(`func --version` says: {version})" in reason
    assert served == named.stdout.splitlines()[-1] == "dev server --port 7071"
    assert ended.returncode == 0


@needs_make
def test_make_run_fails_with_core_tools(installed: Path, tmp_path: Path) -> None:
    core_tools(tmp_path / "bin", "exit 3")

    ended = make(installed, environment(tmp_path / "bin"), "run")

    assert "Error 3" in ended.stderr


@needs_make
@pytest.mark.parametrize("own_status", [0, 130])
def test_control_c_stops_core_tools_without_an_error(
    installed: Path, tmp_path: Path, own_status: int
) -> None:
    core_tools(tmp_path / "bin", f'exec "{sys.executable}" "{tmp_path}/host.py" {own_status}')
    (tmp_path / "host.py").write_text(HOST)
    env = environment(tmp_path / "bin")
    with started(MAKE, "run", folder=installed, env=env) as process:
        until(process, "up")
        output = control_c(process)

        assert output == "Stopped.\n"


@needs_make
def test_make_run_starts_and_stops_the_dev_server(installed: Path) -> None:
    command = (MAKE, "run", "FUNC=", "PORT=0")
    with started(*command, folder=installed, env=environment()) as process:
        address(process)
        output = control_c(process)

        assert output.splitlines()[-1] == "Stopped."
        assert "***" not in output


@needs_make
def test_make_run_creates_local_settings(installed: Path, tmp_path: Path) -> None:
    core_tools(tmp_path / "bin")

    make(installed, environment(tmp_path / "bin"), "run")

    sample = (installed / "local.settings.sample.json").read_bytes()
    assert (installed / "local.settings.json").read_bytes() == sample
    assert stat.S_IMODE((installed / "local.settings.json").stat().st_mode) == 0o600


@needs_make
def test_make_run_keeps_local_settings(installed: Path, tmp_path: Path) -> None:
    core_tools(tmp_path / "bin")
    (installed / "local.settings.json").write_text("mine")
    os.utime(installed / "local.settings.json", (0, 0))  # older than the sample

    make(installed, environment(tmp_path / "bin"), "run")

    assert (installed / "local.settings.json").read_text() == "mine"


@needs_make
def test_first_suitable_python_is_used(clone: Path, tmp_path: Path) -> None:
    python = clone / ".venv/bin/python"
    core_tools(tmp_path / "bin", "echo started")
    script(tmp_path / "bin/python3.13", "echo 'a shim without a version' >&2", "exit 127")
    script(
        tmp_path / "bin/python3.12",
        'if [ "$1" = -m ]; then',
        f'  mkdir -p "{python.parent}"; printf "#!/bin/sh\\n" > "{python}"; chmod +x "{python}"',
        "elif [ -e .python-version ]; then",
        "  exit 1",  # a shim obeys the project's file, and has no such version
        "else",
        '  echo "$0"',
        "fi",
    )

    ended = make(clone, environment(tmp_path / "bin"), "run")

    assert ended.stdout.splitlines() == [
        f"Making .venv with {tmp_path / 'bin/python3.12'} (once) ...",
        "Installing what the app needs into .venv (once) ...",
        "started",
    ]
    assert ended.stderr == ""


@needs_make
def test_failed_install_is_repeated(installed: Path, tmp_path: Path) -> None:
    (installed / ".venv/.run").unlink()
    script(installed / ".venv/bin/python", "exit 1")
    core_tools(tmp_path / "bin")
    failed = make(installed, environment(tmp_path / "bin"), "run")
    script(installed / ".venv/bin/python")
    ended = make(installed, environment(tmp_path / "bin"), "run")
    again = make(installed, environment(tmp_path / "bin"), "run")

    assert failed.returncode != 0
    assert "Is there a network?" in failed.stderr
    assert ended.stdout.startswith("Installing")
    assert again.stdout == ""


@needs_make
def test_missing_python_is_one_sentence(clone: Path, tmp_path: Path) -> None:
    script(tmp_path / "bin/python3", "exit 1")  # as one that is too old

    ended = make(clone, environment(tmp_path / "bin", only=True), "run")

    assert len(ended.stderr.splitlines()) == 1
    assert "No Python 3.11 to 3.14 runs here" in ended.stderr
    assert ended.returncode != 0


@needs_make
def test_named_python_is_the_only_candidate(clone: Path, tmp_path: Path) -> None:
    script(tmp_path / "mine", "exit 1")

    ended = make(clone, environment(), "run", f"PYTHON={tmp_path / 'mine'}")

    assert f"tried: {tmp_path / 'mine'})" in ended.stderr


@needs_make
def test_python_without_venv_is_one_sentence(clone: Path, tmp_path: Path) -> None:
    script(tmp_path / "bin/python3", 'case "$2" in *ensurepip*) exit 1;; esac', 'echo "$0"')

    ended = make(clone, environment(tmp_path / "bin", only=True), "run")

    assert len(ended.stderr.splitlines()) == 1
    assert "sudo apt install python3-venv" in ended.stderr
    assert not (clone / ".venv").exists()
