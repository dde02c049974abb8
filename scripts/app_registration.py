"""The app registration in Entra ID: every step writes all that it stands for, and can be repeated.

The registration has no secret: the app's own identity vouches for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from scripts.commands import INSTALL_PAGES, CommandError, Program, json_file, report

GRAPH = "https://graph.microsoft.com/v1.0"
# Microsoft's applications, the same in every tenant. infra/modules/app.bicep has the second, too.
AZURE_CLI = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"
VISUAL_STUDIO_CODE = "aebc6443-996d-45c2-90f0-388ff96faa56"
# Ids that this project has chosen: a later run recognizes by them what an earlier one created.
SCOPE_ID = "6b1f7a52-4c3e-4d0b-9a55-0f8f7d1c2e90"
ADMIN_ROLE_ID = "4d2c8e1b-93a7-4f56-b1d8-5e0a7c6f2b34"
USER_ROLE_ID = "a3f0c5d7-2b18-4e69-8c47-91d6e2b7f058"

SCOPE = {
    "id": SCOPE_ID,
    "value": "user_impersonation",
    "type": "User",
    "isEnabled": True,
    "adminConsentDisplayName": "Ask the chat",
    "adminConsentDescription": "Ask the chat as the signed-in user",
    "userConsentDisplayName": "Ask the chat",
    "userConsentDescription": "Ask the chat in your name",
}
USER_ROLE = "Chat.User"
# The script assigns the user who runs it to Chat.User, and nobody to Chat.Admin.
ROLES: tuple[dict[str, Any], ...] = (
    {
        "id": ADMIN_ROLE_ID,
        "value": "Chat.Admin",
        "isEnabled": True,
        "allowedMemberTypes": ["User", "Application"],
        "displayName": "Chat administrator",
        "description": "May change the pipelines of the deployment",
    },
    {
        "id": USER_ROLE_ID,
        "value": USER_ROLE,
        "isEnabled": True,
        "allowedMemberTypes": ["User", "Application"],
        "displayName": "Chat user",
        "description": "May sign in",
    },
)
# The properties of a role that Graph accepts in a request: it refuses `origin`.
ROLE_PROPERTIES = ("allowedMemberTypes", "description", "displayName", "id", "isEnabled", "value")

CALLBACK = "/.auth/login/aad/callback"  # of App Service's sign-in
# A registration without it was made by somebody else.
TAG = "serverless-rag-chat"
ANOTHER_APPLICATION = (
    "Nothing was changed: the registration {name} exists ({id}), and this script has not made it. "
    "Rename or delete it; or, to use it for this app, run: azd env set AZURE_AUTH_CLIENT_ID {id}"
)
NOT_FOUND_STATUS = 3  # the exit status of az for what does not exist
NOT_ASSIGNED_MESSAGE = (
    "You may sign in only when somebody assigns you (docs/sign-in.md). All else is done; then run: "
    "azd provision"
)


def application_name(environment: str, subscription: str) -> str:
    """Return the display name: two subscriptions of a tenant may have environments of one name."""
    digest = sha256(f"{subscription}/{environment}".encode()).hexdigest()
    return f"chat {environment} ({digest[:8]})"


def find_application(az: Program, name: str) -> str:
    """Return the client id of this script's registration of a display name; empty if there is none.

    Raises CommandError if another one has the name: `az ad app create` would change it.
    """
    query = ("--filter", f"displayName eq '{name}'", "--query", "[].{id: appId, tags: tags}")
    applications = json.loads(az.run("ad", "app", "list", *query, "--output", "json"))
    for application in applications:
        if TAG not in (application["tags"] or ()):
            raise CommandError(ANOTHER_APPLICATION.format(name=name, **application))
    return str(applications[0]["id"]) if applications else ""


def create_application(az: Program, name: str) -> str:
    """Create the registration; return its client id. Raises CommandError."""
    create = ("ad", "app", "create", "--display-name", name)
    return az.run(
        *create, "--sign-in-audience", "AzureADMyOrg", "--query", "appId", "--output", "tsv"
    )


def is_deleted(az: Program, client_id: str) -> bool:
    """Whether somebody has deleted the registration. Raises CommandError."""
    result = az.try_run("ad", "app", "show", "--id", client_id, "--output", "none", quiet=True)
    return result.status == NOT_FOUND_STATUS


def delete_application(az: Program, client_id: str) -> None:
    """Delete the registration, unless somebody has done so. Raises CommandError."""
    if not is_deleted(az, client_id):
        az.run("ad", "app", "delete", "--id", client_id)


def write_application(az: Program, client_id: str, uri: str, allow_azure_cli: bool) -> None:
    """Write the properties of the registration. Raises CommandError.

    They are written whole, with what others have added to the lists, so that a further run corrects
    them. The scope must exist before an application is authorized for it: by a second request.
    """
    path = f"applications(appId='{client_id}')"
    current = read_application(az, client_id)
    properties = application_properties(client_id, uri, current)
    clients = (VISUAL_STUDIO_CODE, AZURE_CLI) if allow_azure_cli else (VISUAL_STUDIO_CODE,)
    for authorized in ((), clients):
        applications = authorized_applications(current["authorized"], authorized)
        properties["api"]["preAuthorizedApplications"] = applications
        send_to_graph(az, "PATCH", path, properties)


def read_application(az: Program, client_id: str) -> dict[str, list[Any]]:
    """Return the lists of the registration that others may add to. Raises CommandError."""
    scopes = f"api.oauth2PermissionScopes[].{select(SCOPE)}"
    authorized = f"api.preAuthorizedApplications[].{select(('appId', 'delegatedPermissionIds'))}"
    parts = {
        "identifierUris": "identifierUris",
        "redirectUris": "web.redirectUris",
        "tags": "tags",
        "scopes": scopes,
        "authorized": authorized,
    }
    query = "{" + ", ".join(f"{name}: {path}" for name, path in parts.items()) + "}"
    return {name: values or [] for name, values in read_properties(az, client_id, query).items()}


def authorized_applications(
    current: Sequence[dict[str, Any]], clients: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the applications that need no consent: `clients`, and those that others added.

    Without --allow-azure-cli, the Azure CLI is none of them.
    """
    scopes = {one["appId"]: one["delegatedPermissionIds"] for one in current}
    scopes.pop(AZURE_CLI, None)
    for client in clients:
        scopes[client] = with_value(scopes.get(client, ()), SCOPE_ID)
    return [{"appId": client, "delegatedPermissionIds": ids} for client, ids in scopes.items()]


