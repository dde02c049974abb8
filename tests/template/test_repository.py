"""The workflows, the pages of the repository, and the files of editors."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.isolation import app_copy
from tests.support.servers import ROOT, command, run_server
from tests.support.uploads_package import UPLOADS_APP

# Each read from the tag in a copy of the action's repository.
PINNED = {
    "actions/checkout": ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7.0.1"),
    "actions/setup-python": ("5fda3b95a4ea91299a34e894583c3862153e4b97", "v7.0.0"),
    "actions/setup-node": ("820762786026740c76f36085b0efc47a31fe5020", "v7.0.0"),
    "actions/upload-artifact": ("bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", "v7.0.0"),
    "Azure/setup-azd": ("0b7e3a35ab00f2eee7080c845eb39c3f0ebfa553", "v2.4.0"),
}
# What Dependabot raises: the kind of a package, and the folder with its pins.
WATCHED = {
    ("pip", "/"),
    ("pip", "/scripts"),
    ("pip", f"/{UPLOADS_APP}"),
    ("npm", "/tests/clients"),
    ("npm", "/.ci/tools"),
    ("github-actions", "/"),
    ("devcontainers", "/"),
}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("page", ["SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"])
def test_page_links_lead_to_existing_files(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    paths = re.findall(r"\]\(([^)#]+)", text) + re.findall(r"`((?:tests|\.ci)/[\w./]+)`", text)
    files = [name for name in paths if not name.startswith("http")]

    assert [name for name in files if not (ROOT / name).exists()] == []


def workflow(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(
        (ROOT / ".github/workflows" / name).read_text("utf-8")
    )
    return document


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_workflow_actions_are_pinned(path: Path) -> None:
    text = path.read_text("utf-8")
    used = re.findall(r"uses: ([\w./-]+)@(\S+) # (\S+)$", text, re.MULTILINE)

    assert len(used) == text.count("uses:")
    assert [one for one in used if PINNED[one[0]] != one[1:]] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_workflow_permissions_are_minimal(path: Path) -> None:
    document = workflow(path.name)
    rights = {
        (name, right)
        for job in document["jobs"].values()
        for name, right in job["permissions"].items()
    }
    sign_in = {("id-token", "write")}  # to Azure, without a secret
    more = {"azure-dev": sign_in, "evaluation": sign_in, "release": {("contents", "write")}}

    assert document["permissions"] == {}
    assert rights == {("contents", "read")} | more.get(path.stem, set())
    assert all("timeout-minutes" in job for job in document["jobs"].values())


def test_tests_run_on_every_python_and_the_real_host() -> None:
    tests = workflow("tests.yml")["jobs"]["tests"]
    (step,) = (one for one in tests["steps"] if one.get("name") == "Tests")

    assert tests["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert step["env"]["FUNCTIONS_HOST"] == "func start"


def test_pipeline_deploys_without_stored_credentials() -> None:
    text = (ROOT / ".github/workflows/azure-dev.yml").read_text("utf-8")
    runs = [
        step["run"]
        for step in workflow("azure-dev.yml")["jobs"]["deploy"]["steps"]
        if "run" in step
    ]

    assert re.findall(r"secrets\.(\w+)", text) == ["AZURE_CHAT_API_KEY"]
    assert "--federated-credential-provider github" in runs[0]
    assert runs[1:] == ["azd provision --no-prompt", "azd deploy --no-prompt"]


def test_repository_variable_names_the_environment() -> None:
    job = workflow("azure-dev.yml")["jobs"]["deploy"]
    page = (ROOT / "docs" / "pipeline.md").read_text("utf-8")

    # Without a default: GitHub treats an empty name as no environment.
    assert job.get("environment") == "${{ vars.AZURE_DEPLOY_ENVIRONMENT }}"
    assert "gh variable set AZURE_DEPLOY_ENVIRONMENT" in page
    assert '"subject": "repo:OWNER/REPO:environment:NAME"' in page


def test_pull_requests_never_sign_in_as_the_identity_that_deploys() -> None:
    texts = [path.read_text("utf-8") for path in WORKFLOWS]
    steps = workflow("evaluation.yml")["jobs"]["gate"]["steps"]
    (sign_in,) = (one for one in steps if "azd auth login" in one.get("run", ""))

    assert [text.count("AZURE_CLIENT_ID") for text in texts if "pull_request" in text] == [0, 0, 0]
    assert sign_in["env"]["EVAL_CLIENT_ID"] == "${{ vars.EVAL_CLIENT_ID }}"
    assert sign_in["if"] == "vars.EVAL_CLIENT_ID != ''"


def test_identity_of_pull_requests_reads_and_asks_models_alone() -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
    commands = text.partition("### On pull requests")[2]

    assert re.findall(r"--role '([^']+)'", commands) == [
        "Search Index Data Reader",
        "Cognitive Services OpenAI User",
    ]
    assert re.findall(r"--subject (\S+)", commands) == ["repo:OWNER/REPO:pull_request"]
    assert re.findall(r"gh variable set (\w+)", commands) == ["EVAL_CLIENT_ID"]


def test_evaluation_leaves_out_forks_and_branches_of_dependabot() -> None:
    condition = workflow("evaluation.yml")["jobs"]["gate"]["if"]

    assert condition.split(" && ") == [
        "vars.EVAL_RULES != ''",
        "github.event.pull_request.head.repo.full_name == github.repository",
        "github.event.pull_request.user.login != 'dependabot[bot]'",
    ]


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / ".vscode").glob("*.json")), ROOT / ".devcontainer" / "devcontainer.json"],
    ids=lambda path: str(path.name),
)
def test_editor_files_are_plain_json(path: Path) -> None:
    assert json.loads(path.read_text("utf-8"))


TASKS = json.loads((ROOT / ".vscode" / "tasks.json").read_text("utf-8"))["tasks"]


def test_task_of_the_editor_has_a_windows_command() -> None:
    assert {"install", "run", "test"} <= {task["label"] for task in TASKS}
    assert [task["label"] for task in TASKS if "make" in task["windows"]["command"]] == []


@pytest.mark.part("ingestion")
def test_editor_has_a_task_for_the_index() -> None:
    assert "index" in {task["label"] for task in TASKS}


def test_devcontainer_has_exactly_these_keys() -> None:
    document = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    version = (ROOT / ".python-version").read_text("utf-8").strip()

    assert document.keys() == {
        "name",
        "image",
        "features",
        "forwardPorts",
        "portsAttributes",
        "postCreateCommand",
        "customizations",
        "hostRequirements",
    }
    assert f"python:{version}-" in document["image"]
    assert document["postCreateCommand"] == "make .venv/.run"
    assert document["forwardPorts"] == [7071]


def test_recommended_extensions_match_the_devcontainer() -> None:
    document = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    recommended = json.loads((ROOT / ".vscode" / "extensions.json").read_text("utf-8"))

    assert recommended["recommendations"] == document["customizations"]["vscode"]["extensions"]


def test_dependabot_covers_every_pinned_file() -> None:
    document = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    watched = {
        (update["package-ecosystem"], folder)
        for update in document["updates"]
        for folder in update.get("directories", [update.get("directory")])
    }

    assert watched == WATCHED
    assert all("cooldown" in update for update in document["updates"])


# A host like `func`: logs its arguments, starts a worker that serves, ends by Ctrl+C.
FUNC = """#!{python}
import os, signal, subprocess, sys, time
def tell(*words):
    with open("{told}", "a") as told:
        print(*words, file=told)
