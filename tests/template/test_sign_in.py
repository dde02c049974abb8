"""Access by key, by sign-in (with the registration of the script), or open to anyone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.protocols.openai.routes import ROUTES as DOOR
from tests.support.isolation import app_copy
from tests.support.servers import LAPTOP, SIGN_IN

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts" / "sign_in.sh"
CLI = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"
PROVISIONED = {
    "AZURE_ENV_NAME": "blue",
    "AZURE_TENANT_ID": "tenant-1",
    "SERVICE_API_URI": "https://func.example.com",
    "SERVICE_API_IDENTITY_PRINCIPAL_ID": "identity-1",
}
# Fakes of az and azd: azd stores its environment in a file, az records its calls.
AZD = """import json, sys
path, words = {path!r}, sys.argv[1:]
values = json.load(open(path))
if words[1] == "get-value":
    sys.exit("ERROR: key not found") if words[2] not in values else print(values[words[2]])
else:
    json.dump(values | {{words[2]: words[3]}}, open(path, "w"))
"""
AZ = """import json, sys
words = sys.argv[1:]
with open({path!r}, "a") as calls:
    print(json.dumps(words), file=calls)
asked = [json.loads(line) for line in open({path!r})]
bodies = [json.loads(call[call.index("--body") + 1]) for call in asked if "--body" in call]
roles = next((body["appRoles"] for body in reversed(bodies) if "appRoles" in body), [])
if words[:2] == ["account", "show"]:
    print("tenant-1")
if words[:3] == ["ad", "signed-in-user", "show"]:
    sys.exit("/me request is only valid for a person") if {program} else print("me")
if words[0] == "rest" and "GET" in words:
    print(*(body["appRoleId"] for body in bodies if body.get("principalId") == "me"))
if words[:3] == ["ad", "app", "create"]:
    print("client-1")
apps = [call[2] for call in asked if call[:2] == ["ad", "app"]]
made = [word for word in apps if word in ("create", "delete")]
if words[:3] == ["ad", "app", "show"] and made[-1:] == ["delete"]:
    sys.exit(3)
if words[:3] == ["ad", "app", "show"] and "--query" in words:
    of_users = [role["id"] for role in roles if role["value"] == "Chat.User"]
    print(*of_users if "tsv" in words else [json.dumps(roles, indent=2)])
if words[:3] == ["ad", "sp", "show"]:
    if ["ad", "sp", "create"] not in [call[:3] for call in asked]:
        sys.exit(1)
    print("service-1")
if words[:4] == ["ad", "app", "federated-credential", "list"]:
    if "create" in [call[3] for call in asked if len(call) > 3]:
        print("app-identity-1")
"""
CHANGES = ("opensearch_search_pipeline_name_change", "opensearch_cluster_settings_change")
PRINT = """import function_app
for one in function_app.app.get_functions():
    print(one.get_function_name(), one.get_trigger().get_dict_repr()["authLevel"].name)