def application_properties(
    client_id: str, uri: str, current: dict[str, list[Any]]
) -> dict[str, Any]:
    """Return the properties of the registration, without the applications that need no consent."""
    scopes = [scope for scope in current["scopes"] if scope["id"] != SCOPE_ID]
    return {
        "identifierUris": with_value(current["identifierUris"], f"api://{client_id}"),
        "tags": with_value(current["tags"], TAG),
        "groupMembershipClaims": "SecurityGroup",
        "web": {
            "redirectUris": with_value(current["redirectUris"], f"{uri}{CALLBACK}"),
            "implicitGrantSettings": {"enableIdTokenIssuance": True},
        },
        "api": {"requestedAccessTokenVersion": 2, "oauth2PermissionScopes": [*scopes, SCOPE]},
    }


def with_value(values: Iterable[str], value: str) -> list[str]:
    """Return the values that others may have added, and one of this script, once."""
    return [*dict.fromkeys([*values, value])]


def write_roles(az: Program, client_id: str) -> list[dict[str, Any]]:
    """Add the roles that are missing; return all roles. Raises CommandError.

    Roles, too, are written whole, and Graph refuses to delete one that is enabled: the roles that
    others created are kept, and so is the id of a role that people are assigned to.
    """
    roles = read_roles(az, client_id)
    known = {role["value"] for role in roles} | {role["id"] for role in roles}
    missing = [role for role in ROLES if known.isdisjoint((role["value"], role["id"]))]
    if missing:
        report("Creating the roles that are missing ...")
        path = f"applications(appId='{client_id}')"
        send_to_graph(az, "PATCH", path, {"appRoles": [*roles, *missing]})
    return [*roles, *missing]


def read_roles(az: Program, client_id: str) -> list[dict[str, Any]]:
    """Return the roles of the registration, as Graph accepts them. Raises CommandError."""
    roles: list[dict[str, Any]] | None = read_properties(
        az, client_id, f"appRoles[].{select(ROLE_PROPERTIES)}"
    )
    return roles or []


