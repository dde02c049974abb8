"""Evaluates main.bicep for a set of azd's variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support import bicep
from tests.support.bicep_values import BicepFile, Parser

SEARCH_ID = "/subscriptions/1b2c/resourceGroups/g/providers/Microsoft.Search/searchServices/theirs"
OPENAI_ID = "/subscriptions/1b2c/resourceGroups/g/providers/Microsoft.CognitiveServices/accounts/m"
LOGS_ID = (
    "/subscriptions/1b2c/resourceGroups/g/providers/Microsoft.OperationalInsights/workspaces/l"
)
PERSON = {
    "AZURE_ENV_NAME": "chat-dev",
    "AZURE_LOCATION": "swedencentral",
    "AZURE_OPENAI_LOCATION": "eastus2",
    "AZURE_PRINCIPAL_ID": "person",
}
SIGN_IN = {"AZURE_AUTH_CLIENT_ID": "client"}
PRIVATE = {"AZURE_USE_VNET": "true"}


def read_value(kind: str, value: str) -> Any:
    """Return a variable's value by the type of its parameter, as azd reads it."""
    if kind == "string":
        return value
    if kind == "object":
        return json.loads(value or "{}")
    return json.loads(value)


def parameters(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of main.bicep that azd fills from its variables."""
    kinds = bicep.params("main.bicep")
    environment = {**PERSON, **variables}
    return {
        name: read_value(kinds[name].kind, environment.get(variable, default or ""))
        for name, variable, default in bicep.parameters_file()
    }


def deployment(variables: Mapping[str, str]) -> dict[str, BicepFile]:
    """Return the modules that are deployed, with their parameters."""
    return dict(BicepFile("main.bicep", parameters(variables)).modules())


def limits(param: bicep.Param) -> dict[str, Any]:
    """Return the decorators of a parameter that limit its value."""
    names = ("allowed", "minValue", "maxValue", "minLength", "maxLength")
    starts = {name: param.decorators.find(f"@{name}(") + len(f"@{name}(") for name in names}
    return {
        name: Parser(param.decorators, start).expression()({})
        for name, start in starts.items()
        if f"@{name}(" in param.decorators
    }
