"""Access by key, by sign-in (with the registration of the script), or open to anyone."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.app_registration import SCOPE, SCOPE_ID
from scripts.commands import command_line
from shared.protocols.openai.files import ROUTES as FILES_ROUTES
from shared.protocols.openai.responses.routes import ROUTES as RESPONSES_ROUTES
from shared.protocols.openai.routes import ROUTES as OPENAI_ROUTES
from tests.support.isolation import app_copy
from tests.support.servers import LAPTOP, SIGN_IN

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts" / "sign_in.py"
CLI = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"
VS_CODE = "aebc6443-996d-45c2-90f0-388ff96faa56"
PROVISIONED = {
    "AZURE_ENV_NAME": "blue",
    "AZURE_SUBSCRIPTION_ID": "subscription-1",
    "AZURE_TENANT_ID": "tenant-1",
    "SERVICE_API_URI": "https://func.example.com",
    "SERVICE_API_IDENTITY_PRINCIPAL_ID": "identity-1",
}
# Fakes of az and azd: azd stores its environment in a file, az records its calls. Like the real
# one, az replaces @path by what the file contains. REFUSED: the first words of the commands that
# fail, and how many of them do.
AZD = """import json, os, sys
path, words = {path!r}, sys.argv[1:]
if os.getcwd() != {project!r}:
    sys.exit("ERROR: no project exists; to create a new project, run `azd init`")
values = json.load(open(path))
if words[1] == "get-value":
    sys.exit("ERROR: key not found") if words[2] not in values else print(values[words[2]])
else:
    json.dump(values | {{words[2]: words[3]}}, open(path, "w"))
"""
AZ = """import json, os, sys
raw = sys.argv[1:]
words = [open(word[1:]).read() if word.startswith("@") else word for word in raw]
refused = json.loads(os.environ.get("REFUSED", "null"))
if refused and words[: len(refused[0])] == refused[0]:
    with open({path!r} + ".refused", "a+") as calls:
        print(file=calls)
        calls.seek(0)
        if len(calls.readlines()) <= refused[1]:
            sys.exit("ERROR: not found")
with open({path!r}, "a") as calls, open({path!r} + ".raw", "a") as raw_calls:
    print(json.dumps(words), file=calls)
    print(json.dumps(raw), file=raw_calls)
asked = [json.loads(line) for line in open({path!r})]
bodies = [json.loads(call[call.index("--body") + 1]) for call in asked if "--body" in call]
latest = {{name: value for body in bodies for name, value in body.items()}}
api = latest.get("api", {{}})
registration = {{
    "identifierUris": latest.get("identifierUris"),
    "redirectUris": latest.get("web", {{}}).get("redirectUris"),
    "tags": latest.get("tags"),
    "scopes": api.get("oauth2PermissionScopes"),
    "authorized": api.get("preAuthorizedApplications"),
}}
lists = {{name: latest.get(name) for name in ("appRoles", "requiredResourceAccess")}}
if words[:2] == ["account", "show"]:
    print("tenant-1")
if words[:3] == ["ad", "signed-in-user", "show"]:
    sys.exit("/me request is only valid for a person") if {program} else print("me")
if words[0] == "rest" and "GET" in words:
    print(*(body["appRoleId"] for body in bodies if body.get("principalId") == "me"))
if words[:3] == ["ad", "app", "list"]:
    print(os.environ.get("APPLICATIONS", "[]"))
if words[:3] == ["ad", "app", "create"]:
    print("client-1")
apps = [call[2] for call in asked if call[:2] == ["ad", "app"]]
made = [word for word in apps if word in ("create", "delete")]
if words[:3] == ["ad", "app", "show"] and made[-1:] == ["delete"]:
    sys.exit(3)
if words[:3] == ["ad", "app", "show"] and "--query" in words:
    query = words[words.index("--query") + 1]
    print(json.dumps(next((lists[name] for name in lists if name in query), registration)))
if words[:3] == ["ad", "sp", "show"]:
    if ["ad", "sp", "create"] not in [call[:3] for call in asked]:
        sys.exit(1)
    print("service-1")
if words[:4] == ["ad", "app", "federated-credential", "list"]:
    if "create" in [call[3] for call in asked if len(call) > 3]:
        print("app-identity-1")