"""


class Machine:
    """A machine with fakes of az and azd; `program`: az is signed in as a service principal."""

    def __init__(self, folder: Path, values: dict[str, str], program: bool = False) -> None:
        self.folder = folder
        self.environment, self.calls = folder / "environment.json", folder / "calls.jsonl"
        self.environment.write_text(json.dumps(values))
        self.calls.touch()
        for name, code, path in (("azd", AZD, self.environment), ("az", AZ, self.calls)):
            tool = folder / name
            tool.write_text(f"#!{sys.executable}\n{code.format(path=str(path), program=program)}")
            tool.chmod(0o755)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", SCRIPT, *words],
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def delete(self) -> None:
        """Run az commands as another user would."""
        self.by_hand("ad", "app", "delete", "--id", "client-1")

    def by_hand(self, *words: str) -> None:
        subprocess.run([str(self.folder / "az"), *words], check=True)

    def bodies(self) -> list[dict[str, Any]]:
        """Return the bodies that were sent for the registration, in order."""
        calls = [call for call in self.asked("rest") if "--body" in call]
        return [json.loads(call[call.index("--body") + 1]) for call in calls]

    def field_values(self, key: str) -> list[Any]:
        """Return the values of a field in the bodies sent to Graph, in order."""
        return [body[key] for body in self.bodies() if key in body]

    def roles(self) -> list[list[dict[str, Any]]]:
        return self.field_values("appRoles")

    def assignments(self) -> list[dict[str, Any]]:
        return [body for body in self.bodies() if "principalId" in body]

    @property
    def values(self) -> dict[str, str]:
        return dict(json.loads(self.environment.read_text()))

    def asked(self, *words: str) -> list[list[str]]:
        lines = map(json.loads, self.calls.read_text().splitlines())
        return [call for call in lines if call[: len(words)] == list(words)]


needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")


@needs_bash
def test_registration_trusts_the_identity_without_secret(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    done = machine.run()
    (created,) = machine.asked("ad", "app", "federated-credential", "create")
    trusted: dict[str, Any] = json.loads(created[created.index("--parameters") + 1])

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Done. Now run: azd provision\n")
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == "client-1"
    assert trusted == {
        "name": "app-identity-1",
        "issuer": "https://login.microsoftonline.com/tenant-1/v2.0",
        "subject": "identity-1",
        "audiences": ["api://AzureADTokenExchange"],
    }
    assert machine.asked("ad", "app", "credential") == []


@needs_bash
def test_registration_has_the_properties_that_sign_in_needs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    (body,) = (body for body in machine.bodies() if "api" in body)
    (scope,) = body["api"]["oauth2PermissionScopes"]

    assert body["identifierUris"] == ["api://client-1"]
    assert body["web"]["redirectUris"] == ["https://func.example.com/.auth/login/aad/callback"]
    assert body["groupMembershipClaims"] == "SecurityGroup"
    assert body["api"]["requestedAccessTokenVersion"] == 2
    assert scope["value"] == "user_impersonation"


@needs_bash
def test_azure_cli_is_authorized_only_with_the_option(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_ALLOWED_CLIENTS": "mine"})
    machine.run()
    (without,) = machine.field_values("api")
    allowed = machine.values["AZURE_AUTH_ALLOWED_CLIENTS"]
    machine.run("--allow-azure-cli")
    _, scope_alone, both = machine.field_values("api")
    (scope,) = both["oauth2PermissionScopes"]

    assert without["preAuthorizedApplications"] == []
    assert allowed == "mine"
    assert scope_alone["preAuthorizedApplications"] == []  # the scope must be there first
    assert both["preAuthorizedApplications"] == [
        {"appId": CLI, "delegatedPermissionIds": [scope["id"]]}
    ]
    assert machine.values["AZURE_AUTH_ALLOWED_CLIENTS"] == f"mine,{CLI}"


@needs_bash
@pytest.mark.parametrize("others", ["", "mine,", "mine, ", "mine,his,"])
def test_run_without_the_option_removes_the_azure_cli(others: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_ALLOWED_CLIENTS": f"{others}{CLI}"})
    done = machine.run()

    assert done.returncode == 0, done.stderr
    assert machine.values["AZURE_AUTH_ALLOWED_CLIENTS"] == others.strip(", ")
    assert "--allow-azure-cli" in done.stdout


@needs_bash
def test_assignment_is_required_and_the_runner_is_assigned(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    again = machine.run()
    (assigned,) = machine.assignments()
    roles = {role["value"]: role["id"] for role in machine.roles()[-1]}

    assert again.returncode == 0, again.stderr
    assert machine.field_values("appRoleAssignmentRequired") == [True, True]
    assert assigned == {
        "principalId": "me",
        "resourceId": "service-1",
        "appRoleId": roles["Chat.User"],
    }


@needs_bash
def test_existing_assignment_is_not_repeated(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    mine = {"principalId": "me", "resourceId": "service-1", "appRoleId": "admin"}
    machine.by_hand("rest", "--body", json.dumps(mine))
    machine.run()

    assert machine.assignments() == [mine]


@needs_bash
def test_option_opens_sign_in_to_everyone_until_the_next_run(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run("--everyone", "--allow-azure-cli")
    assigned = machine.assignments()
    machine.run()

    assert assigned == []
    assert machine.field_values("appRoleAssignmentRequired") == [False, True]
    assert len(machine.assignments()) == 1


@needs_bash
def test_service_principal_gets_a_hint_to_assign_users(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED, program=True)
    done = machine.run()

    assert done.returncode == 0, done.stderr
    assert "Nobody is assigned" in done.stdout
    assert machine.field_values("appRoleAssignmentRequired") == [True]
    assert machine.assignments() == []


@needs_bash
@pytest.mark.parametrize("words", [["--all"], ["--remove", "--everyone"], ["now"]])
def test_unknown_options_change_nothing(words: list[str], tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_CLIENT_ID": "client-1"})
    done = machine.run(*words)

    assert done.returncode == 1
    assert done.stderr.startswith("Usage: scripts/sign_in.sh ")
    assert machine.calls.read_text() == ""
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == "client-1"


@needs_bash
def test_second_run_creates_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    again = machine.run()

    assert again.returncode == 0, again.stderr
    assert len(machine.asked("ad", "app", "create")) == 1
    assert len(machine.asked("ad", "sp", "create")) == 1
    assert len(machine.asked("ad", "app", "federated-credential", "create")) == 1


@needs_bash
def test_registration_has_an_unassigned_admin_role(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    again = machine.run()
    ((role, _),) = machine.roles()
    chat_admin = role.pop("id")

    assert again.returncode == 0, again.stderr
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", chat_admin)
    assert role.pop("displayName")
    assert role == {
        "value": "Chat.Admin",
        "isEnabled": True,
        "allowedMemberTypes": ["User", "Application"],
        "description": "May change the pipelines of the deployment",
    }
    assert chat_admin not in [one["appRoleId"] for one in machine.assignments()]


def other_role(value: str) -> dict[str, Any]:
    """Make a role that the script has not created."""
    return {
        "allowedMemberTypes": ["User"],
        "description": 'Of a fork: "[mine]"',
        "displayName": "Mine",
        "id": "role-of-a-fork",
        "isEnabled": True,
        "value": value,
    }


@needs_bash
@pytest.mark.parametrize(
    ("value", "created"),
    [
        ("Reader", ["Chat.Admin", "Chat.User"]),
        ("Chat.Admin", ["Chat.User"]),
        ("Chat.User", ["Chat.Admin"]),
    ],
)
def test_existing_roles_are_kept(value: str, created: list[str], tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    mine = other_role(value)
    machine.by_hand("rest", "--body", json.dumps({"appRoles": [mine]}))
    done = machine.run()
    _, (first, *others) = machine.roles()
    (assigned,) = machine.assignments()

    assert done.returncode == 0, done.stderr
    assert first == mine
    assert [role["value"] for role in others] == created
    assert (assigned["appRoleId"] == mine["id"]) == (value == "Chat.User")


@needs_bash
def test_complete_roles_are_not_written_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    both = [other_role("Chat.User"), other_role("Chat.Admin") | {"id": "another"}]
    machine.by_hand("rest", "--body", json.dumps({"appRoles": both}))
    machine.run()

    assert machine.roles() == [both]


@needs_bash
def test_role_query_omits_read_only_properties(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    calls = machine.asked("ad", "app", "show")[0]
    fields = re.findall(r"(\w+): (\w+)", calls[calls.index("--query") + 1])

    assert {name for name, _ in fields} == set(other_role("x"))
    assert all(name == value for name, value in fields)


@needs_bash
def test_registration_can_be_deleted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    nothing = machine.run("--remove")
    machine.run()
    gone = machine.run("--remove")

    assert nothing.returncode == 1
    assert "There is nothing to remove" in nothing.stderr
    assert gone.returncode == 0, gone.stderr
    assert machine.asked("ad", "app", "delete") == [["ad", "app", "delete", "--id", "client-1"]]
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == ""


@needs_bash
@pytest.mark.parametrize("words", [["--remove"], []])
def test_deleted_registration_is_created_again(tmp_path: Path, words: list[str]) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    machine.delete()
    done = machine.run(*words)

    assert done.returncode == 0, done.stderr
    assert len(machine.asked("ad", "app", "delete")) == 1
    assert len(machine.asked("ad", "app", "create")) == (1 if words else 2)
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == ("" if words else "client-1")


@needs_bash
def test_allowed_apps_stay_allowed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_ALLOWED_CLIENTS": "mine"})
    machine.run("--allow-azure-cli")
    machine.run("--allow-azure-cli")

    assert machine.values["AZURE_AUTH_ALLOWED_CLIENTS"] == f"mine,{CLI}"


@needs_bash
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "There is no app yet: run azd up first."),
        (PROVISIONED | {"AZURE_TENANT_ID": "tenant-2"}, "az login --tenant tenant-2"),
    ],
)
def test_failure_message_names_the_fix(
    values: dict[str, str], message: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, values)
    done = machine.run()

    assert done.returncode == 1
    assert message in done.stderr
    assert machine.asked("ad") == []


def key_levels(**settings: str) -> dict[str, str]:
    """Load the app with these settings; return the key that each function requires."""
    run = subprocess.run(
        [sys.executable, "-c", PRINT],
        env=os.environ | LAPTOP | settings,
        cwd=app_copy(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return dict(line.split(" ") for line in run.stdout.splitlines())


@pytest.mark.parametrize(
    "settings",
    [
        {"CALLERS": ""},
        {"CALLERS": "keys", **SIGN_IN},
        {"CALLERS": "signed-in", "WEBSITE_AUTH_ENABLED": "true"},
        {"CALLERS": "signed-in"},
        {"CALLERS": "everyone"},
        {"CALLERS": "anyone", "DEFAULT_TOP": "x"},
    ],
)
def test_every_route_except_health_and_openai_needs_a_key(settings: dict[str, str]) -> None:
    calls = key_levels(**settings)
    door = [name for name in calls if name.startswith("door_")]

    assert calls.pop("health") == "ANONYMOUS"
    assert {calls.pop(name) for name in door} == {"ANONYMOUS"}
    assert len(door) == len(DOOR)
    assert {calls.pop(name) for name in CHANGES} <= {"FUNCTION", "ADMIN"}
    assert set(calls.values()) == {"FUNCTION"}


def test_administrative_routes_need_the_master_key_except_on_a_laptop() -> None:
    azure = {"WEBSITE_SITE_NAME": "chat"}
    anywhere = {"AZURE_FUNCTIONS_ENVIRONMENT": "", "CONTAINER_APP_NAME": "chat"}
    closed = (azure, anywhere, azure | {"CALLERS": "anyone"}, azure | {"DEFAULT_TOP": "x"})
    for settings in closed:
        calls = key_levels(**settings)
        assert {calls.pop(name) for name in CHANGES} == {"ADMIN"}
        assert "ADMIN" not in calls.values()
    signed_in = key_levels(**azure, CALLERS="signed-in", WEBSITE_AUTH_ENABLED="true")
    assert {signed_in[name] for name in CHANGES} == {"ANONYMOUS"}
    assert key_levels()["opensearch_search_pipeline_name_change"] == "FUNCTION"


def test_no_route_needs_a_key_with_sign_in_or_open_access() -> None:
    signed_in = key_levels(CALLERS="signed-in", **SIGN_IN)

    assert set(signed_in.values()) == {"ANONYMOUS"}
    assert signed_in == key_levels(CALLERS="anyone")
