"""The first hook's check of the resource group: a fake azd, a fake Resource Manager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts.checks import preprovision, resource_group
from scripts.checks import resource_manager as resource_manager_module
from scripts.commands import command_line
from tests.support.azd import install_azd
from tests.support.bicep_values import BicepFile
from tests.support.deployment import parameters
from tests.support.http_server import QuietHandler, run_http_server

PYTHON = (3, 13)
OURS = {"azd-env-name": "dev", "azd-template": "serverless-rag-chat", "owner": "us"}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with an azd whose user is signed in."""
    return install_azd(tmp_path, '{"token": "secret", "expiresOn": "2026-11-24T00:00:00Z"}')


@contextmanager
def resource_manager(groups: dict[str, Any], status: int = 0) -> Iterator[str]:
    """Serve the groups of the subscription `sub`, by name."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            name = path.removeprefix("/subscriptions/sub/resourcegroups/")
            known = query == "api-version=2021-04-01" and (
                self.headers["Authorization"] == "Bearer secret"
            )
            found = 200 if name in groups else 404
            body = json.dumps(groups.get(name, {"error": {"code": "ResourceGroupNotFound"}}))
            self.send_response(status or (found if known else 400))
            self.end_headers()
            self.wfile.write(body.encode())

    with run_http_server(Handler) as url:
        yield url


def run_hook(programs: Path, url: str, **variables: str) -> int:
    environment = {
        "PATH": str(programs),
        "AZURE_ENV_NAME": "dev",
        "AZURE_SUBSCRIPTION_ID": "sub",
        "AZURE_RESOURCE_MANAGER_URL": url,
        **variables,
    }
    return preprovision.main(environment, PYTHON)


@pytest.mark.parametrize(
    "tags",
    [
        None,
        {},
        {"azd-env-name": "other", "azd-template": "serverless-rag-chat"},
        {"azd-env-name": "dev"},  # of another template of azd
        {"azd-env-name": "dev", "azd-template": "todo"},
    ],
)
def test_group_of_others_is_refused(
    tags: dict[str, str] | None, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with resource_manager({"rg-dev": {"name": "rg-dev", "tags": tags}}) as url:
        assert run_hook(programs, url) == 1

    error = capsys.readouterr().err
    assert "The resource group rg-dev exists, and this template did not create it" in error
    assert "azd env new NAME" in error
    assert "azd env set AZURE_RESOURCE_GROUP NAME" in error
    assert "Nothing was created." in error
    assert "secret" not in error


@pytest.mark.parametrize("named", ["", "rg-dev", "RG-Dev"])
def test_own_group_and_a_new_one_pass(
    named: str, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """azd keeps the output AZURE_RESOURCE_GROUP, so that a second run has it as a variable."""
    groups = {named or "rg-dev": {"tags": OURS}}
    with resource_manager(groups) as own, resource_manager({}) as empty:
        assert run_hook(programs, own, AZURE_RESOURCE_GROUP=named) == 0
        assert run_hook(programs, empty, AZURE_RESOURCE_GROUP=named) == 0

    assert capsys.readouterr().err == ""


def test_group_that_the_template_creates_passes_its_own_check() -> None:
    group = BicepFile("main.bicep", parameters({})).properties("group")

    assert group["tags"]["azd-env-name"] == "chat-dev"
    assert group["tags"][resource_group.TEMPLATE_TAG] == resource_group.template_name()


def test_group_of_an_earlier_version_is_refused_with_the_command(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with resource_manager({"rg-dev": {"tags": {"azd-env-name": "dev"}}}) as url:
        assert run_hook(programs, url) == 1

    command = "az group update --name rg-dev --set tags.azd-template=serverless-rag-chat"
    assert command in capsys.readouterr().err


def test_named_group_is_used_and_must_exist(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with resource_manager({"our%20apps": {"tags": {}}}) as url:
        assert run_hook(programs, url, AZURE_RESOURCE_GROUP="our apps") == 0
        note = capsys.readouterr().err
        assert run_hook(programs, url, AZURE_RESOURCE_GROUP="typo") == 1

    assert "`azd down` deletes nothing of that" in note
    assert "names typo, which does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("status", [401, 403, 500])
def test_check_that_cannot_be_made_is_reported(
    status: int, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with resource_manager({}, status) as url:
        assert run_hook(programs, url) == 0

    error = capsys.readouterr().err
    assert f"not checked: Resource Manager responds with {status}." in error


@pytest.mark.parametrize(
    ("output", "status", "reason"),
    [("ERROR: not logged in", 1, "azd auth login"), ("{}", 0, "azd auth login")],
)
def test_missing_sign_in_is_reported(
    output: str, status: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_azd(tmp_path, output, status)
    assert run_hook(tmp_path, "http://127.0.0.1:9") == 0

    assert reason in capsys.readouterr().err


def test_missing_azd_and_network_are_reported(
    tmp_path: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert run_hook(tmp_path / "empty", "http://127.0.0.1:9") == 0
    assert run_hook(programs, "http://127.0.0.1:9") == 0

    first, second = capsys.readouterr().err.splitlines()
    assert "Install azd first" in first
    assert "not checked: " in second


@pytest.mark.parametrize("scope", ["", "api://client-1/user_impersonation"])
def test_command_of_azd_passes_on_windows(scope: str) -> None:
    """Where azd is a batch file, cmd.exe must leave its arguments as they are."""
    arguments = resource_manager_module.token_arguments(scope)
    line = command_line(["azd.cmd", *arguments], windows=True)

    assert line == " ".join(f'"{argument}"' for argument in ("azd.cmd", *arguments))


def test_first_provision_without_a_subscription_is_not_checked(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`azd provision` asks for the subscription after the hook, `azd up` before."""
    assert run_hook(programs, "http://127.0.0.1:9", AZURE_SUBSCRIPTION_ID="") == 0
    assert capsys.readouterr().err == ""


def test_hook_runs_by_itself_as_azd_runs_it(programs: Path) -> None:
    environment = {**os.environ, "AZURE_ENV_NAME": "dev", "AZURE_SUBSCRIPTION_ID": "sub"}
    with resource_manager({"rg-dev": {"tags": {}}}) as url:
        done = subprocess.run(
            [sys.executable, str(preprovision.ROOT / "scripts" / "checks" / "preprovision.py")],
            env={**environment, "PATH": str(programs), "AZURE_RESOURCE_MANAGER_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert done.returncode == 1
    assert "The resource group rg-dev exists" in done.stderr