def stop(*_):
    tell("stopped")
    {stop}
signal.signal(signal.SIGINT, stop)
tell(os.getcwd(), *sys.argv[1:])
worker = subprocess.Popen([sys.executable, "dev_server.py", *sys.argv[2:]])
while True:
    time.sleep(1)
"""
ENDS = {
    "ends its worker and itself": "worker.terminate(); worker.wait(); sys.exit(0)",
    "leaves its worker behind": "os._exit(1)",
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has another Ctrl+C")
@pytest.mark.part("demo", "embedded-index")
@pytest.mark.parametrize("kind", ENDS)
def test_tests_start_and_stop_a_host_like_func(kind: str, tmp_path: Path) -> None:
    func, log = tmp_path / "func", tmp_path / "told"
    func.write_text(FUNC.format(python=sys.executable, told=log, stop=ENDS[kind]))
    func.chmod(func.stat().st_mode | stat.S_IXUSR)
    line = command("functions", {"FUNCTIONS_HOST": "func start"})
    settings = {"CHAT_MODEL": "demo", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    with (
        run_server("functions", tmp_path, settings, line=line) as server,
        server.client() as client,
    ):
        health = client.get("/health")
    port = server.url.rpartition(":")[2]

    assert health.status_code == 200
    assert log.read_text().splitlines() == [f"{app_copy()} start --port {port}", "stopped"]
    with pytest.raises(httpx.ConnectError), server.client() as client:
        with suppress(httpx.ReadError):  # the worker may still have accepted this one when killed
            client.get("/health")
        client.get("/health")