"""
HANGING_AZ = """#!/bin/sh
echo hangs >&2
sleep 600
exit 1
"""
# The script with other limits: seconds, tries, pause.
WITH_LIMITS = """
import sys
sys.path.insert(0, {root!r})
from scripts.commands import Limits
from scripts.configure_sign_in import main
sys.exit(main(sys.argv[1:], Limits({seconds}, 3, 0.01)))
"""
# An interpreter that reports an older version.
OLD_PYTHON = """
import runpy, sys
sys.version_info = (3, 10, 9, "final", 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CHANGES = ("opensearch_search_pipeline_name_change", "opensearch_cluster_settings_change")
PRINT = """import function_app
for one in function_app.app.get_functions():
    print(one.get_function_name(), one.get_trigger().get_dict_repr()["authLevel"].name)
"""


class Machine:
    """A machine with fakes of az and azd; `program`: az is signed in as a service principal."""

    def __init__(
        self,
        folder: Path,
        values: dict[str, str],
        program: bool = False,
        project: Path = ROOT,
    ) -> None:
        self.folder, self.project = folder, project
        self.environment, self.calls = folder / "environment.json", folder / "calls.jsonl"
        self.environment.write_text(json.dumps(values))
        self.calls.touch()
        for name, code, path in (("azd", AZD, self.environment), ("az", AZ, self.calls)):
            values = {"path": str(path), "project": str(project.resolve())}
            self.install(name, f"#!{sys.executable}\n{code.format(program=program, **values)}")

    def install(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script from a folder outside of the project."""
        return self.python(str(self.project / "scripts" / SCRIPT.name), *words, **environment)

    def run_with_limits(
        self, *words: str, seconds: float = 60, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        code = WITH_LIMITS.format(root=str(self.project), seconds=seconds)
        return self.python("-c", code, *words, **environment)

    def python(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.variables() | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def variables(self) -> dict[str, str]:
        return os.environ | {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}

    def delete(self) -> None:
        """Run az commands as another user would."""
        self.by_hand("ad", "app", "delete", "--id", "client-1")

    def by_hand(self, *words: str) -> None:
        subprocess.run([str(self.folder / "az"), *words], check=True)

    def bodies(self) -> list[dict[str, Any]]:
        """Return the bodies that were sent for the registration, in order."""
        calls = [call for call in self.find_calls("rest") if "--body" in call]
        return [json.loads(call[call.index("--body") + 1]) for call in calls]

    def field_values(self, key: str) -> list[Any]:
        """Return the values of a field in the bodies sent to Graph, in order."""
        return [body[key] for body in self.bodies() if key in body]

    def authorized(self) -> dict[str, list[str]]:
        """Return the applications that need no consent, with their scopes."""
        entries = self.field_values("api")[-1]["preAuthorizedApplications"]
        return {entry["appId"]: entry["delegatedPermissionIds"] for entry in entries}

    def roles(self) -> list[list[dict[str, Any]]]:
        return self.field_values("appRoles")

    def assignments(self) -> list[dict[str, Any]]:
        return [body for body in self.bodies() if "principalId" in body]

    @property
    def values(self) -> dict[str, str]:
        return dict(json.loads(self.environment.read_text()))

    def find_calls(self, *words: str) -> list[list[str]]:
        lines = map(json.loads, self.calls.read_text().splitlines())
        return [call for call in lines if call[: len(words)] == list(words)]


needs_posix = pytest.mark.skipif(os.name == "nt", reason="the fakes need a system with #!")


@needs_posix
def test_registration_trusts_the_identity_without_secret(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    done = machine.run()
    (created,) = machine.find_calls("ad", "app", "federated-credential", "create")
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
    assert machine.find_calls("ad", "app", "credential") == []


@needs_posix
def test_registration_has_the_properties_that_sign_in_needs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    body = [body for body in machine.bodies() if "api" in body][-1]
    (scope,) = body["api"]["oauth2PermissionScopes"]

    assert body["identifierUris"] == ["api://client-1"]
    assert body["web"]["redirectUris"] == ["https://func.example.com/.auth/login/aad/callback"]
    assert body["groupMembershipClaims"] == "SecurityGroup"
    assert body["api"]["requestedAccessTokenVersion"] == 2
    assert scope["value"] == "user_impersonation"


SEARCH = {
    "resourceAppId": "880da380-985e-4198-81b9-e05b1cc53158",
    "resourceAccess": [{"id": "a4165a31-5d9e-4120-bd1e-9d88c66fd3b8", "type": "Scope"}],
}
BY_TOKEN = {"AZURE_APP_SETTINGS": '{"AZURE_SEARCH_PERMISSIONS": "user-token"}'}


@needs_posix
def test_registration_asks_for_search_tokens_where_the_setting_needs_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | BY_TOKEN)
    done = machine.run()
    again = machine.run()

    assert machine.field_values("requiredResourceAccess") == [[SEARCH]]
    consent = "az ad app permission grant --id client-1 --api 880da380-985e-4198-81b9-e05b1cc53158"
    assert consent in done.stdout
    assert consent in again.stdout


@needs_posix
@pytest.mark.parametrize("settings", ["", "{}", '{"AZURE_SEARCH_PERMISSIONS": "filter"}', "[]"])
def test_registration_asks_for_no_other_permission(tmp_path: Path, settings: str) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_APP_SETTINGS": settings})
    done = machine.run()

    assert done.returncode == 0
    assert machine.field_values("requiredResourceAccess") == []


@needs_posix
def test_permissions_that_others_added_are_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | BY_TOKEN)
    theirs = {"resourceAppId": "graph", "resourceAccess": [{"id": "mail", "type": "Scope"}]}
    own = {**SEARCH, "resourceAccess": [{"id": "more", "type": "Role"}]}
    machine.by_hand("rest", "--body", json.dumps({"requiredResourceAccess": [own, theirs]}))
    machine.run()

    both = {**SEARCH, "resourceAccess": [*own["resourceAccess"], *SEARCH["resourceAccess"]]}
    assert machine.field_values("requiredResourceAccess")[-1] == [theirs, both]


@needs_posix
def test_environments_of_one_name_have_registrations_of_their_own(tmp_path: Path) -> None:
    names: list[str] = []
    for subscription in ("subscription-1", "subscription-2", "subscription-1"):
        folder = tmp_path / str(len(names))
        folder.mkdir()
        machine = Machine(folder, PROVISIONED | {"AZURE_SUBSCRIPTION_ID": subscription})
        machine.run()
        (created,) = machine.find_calls("ad", "app", "create")
        names.append(created[created.index("--display-name") + 1])

    assert re.fullmatch(r"chat blue \([0-9a-f]{8}\)", names[0])
    assert names[0] == names[2] != names[1]


@needs_posix
@pytest.mark.parametrize("tags", [None, [], ["theirs"]])
def test_registration_of_somebody_else_is_not_changed(
    tags: list[str] | None, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    existing = json.dumps([{"id": "client-9", "tags": tags}])
    done = machine.run(APPLICATIONS=existing)

    assert done.returncode == 1
    assert "exists (client-9), and this script has not made it" in done.stderr
    assert "azd env set AZURE_AUTH_CLIENT_ID client-9" in done.stderr
    assert machine.find_calls("ad", "app", "create") == []
    assert machine.bodies() == []
    assert "AZURE_AUTH_CLIENT_ID" not in machine.values


@needs_posix
def test_registration_of_an_interrupted_run_is_used(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    existing = json.dumps([{"id": "client-1", "tags": ["serverless-rag-chat"]}])
    done = machine.run(APPLICATIONS=existing)

    assert done.returncode == 0, done.stderr
    assert machine.find_calls("ad", "app", "create") == []
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == "client-1"
    assert machine.field_values("tags")[-1] == ["serverless-rag-chat"]


@needs_posix
def test_redirect_addresses_and_tags_of_others_stay(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    theirs = "https://chat.example.com/.auth/login/aad/callback"
    web = {"web": {"redirectUris": [theirs]}, "tags": ["theirs"]}
    machine.by_hand("rest", "--body", json.dumps(web))
    machine.run()

    ours = "https://func.example.com/.auth/login/aad/callback"
    assert machine.field_values("web")[-1]["redirectUris"] == [theirs, ours]
    assert machine.field_values("tags")[-1] == ["theirs", "serverless-rag-chat"]


@needs_posix
def test_azure_cli_is_authorized_only_with_the_option(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_ALLOWED_CLIENTS": "mine"})
    machine.run()
    without = machine.authorized()
    allowed = machine.values["AZURE_AUTH_ALLOWED_CLIENTS"]
    machine.run("--allow-azure-cli")
    both = machine.authorized()
    listed = machine.values["AZURE_AUTH_ALLOWED_CLIENTS"]
    machine.run()

    assert allowed == "mine"
    assert both == without | {CLI: [SCOPE_ID]}
    assert listed == f"mine,{CLI}"
    assert machine.authorized() == without


@needs_posix
def test_visual_studio_code_needs_no_consent_for_the_scope(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    scope_alone, complete = machine.field_values("api")
    machine.run()
    (scope,) = complete["oauth2PermissionScopes"]

    assert scope_alone["preAuthorizedApplications"] == []  # the scope must be there first
    assert complete["preAuthorizedApplications"] == [
        {"appId": VS_CODE, "delegatedPermissionIds": [scope["id"]]}
    ]
    assert machine.field_values("api")[2:] == [complete, complete]


@needs_posix
def test_what_others_added_to_the_registration_is_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run("--allow-azure-cli")
    api = machine.field_values("api")[-1]
    scope = api["oauth2PermissionScopes"][0] | {"id": "scope-of-a-fork", "value": "read"}
    theirs = [
        {"appId": "mine", "delegatedPermissionIds": [SCOPE_ID, "scope-of-a-fork"]},
        {"appId": VS_CODE, "delegatedPermissionIds": ["scope-of-a-fork"]},
    ]
    api["oauth2PermissionScopes"].append(scope)
    api["preAuthorizedApplications"] = theirs
    uris = ["https://chat.example.com/mcp", "api://client-1"]
    machine.by_hand("rest", "--body", json.dumps({"api": api, "identifierUris": uris}))
    done = machine.run()
    scopes = machine.field_values("api")[-1]["oauth2PermissionScopes"]

    assert done.returncode == 0, done.stderr
    assert machine.field_values("identifierUris")[-1] == uris
    assert {one["value"] for one in scopes} == {"read", "user_impersonation"}
    assert machine.authorized() == {
        "mine": [SCOPE_ID, "scope-of-a-fork"],
        VS_CODE: ["scope-of-a-fork", SCOPE_ID],
    }


@needs_posix
@pytest.mark.parametrize("others", ["", "mine,", "mine, ", "mine,his,"])
def test_run_without_the_option_removes_the_azure_cli(others: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_ALLOWED_CLIENTS": f"{others}{CLI}"})
    done = machine.run()

    assert done.returncode == 0, done.stderr
    assert machine.values["AZURE_AUTH_ALLOWED_CLIENTS"] == others.strip(", ")
    assert "--allow-azure-cli" in done.stdout


@needs_posix
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


@needs_posix
def test_existing_assignment_is_not_repeated(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    mine = {"principalId": "me", "resourceId": "service-1", "appRoleId": "admin"}
    machine.by_hand("rest", "--body", json.dumps(mine))
    machine.run()

    assert machine.assignments() == [mine]


@needs_posix
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


@needs_posix
def test_service_principal_gets_a_hint_to_assign_users(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED, program=True)
    done = machine.run()

    assert done.returncode == 0, done.stderr
    assert "Nobody is assigned" in done.stdout
    assert machine.field_values("appRoleAssignmentRequired") == [True]
    assert machine.assignments() == []


@needs_posix
@pytest.mark.parametrize("words", [["--all"], ["--remove", "--everyone"], ["now"]])
def test_unknown_options_change_nothing(words: list[str], tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_CLIENT_ID": "client-1"})
    done = machine.run(*words)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: sign_in.py ")
    assert machine.calls.read_text() == ""
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == "client-1"


@needs_posix
def test_second_run_creates_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    again = machine.run()

    assert again.returncode == 0, again.stderr
    assert len(machine.find_calls("ad", "app", "create")) == 1
    assert len(machine.find_calls("ad", "sp", "create")) == 1
    assert len(machine.find_calls("ad", "app", "federated-credential", "create")) == 1


@needs_posix
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
        "description": 'Of a fork: "[mine]", für 日本',
        "displayName": "Mine",
        "id": "role-of-a-fork",
        "isEnabled": True,
        "value": value,
    }


@needs_posix
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


@needs_posix
def test_complete_roles_are_not_written_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    both = [other_role("Chat.User"), other_role("Chat.Admin") | {"id": "another"}]
    machine.by_hand("rest", "--body", json.dumps({"appRoles": both}))
    machine.run()

    assert machine.roles() == [both]


@needs_posix
def test_queries_omit_read_only_properties(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    calls = machine.find_calls("ad", "app", "show")
    queries = [call[call.index("--query") + 1] for call in calls]
    lists = dict(re.findall(r"(\w+)\[\]\.\{([^}]*)\}", " ".join(queries)))
    fields = {name: re.findall(r"(\w+): (\w+)", text) for name, text in lists.items()}

    assert {name: {field for field, _ in pairs} for name, pairs in fields.items()} == {
        "appRoles": set(other_role("x")),
        "oauth2PermissionScopes": set(SCOPE),
        "preAuthorizedApplications": {"appId", "delegatedPermissionIds"},
    }
    assert all(name == value for pairs in fields.values() for name, value in pairs)


@needs_posix
def test_registration_can_be_deleted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    nothing = machine.run("--remove")
    machine.run()
    gone = machine.run("--remove")

    assert nothing.returncode == 1
    assert "There is nothing to remove" in nothing.stderr
    assert gone.returncode == 0, gone.stderr
    assert machine.find_calls("ad", "app", "delete") == [
        ["ad", "app", "delete", "--id", "client-1"]
    ]
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == ""


@needs_posix
@pytest.mark.parametrize("words", [["--remove"], []])
def test_deleted_registration_is_created_again(tmp_path: Path, words: list[str]) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.run()
    machine.delete()
    done = machine.run(*words)

    assert done.returncode == 0, done.stderr
    assert len(machine.find_calls("ad", "app", "delete")) == 1
    assert len(machine.find_calls("ad", "app", "create")) == (1 if words else 2)
    assert machine.values["AZURE_AUTH_CLIENT_ID"] == ("" if words else "client-1")


@needs_posix
def test_allowed_apps_stay_allowed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_ALLOWED_CLIENTS": "mine"})
    machine.run("--allow-azure-cli")
    machine.run("--allow-azure-cli")

    assert machine.values["AZURE_AUTH_ALLOWED_CLIENTS"] == f"mine,{CLI}"


@needs_posix
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
    assert machine.find_calls("ad") == []


@needs_posix
@pytest.mark.parametrize(
    "step",
    [
        "ad app create",
        "rest --method PATCH",
        "ad app show",
        "ad sp create",
        "ad sp show",
        "ad app federated-credential list",
        "ad app federated-credential create",
        "rest --method GET",
        "rest --method POST",
    ],
)
def test_run_after_a_failed_one_completes_the_registration(step: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    failed = machine.run_with_limits(REFUSED=json.dumps([step.split(), 1000]))
    again = machine.run()
    roles = [role["value"] for role in machine.roles()[-1]]

    assert failed.returncode == 1
    assert "ERROR: not found" in failed.stderr
    assert "failed with exit status 1. Correct what it reports, then run" in failed.stderr
    assert again.returncode == 0, again.stderr
    assert again.stdout.endswith("Done. Now run: azd provision\n")
    assert len(machine.find_calls("ad", "app", "create")) == 1
    assert len(machine.find_calls("ad", "app", "federated-credential", "create")) == 1
    assert roles == ["Chat.Admin", "Chat.User"]
    assert len(machine.assignments()) == 1
    assert machine.field_values("appRoleAssignmentRequired")[-1] is True


@needs_posix
@pytest.mark.parametrize("step", ["rest --method GET", "rest --method POST"])
def test_failed_assignment_says_that_all_else_is_done(step: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    done = machine.run_with_limits(REFUSED=json.dumps([step.split(), 1000]))

    assert done.returncode == 1
    assert "You may sign in only when somebody assigns you (docs/sign-in.md)." in done.stderr
    assert "Done." not in done.stdout


@needs_posix
def test_requests_to_a_new_registration_are_repeated(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    done = machine.run_with_limits(REFUSED=json.dumps([["rest", "--method", "PATCH"], 2]))

    assert done.returncode == 0, done.stderr
    assert "az rest failed (try 1 of 3; the next one in 0.01 seconds)" in done.stderr
    assert machine.authorized() == {VS_CODE: [SCOPE_ID]}


@needs_posix
@pytest.mark.parametrize("name", ["az", "azd"])
def test_missing_program_is_named_with_its_page(name: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    (tmp_path / name).unlink()
    done = machine.run(PATH=str(tmp_path))

    assert done.returncode == 1
    assert re.fullmatch(rf"Install {name} first: https://learn\.microsoft\.com/\S+\n", done.stderr)
    assert machine.calls.read_text() == ""


@needs_posix
def test_program_that_cannot_start_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.install("az", "#!/no/such/interpreter\n")
    done = machine.run()

    assert done.returncode == 1
    assert f"{tmp_path / 'az'} cannot start" in done.stderr
    assert "Install az again: https://learn.microsoft.com/" in done.stderr


@needs_posix
def test_hanging_az_is_ended_with_its_children(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.install("az", HANGING_AZ)
    # It returns only when no process is left that holds its error output.
    done = machine.run_with_limits(seconds=5)

    assert done.returncode == 1
    assert "az account show has not ended within 5 seconds. Check the network" in done.stderr
    assert "run this script again" in done.stderr


@needs_posix
def test_ctrl_c_ends_az_and_the_script(tmp_path: Path) -> None:
    machine = Machine(tmp_path, PROVISIONED)
    machine.install("az", HANGING_AZ)
    script = subprocess.Popen(
        [sys.executable, SCRIPT], env=machine.variables(), stderr=subprocess.PIPE, text=True
    )
    assert script.stderr is not None
    started = script.stderr.readline()
    time.sleep(0.2)
    script.send_signal(signal.SIGINT)
    _, errors = script.communicate(timeout=30)

    assert started == "hangs\n"
    assert script.returncode == 130
    assert errors == "Stopped. Run it again: it continues where it stopped.\n"


@needs_posix
def test_script_runs_in_folders_with_spaces(tmp_path: Path) -> None:
    tools, project, temporary = (tmp_path / name for name in ("my tools", "my app", "my temp"))
    for folder in (tools, temporary):
        folder.mkdir()
    ignored = shutil.ignore_patterns("scripts_env", "__pycache__")
    shutil.copytree(ROOT / "scripts", project / "scripts", ignore=ignored)
    machine = Machine(tools, PROVISIONED, project=project)
    done = machine.run(TMPDIR=str(temporary))

    assert done.returncode == 0, done.stderr
    assert len(machine.assignments()) == 1
    assert list(temporary.iterdir()) == []


@needs_posix
def test_every_call_of_az_can_pass_through_the_command_interpreter_of_windows(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, PROVISIONED | {"AZURE_AUTH_CLIENT_ID": "client-1"})
    machine.run("--allow-azure-cli")
    machine.run("--remove")
    lines = Path(f"{machine.calls}.raw").read_text().splitlines()
    calls = [json.loads(line) for line in lines]

    assert len(calls) > 10
    assert all(command_line(["az.cmd", *call], windows=True) for call in calls)


def test_older_python_is_named_in_a_sentence(tmp_path: Path) -> None:
    done = Machine(tmp_path, {}).python("-c", OLD_PYTHON, str(SCRIPT), "--remove")

    assert done.returncode == 1
    assert done.stderr == (
        "scripts/sign_in.py needs Python 3.11 or later, and this is Python 3.10.9: install one "
        "from https://www.python.org/downloads/\n"
    )


def older_pythons() -> list[str]:
    """Find the Python interpreters of this machine that are too old for the script."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    compare = "import sys; sys.exit(sys.version_info < (3, 11))"
    paths = [path for path in pyenv.glob("versions/*/bin/python") if path.exists()]
    paths += map(Path, filter(None, map(shutil.which, ("python2.7", "python3.9", "python3.10"))))
    runs = [subprocess.run([path, "-c", compare], capture_output=True) for path in paths]
    return [str(run.args[0]) for run in runs if run.returncode == 1]


def test_older_python_can_parse_the_script() -> None:
    pythons = older_pythons()
    if not pythons:
        pytest.skip("there is no Python before 3.11 on this machine")
    for python in pythons:
        done = subprocess.run([python, SCRIPT], capture_output=True, text=True, timeout=60)

        assert done.returncode == 1
        assert done.stderr.startswith("scripts/sign_in.py needs Python 3.11 or later"), python


def test_script_has_no_syntax_that_python_2_lacks() -> None:
    nodes = ast.walk(ast.parse(SCRIPT.read_text("ascii")))
    newer = ast.JoinedStr | ast.AnnAssign | ast.NamedExpr | ast.FunctionDef | ast.Match

    assert [node for node in nodes if isinstance(node, newer)] == []


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
def test_every_route_but_health_page_and_openai_needs_a_key(settings: dict[str, str]) -> None:
    calls = key_levels(**settings)
    names = [name for name in calls if name.startswith(("v1_", "openai_"))]
    page = ("health", "root", "page", "config", "auth_setup")

    assert {calls.pop(name) for name in page} == {"ANONYMOUS"}
    assert {calls.pop(name) for name in names} == {"ANONYMOUS"}
    assert len(names) == sum(map(len, (OPENAI_ROUTES, RESPONSES_ROUTES, FILES_ROUTES)))
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
