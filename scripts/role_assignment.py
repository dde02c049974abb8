"""A role of a principal on a resource: the request that gives it, and the command that does."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

CALL_MODELS = ("Cognitive Services OpenAI User", "5e0bd9bd-7b93-4f28-af87-19fc36ad61bd")
GRANTED = "{role} on {resource}: {principal} has it."
NOT_GRANTED = (
    "You may not give roles on {resource}. Somebody who may has to run this, then "
    "`azd hooks run postprovision`:\n{command}"
)


@dataclass(frozen=True, slots=True)
class RoleAssignment:
    """A role of a principal on a resource, by their ids."""

    resource_id: str
    role: str
    role_id: str
    principal_id: str
    principal_type: str

    @property
    def path(self) -> str:
        """The path of the assignment; the same for the same assignment."""
        name = uuid5(NAMESPACE_URL, f"{self.resource_id}/{self.role_id}/{self.principal_id}")
        return f"{self.resource_id}/providers/Microsoft.Authorization/roleAssignments/{name}"

    @property
    def body(self) -> dict[str, Any]:
        subscription = "/".join(self.resource_id.split("/")[:3])
        definitions = f"{subscription}/providers/Microsoft.Authorization/roleDefinitions"
        properties = {
            "roleDefinitionId": f"{definitions}/{self.role_id}",
            "principalId": self.principal_id,
            "principalType": self.principal_type,
        }
        return {"properties": properties}

    @property
    def command(self) -> str:
        words = ("az", "role", "assignment", "create", "--role", self.role)
        scope = ("--scope", self.resource_id, "--assignee-object-id", self.principal_id)
        return shlex.join((*words, *scope, "--assignee-principal-type", self.principal_type))

    def describe(self, granted: bool) -> str:
        """Return the message for the operator."""
        return (GRANTED if granted else NOT_GRANTED).format(
            role=self.role,
            resource=self.resource_id,
            principal=self.principal_id,
            command=self.command,
        )