def select(names: Iterable[str]) -> str:
    """Return the part of a query that selects these properties."""
    return "{" + ", ".join(f"{name}: {name}" for name in names) + "}"


def read_properties(az: Program, client_id: str, query: str) -> Any:
    """Return properties of the registration, by a query of az. Raises CommandError.

    to_string escapes what is not ASCII. Without it az omits, on Windows, the characters that the
    code page lacks, and what others have named would be written back without them.
    """
    show = ("ad", "app", "show", "--id", client_id, "--output", "tsv")
    text = az.run_with_retries(*show, "--query", f"to_string({query})")
    try:
        return json.loads(text.encode("ascii"))
    except ValueError:
        page = INSTALL_PAGES["az"]
        raise CommandError(f"az ad app show prints no JSON in ASCII: update az, {page}") from None


def write_service_principal(az: Program, client_id: str, assignment_required: bool) -> str:
    """Create the service principal if there is none; return its object id. Raises CommandError."""
    show = ("ad", "sp", "show", "--id", client_id)
    if az.try_run(*show, "--output", "none", quiet=True).status != 0:
        az.run_with_retries("ad", "sp", "create", "--id", client_id, "--output", "none")
    service_id = az.run_with_retries(*show, "--query", "id", "--output", "tsv")
    body = {"appRoleAssignmentRequired": assignment_required}
    send_to_graph(az, "PATCH", f"servicePrincipals/{service_id}", body)
    return service_id


def trust_identity(az: Program, client_id: str, identity: str, tenant: str) -> None:
    """Let the registration trust the app's managed identity. Raises CommandError."""
    credential = ("ad", "app", "federated-credential")
    query = f"[?subject=='{identity}'].name"
    if az.run(*credential, "list", "--id", client_id, "--query", query, "--output", "tsv"):
        return
    report("Trusting the app's identity in the place of a secret ...")
    parameters = {
        "name": f"app-{identity}",
        "issuer": f"https://login.microsoftonline.com/{tenant}/v2.0",
        "subject": identity,
        "audiences": ["api://AzureADTokenExchange"],
    }
    create = (*credential, "create", "--id", client_id, "--output", "none")
    with json_file(parameters) as argument:
        az.run_with_retries(*create, "--parameters", argument)


def assign_user(az: Program, service_id: str, roles: Sequence[dict[str, Any]]) -> None:
    """Assign the user of az to the app. Raises CommandError."""
    show = ("ad", "signed-in-user", "show", "--query", "id", "--output", "tsv")
    user = az.try_run(*show, quiet=True)
    if user.status != 0:
        return report(
            "Nobody is assigned: az is signed in as a service principal. Assign people "
            "(docs/sign-in.md)."
        )
    try:
        assign(az, service_id, user.output, roles)
    except CommandError as error:
        raise CommandError(f"{error}\n{NOT_ASSIGNED_MESSAGE}") from None
    report("Only assigned people can sign in: you, and those you assign (docs/sign-in.md).")


def assign(az: Program, service_id: str, user_id: str, roles: Sequence[dict[str, Any]]) -> None:
    """Give a user the role Chat.User, unless they have a role, directly or by a group."""
    request = ("rest", "--method", "GET", "--uri", f"{GRAPH}/users/{user_id}/appRoleAssignments")
    of_app = ("--uri-parameters", f"$filter=resourceId eq {service_id}")
    if az.run(*request, *of_app, "--query", "value[].appRoleId", "--output", "tsv"):
        return
    report("Assigning you to the app ...")
    # Not the role of zeros: Graph accepts that one only where the registration declares no roles.
    role_ids = [role["id"] for role in roles if role["value"] == USER_ROLE]
    body = {
        "principalId": user_id,
        "resourceId": service_id,
        "appRoleId": role_ids[0] if role_ids else USER_ROLE_ID,
    }
    send_to_graph(az, "POST", f"servicePrincipals/{service_id}/appRoleAssignedTo", body)


def send_to_graph(az: Program, method: str, path: str, body: dict[str, Any]) -> None:
    """Send a request to Microsoft Graph. Raises CommandError."""
    rest = ("rest", "--method", method, "--uri", f"{GRAPH}/{path}", "--output", "none")
    with json_file(body) as argument:
        az.run_with_retries(*rest, "--headers", "Content-Type=application/json", "--body", argument)
