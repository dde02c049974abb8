"""Gives the app its roles on resources that existed before, or prints how somebody else can.

Bicep does not: without the right to give them, its deployment would fail as a whole.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from azure.core import AsyncPipelineClient
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError
from azure.core.pipeline.policies import AsyncBearerTokenCredentialPolicy, AsyncRetryPolicy
from azure.core.rest import AsyncHttpResponse, HttpRequest

from scripts.role_assignment import CALL_MODELS, RoleAssignment
from scripts.switches import EXISTING_OPENAI, EXISTING_SEARCH
from scripts.uploads_roles import upload_roles

RESOURCE_MANAGER = "AZURE_RESOURCE_MANAGER_URL"
AUTHORIZATION_VERSION, SEARCH_VERSION = "2022-04-01", "2025-05-01"
PUBLIC_CLOUD = "https://management.azure.com/"
READ_INDEX = ("Search Index Data Reader", "1407120a-92aa-4202-b7e9-c0e197c71c8f")
REQUEST_SECONDS = 30
TOTAL_SECONDS = 120  # of a request with its retries: a Retry-After may be longer
RETRIES = 3
KEYS_ONLY = (
    "The search service {resource} accepts keys alone, and the app has none. Let identities in:\n"
    "{command}"
)


class ResourceManagerError(Exception):
    """Azure Resource Manager refused or did not answer; the message says what to do."""


def role_assignments(environment: Mapping[str, str]) -> Iterator[RoleAssignment]:
    """Yield the assignments that the existing resources need, by the outputs of azd."""
    app = environment.get("SERVICE_API_IDENTITY_PRINCIPAL_ID", ""), "ServicePrincipal"
    person = environment.get("AZURE_INDEXER_ID", ""), environment.get("AZURE_INDEXER_TYPE", "User")
    group = environment.get("AZURE_INDEXERS_GROUP_ID_IN_USE", ""), "Group"
    service = environment.get("AZURE_SEARCH_PRINCIPAL_ID", ""), "ServicePrincipal"  # a new one's
    readers = (app, person)  # a person, for `make run` on a laptop
    callers = (app, person, group, service)  # who indexes calls the embedding model
    if search := environment.get(EXISTING_SEARCH):
        yield from (RoleAssignment(search, *READ_INDEX, *one) for one in readers if one[0])
    if openai := environment.get(EXISTING_OPENAI):
        yield from (RoleAssignment(openai, *CALL_MODELS, *one) for one in callers if one[0])
    yield from upload_roles(environment)


async def prepare_existing_resources(
    environment: Mapping[str, str], credential: AsyncTokenCredential, **options: Any
) -> tuple[list[str], bool]:
    """Give the roles. Returns messages, and whether nothing is left to do for somebody else.

    `options` are those of the SDK's transport. Raises ResourceManagerError.
    """
    assignments = list(role_assignments(environment))
    if not assignments:
        return [], True
    messages, complete = [], True
    async with connect(environment, credential, options) as client:
        for assignment in assignments:
            granted = await grant(client, assignment)
            complete = complete and granted
            messages.append(assignment.describe(granted))
        search = environment.get(EXISTING_SEARCH)
        if search and await accepts_keys_only(client, search):
            messages.append(KEYS_ONLY.format(resource=search, command=identity_command(search)))
            complete = False
    return messages, complete


@asynccontextmanager
async def connect(
    environment: Mapping[str, str], credential: AsyncTokenCredential, options: Mapping[str, Any]
) -> AsyncIterator[AsyncPipelineClient[HttpRequest, AsyncHttpResponse]]:
    """A client of Azure Resource Manager, in the cloud that was deployed to."""
    url = (environment.get(RESOURCE_MANAGER) or PUBLIC_CLOUD).rstrip("/")
    policies = [
        AsyncRetryPolicy(retry_total=RETRIES),
        AsyncBearerTokenCredentialPolicy(credential, f"{url}/.default"),
    ]
    client: AsyncPipelineClient[HttpRequest, AsyncHttpResponse]
    client = AsyncPipelineClient(url, policies=policies, **options)
    async with client:
        yield client


async def grant(client: Any, assignment: RoleAssignment) -> bool:
    """Give a role; False if the signed-in user may not. Raises ResourceManagerError."""
    parameters = {"api-version": AUTHORIZATION_VERSION}
    status, _ = await send(client, "PUT", assignment.path, parameters, assignment.body)
    if status in (200, 201, 409):  # 409: the principal has the role already
        return True
    if status == 403:
        return await is_assigned(client, assignment)
    raise failure(status, assignment.resource_id)


async def is_assigned(client: Any, assignment: RoleAssignment) -> bool:
    """Whether somebody else has given the role; False if the user may not read that."""
    path = f"{assignment.resource_id}/providers/Microsoft.Authorization/roleAssignments"
    condition = quote(f"principalId eq '{assignment.principal_id}'")
    parameters = {"api-version": AUTHORIZATION_VERSION, "$filter": condition}
    status, page = await send(client, "GET", path, parameters)
    entries = (entry.get("properties", {}) for entry in page.get("value", ()))
    roles = [str(properties.get("roleDefinitionId", "")) for properties in entries]
    return status == 200 and any(role.endswith(assignment.role_id) for role in roles)


async def accepts_keys_only(client: Any, search_id: str) -> bool:
    """Whether a search service refuses identities; False if the user may not read it."""
    status, service = await send(client, "GET", search_id, {"api-version": SEARCH_VERSION})
    if status == 403:
        return False
    if status != 200:
        raise failure(status, search_id)
    properties = service.get("properties") or {}
    options = properties.get("authOptions") or {}
    return not properties.get("disableLocalAuth") and "aadOrApiKey" not in options


def identity_command(search_id: str) -> str:
    """The command that lets identities into a search service, beside keys."""
    parts = search_id.split("/")
    words = ["az", "search", "service", "update", "--resource-group", parts[4], "--name", parts[-1]]
    options = ["--auth-options", "aadOrApiKey", "--aad-auth-failure-mode", "http403"]
    return shlex.join(words + options + ["--subscription", parts[2]])


async def send(
    client: Any, method: str, path: str, parameters: Mapping[str, str], body: Any = None
) -> tuple[int, dict[str, Any]]:
    """Send a request. Returns status and JSON object. Raises ResourceManagerError."""
    url = client.format_url(quote(path))
    request = HttpRequest(method, url, params=dict(parameters), json=body)
    limits = {"connection_timeout": REQUEST_SECONDS, "read_timeout": REQUEST_SECONDS}
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            response = await client.send_request(request, **limits)
            await response.read()
        value = response.json() if response.content else {}
    except (AzureError, TimeoutError, ValueError) as error:
        raise ResourceManagerError(
            f"Azure Resource Manager did not answer ({type(error).__name__}): is `azd auth login` "
            "still valid? `azd hooks run postprovision` tries again."
        ) from error
    return response.status_code, value if isinstance(value, dict) else {}


def failure(status: int, resource_id: str) -> ResourceManagerError:
    """The error for a status that no retry mends."""
    hint = "does it exist, in this tenant?" if status == 404 else "its id must be a resource id."
    return ResourceManagerError(f"Azure responds with {status} for {resource_id}: {hint}")
