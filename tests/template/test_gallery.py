"""The requirements of azd's galleries, as far as files show whether they are met.

They were read on 2026-11-22 in two repositories, and each test names the file:
- microsoft/template-validation-action, commit 7ff95314b5e1 of 2026-04-06: what the action checks;
- Azure-Samples/azd-template-artifacts, commit 4f701d571572 of 2025-04-10: the criteria in words.

What no file can show is left to people: the topics azd-templates and ai-azd-templates of the
repository and its description, `azd up` and `azd down` against Azure, a Codespace that was opened.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import bicep
from tests.support.bicep import app_settings
from tests.support.servers import ROOT

README = (ROOT / "README.md").read_text("utf-8")
# src/rules.json of the action: each at one of these places.
FILES = {
    "README": ["README.md"],
    "LICENSE": ["LICENSE", "LICENSE.md"],
    "SECURITY": ["SECURITY.md", ".github/SECURITY.md"],
    "CODE_OF_CONDUCT": ["CODE_OF_CONDUCT.md", ".github/CODE_OF_CONDUCT.md"],
    "CONTRIBUTING": ["CONTRIBUTING.md", ".github/CONTRIBUTING.md"],
    "ISSUE_TEMPLATE": [".github/ISSUE_TEMPLATE", ".github/ISSUE_TEMPLATE.md"],
    "azure-dev": [".github/workflows/azure-dev.yml", ".github/workflows/azure-dev.yaml"],
    "azure": ["azure.yaml", "azure.yml"],
    "infra": ["infra"],
    "devcontainer": [".devcontainer/devcontainer.json"],
}
# docs/development-guidelines/definition-of-done.md of the artifacts.
CRITERIA = {
    "the devcontainer installs azd by its own feature": (
        ".devcontainer/devcontainer.json",
        r"ghcr\.io/azure/azure-dev/azd:latest",
    ),
    "deployments are GlobalStandard": ("infra/main.parameters.json", "GlobalStandard"),
    "there are tests, and a workflow that runs them": (
        ".github/workflows/tests.yml",
        "make .*test",
    ),
    "the README warns of what must be looked at before production": ("README.md", "(?i)security"),
    "a changelog": ("CHANGELOG.md", "Unreleased"),
}
# .ps-rule/templateCustom.Rule.yaml of the action: the rules for the resources that are here.
WITH_IDENTITY = {  # Azure.AI.ManagedIdentity, and those of AppService and Search
    ("openai", "account"),
    ("app", "site"),
    ("search", "service"),
}
WITHOUT_KEYS = {  # Azure.AI.DisableLocalAuth, Azure.Cosmos.DisableLocalAuth
    ("openai", "account"),
    ("search", "service"),
    ("cosmos", "account"),
}


def resource(module: str, symbol: str) -> bicep.Block:
    return bicep.blocks("resource", f"modules/{module}.bicep")[symbol]


@pytest.mark.parametrize("item", FILES)
def test_file_is_at_one_of_the_places(item: str) -> None:
    assert any((ROOT / place).exists() for place in FILES[item]), FILES[item]


def test_readme_has_the_sections_of_the_gallery() -> None:
    """src/rules.json; the notice is in definition-of-done.md, the guidance in README.md there."""
    guidance = README.partition("\n## Guidance\n")[2].partition("\n## ")[0]

    assert re.findall(r"(?m)^## (.*)", README) == [
        "Features",
        "Getting Started",
        "Important Security Notice",
        "Guidance",
        "Resources",
    ]
    assert {"Regions and quota", "Costs", "Security"} <= set(re.findall(r"(?m)^### (.*)", guidance))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_criterion_is_met(criterion: str) -> None:
    path, words = CRITERIA[criterion]

    assert re.search(words, (ROOT / path).read_text("utf-8"))


def test_action_deploys_one_project() -> None:
    """src/utils.py of the action: `azd up` runs in every folder with an azure.yaml."""
    skipped = {".git", ".venv", "node_modules"}
    projects = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in skipped]
        if {"azure.yaml", "azure.yml"} & set(files):
            projects.append(Path(folder))

    assert projects == [ROOT]


def test_action_can_provision_without_questions() -> None:
    """action.yml: a name, a region and ServicePrincipal are set, and no group is made before."""
    variables = {variable for _, variable, _ in bicep.parameters_file()}

    assert {"AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_PRINCIPAL_TYPE"} <= variables
    assert "targetScope = 'subscription'" in bicep.text("main.bicep")
    assert "AZURE_RESOURCE_GROUP" in bicep.outputs("main.bicep")


def test_action_can_fill_every_required_parameter() -> None:
    """scripts/generate-bicep-test.py of the action: `test`, or the last of the allowed values."""
    required = {
        name: param for name, param in bicep.params("main.bicep").items() if param.default is None
    }

    assert {name: param.kind for name, param in required.items()} == {
        "environmentName": "string",
        "location": "string",
        "openAiLocation": "string",
    }
    assert "@minLength(1)\n@maxLength(64)" in required["environmentName"].decorators
    assert re.search(r"@allowed\(\[\s*([^\]]+)\s*\]\)", required["location"].decorators)


@pytest.mark.parametrize(("module", "symbol"), sorted(WITH_IDENTITY))
def test_service_has_an_identity(module: str, symbol: str) -> None:
    identity = resource(module, symbol).body.partition("\n  identity: ")[2].partition("\n  }")[0]

    assert re.search("type: '(System|User)Assigned'", identity)


@pytest.mark.parametrize(("module", "symbol"), sorted(WITHOUT_KEYS))
def test_service_refuses_keys(module: str, symbol: str) -> None:
    assert resource(module, symbol).value("disableLocalAuth") == "true"


def test_secret_is_in_no_output_and_in_no_plain_parameter() -> None:
    """Azure.Deployment.OutputSecretValue and Azure.Deployment.SecureValue."""
    for file in ("main.bicep", "modules/app.bicep"):
        assert "@secure()" in bicep.params(file)["chatApiKey"].decorators
        assert "chatApiKey" not in " ".join(bicep.outputs(file).values())
    assert "chatApiKey" not in " ".join(app_settings().values())
