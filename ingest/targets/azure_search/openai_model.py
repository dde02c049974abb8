"""A deployment of Azure OpenAI in the definitions of Azure AI Search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """A deployment that a knowledge base or a knowledge source calls by itself."""

    endpoint: str
    deployment: str
    name: str  # of its model

    def to_json(self) -> Mapping[str, Any]:
        """Return the model of a definition. The service signs in with its own identity."""
        parameters = {
            "resourceUri": self.endpoint.rstrip("/"),
            "deploymentId": self.deployment,
            "modelName": self.name,
        }
        return {"kind": "azureOpenAI", "azureOpenAIParameters": parameters}
