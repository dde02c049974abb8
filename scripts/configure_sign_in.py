"""Configures sign-in: the app registration in Entra ID, and what azd has to know of it.

Each run writes all that its options say, so a run after an interrupted one completes the work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from scripts import app_registration
from scripts.commands import CommandError, Limits, Program, find_program, report
from scripts.search_permission import request_search_permission

DESCRIPTION = (
    "Creates or updates the app registration that people sign in with. Run it once after `azd up`, "
    "as someone who may register applications, then run `azd provision`. Only people and groups "
    "that are assigned can sign in: it assigns whoever runs it, docs/sign-in.md assigns others. "
    "Each run sets both options anew."
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What azd knows of a deployment that sign-in needs."""

    application_name: str
    tenant: str
    uri: str
    identity: str


def main(arguments: Sequence[str] | None = None, limits: Limits | None = None) -> int:
    """Run the script. Returns the exit status: 0, 1 after an error, 130 after Ctrl+C."""
    options = parse_options(arguments)
    limits = limits or Limits()
    try:
        az = Program("az", find_program("az"), limits)
        azd = Program("azd", find_program("azd"), limits)
        if options.remove:
            delete_registration(az, azd)
        else:
            register(az, azd, options)
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. Run it again: it continues where it stopped.", file=sys.stderr)
        return 130
    return 0


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options. Wrong ones end the process with status 2."""
    parser = argparse.ArgumentParser(prog="sign_in.py", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "--allow-azure-cli",
        action="store_true",
        help="let the Azure CLI get tokens for the app: az account get-access-token",
    )
    parser.add_argument(
        "--everyone",
        action="store_true",
        help="let everyone in the tenant sign in, guests included, without an assignment",
    )
    parser.add_argument(
        "--remove",
        action="store_true",
        help="delete the registration, which `azd down` does not do; without other options",
    )
    options = parser.parse_args(arguments)
    if options.remove and (options.allow_azure_cli or options.everyone):
        parser.error("--remove cannot be combined with other options")
    return options


def register(az: Program, azd: Program, options: argparse.Namespace) -> None:
    """Create or complete the registration, as the options say. Raises CommandError."""
    deployment = read_deployment(azd)
    check_tenant(az, deployment.tenant)
    client_id = find_or_create_application(az, azd, deployment.application_name)
    report("Writing the registration ...")
    app_registration.write_application(az, client_id, deployment.uri, options.allow_azure_cli)
    request_search_permission(az, client_id, azd_value(azd, "AZURE_APP_SETTINGS"))
    roles = app_registration.write_roles(az, client_id)
    service_id = app_registration.write_service_principal(az, client_id, not options.everyone)
    app_registration.trust_identity(az, client_id, deployment.identity, deployment.tenant)
    write_allowed_clients(azd, options.allow_azure_cli)
    if options.everyone:
        report("Everyone in the tenant may sign in.")
    else:
        app_registration.assign_user(az, service_id, roles)
    if not options.allow_azure_cli:
        report("The Azure CLI gets no tokens for the app; --allow-azure-cli changes that.")
    report("Where a pipeline provisions, it knows the old values: run azd pipeline config again.")
    report("Done. Now run: azd provision")


def delete_registration(az: Program, azd: Program) -> None:
    """Delete the registration. Raises CommandError."""
    client_id = azd_value(azd, "AZURE_AUTH_CLIENT_ID")
    if not client_id:
        raise CommandError("There is nothing to remove: AZURE_AUTH_CLIENT_ID is not set.")
    app_registration.delete_application(az, client_id)
    azd.run("env", "set", "AZURE_AUTH_CLIENT_ID", "")
    report(
        "Removed. Where the app is to stay, run: azd provision (it asks for function keys again)."
    )


def read_deployment(azd: Program) -> Deployment:
    """Read the outputs of `azd up`. Raises CommandError without them."""
    deployment = Deployment(
        application_name=app_registration.application_name(
            azd_value(azd, "AZURE_ENV_NAME"), azd_value(azd, "AZURE_SUBSCRIPTION_ID")
        ),
        tenant=azd_value(azd, "AZURE_TENANT_ID"),
        uri=azd_value(azd, "SERVICE_API_URI"),
        identity=azd_value(azd, "SERVICE_API_IDENTITY_PRINCIPAL_ID"),
    )
    if not (deployment.tenant and deployment.uri and deployment.identity):
        raise CommandError("There is no app yet: run azd up first.")
    return deployment


def azd_value(azd: Program, name: str) -> str:
    """Return a value of azd's environment, or an empty string."""
    result = azd.try_run("env", "get-value", name, quiet=True)
    return result.output if result.status == 0 else ""


def check_tenant(az: Program, tenant: str) -> None:
    """Raise CommandError unless az is signed in to the tenant of the deployment."""
    result = az.try_run("account", "show", "--query", "tenantId", "--output", "tsv")
    if result.status != 0:
        raise CommandError(f"az is not signed in: az login --tenant {tenant}")
    if result.output != tenant:
        raise CommandError(f"az is signed in to another tenant: az login --tenant {tenant}")


def find_or_create_application(az: Program, azd: Program, name: str) -> str:
    """Return the client id of the registration. Raises CommandError.

    azd stores the id at once, so that the next run finds the registration if this one is
    interrupted.
    """
    client_id = azd_value(azd, "AZURE_AUTH_CLIENT_ID")
    if client_id:
        if not app_registration.is_deleted(az, client_id):
            return client_id
        report(f"The registration {client_id} is gone.")
    client_id = app_registration.find_application(az, name)
    if not client_id:
        report("Creating the app registration ...")
        client_id = app_registration.create_application(az, name)
    azd.run("env", "set", "AZURE_AUTH_CLIENT_ID", client_id)
    return client_id


def write_allowed_clients(azd: Program, allow_azure_cli: bool) -> None:
    """Add the Azure CLI to the clients whose tokens the app accepts, or remove it."""
    old = azd_value(azd, "AZURE_AUTH_ALLOWED_CLIENTS")
    clients = [client for client in old.replace(" ", "").split(",") if client]
    clients = [client for client in clients if client != app_registration.AZURE_CLI]
    if allow_azure_cli:
        clients.append(app_registration.AZURE_CLI)
    new = ",".join(clients)
    if new != old:
        azd.run("env", "set", "AZURE_AUTH_ALLOWED_CLIENTS", new)
