"""The roles that uploads need on resources that existed before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scripts.role_assignment import CALL_MODELS, RoleAssignment
from scripts.switches import EXISTING_OPENAI, EXISTING_SEARCH

WRITE_INDEX = ("Search Index Data Contributor", "8ebe5a00-799e-43f5-93ac-243d3dce84a7")
CREATE_INDEX = ("Search Service Contributor", "7ca78c08-252a-4471-8644-bb5ff32d4ba0")


def upload_roles(environment: Mapping[str, str]) -> Iterator[RoleAssignment]:
    """Yield the assignments, by the outputs of azd; none without uploads."""
    reader = environment.get("SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID", ""), "ServicePrincipal"
    person = environment.get("AZURE_INDEXER_ID", ""), environment.get("AZURE_INDEXER_TYPE", "User")
    if not reader[0]:
        return
    if search := environment.get(EXISTING_SEARCH):
        yield RoleAssignment(search, *WRITE_INDEX, *reader)
        if person[0]:  # this hook creates the index of uploads
            yield RoleAssignment(search, *CREATE_INDEX, *person)
    if openai := environment.get(EXISTING_OPENAI):
        yield RoleAssignment(openai, *CALL_MODELS, *reader)
