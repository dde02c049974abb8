"""The files that azd and the Functions host read: azure.yaml, the hook, host.json."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from packaging.version import Version

from scripts.after_provision import REQUIRED_OUTPUTS
from scripts.checks.preprovision import BOOLEAN
from scripts.local_settings import AZD_OUTPUTS
from scripts.switches import is_on
from shared.settings import Settings
from tests.support.packaging import referenced_files
from tests.support.servers import ROOT
from tests.support.uploads_package import UPLOADS_SERVICE

MAIN = ROOT / "infra" / "main.bicep"
PARAMETERS = ROOT / "infra" / "main.parameters.json"
WORKFLOW = ROOT / ".github" / "workflows" / "azure-dev.yml"
API_SERVICE: dict[str, Any] = {
    "api": {
        "project": ".",
        "language": "python",
        "host": "function",
        "hooks": {
            "prepackage": {"run": "scripts/package/prepackage.py"},
            "postpackage": {"run": "scripts/package/postpackage.py"},
        },
    }
}
SERVICES = [API_SERVICE, UPLOADS_SERVICE]
# Variables that azd or the workflow sets.
OF_AZD = {"AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_PRINCIPAL_ID", "AZURE_PRINCIPAL_TYPE"}
needs_infra = pytest.mark.skipif(not MAIN.exists(), reason="there is no infra/main.bicep")


@pytest.fixture(scope="module")
def azure() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "azure.yaml").read_text("utf-8"))
    return document


def test_azure_yaml_has_exactly_these_keys(azure: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", azure["name"])  # a fork has its own
    assert azure | {"pipeline": {}} == {
        "name": azure["name"],
        "metadata": {"template": "serverless-rag-chat-python@0.1.0"},
        "requiredVersions": {"azd": ">= 1.25.6"},
        "services": {name: each for service in SERVICES for name, each in service.items()},
        "hooks": {
            "preprovision": {"run": "scripts/checks/preprovision.py"},
            "postprovision": {"run": "scripts/postprovision.py", "interactive": True},
            "postdeploy": {"run": "scripts/checks/postdeploy.py", "interactive": True},
        },
        "pipeline": {},
    }
    assert azure["pipeline"].keys() >= {"variables"}


@pytest.mark.part("openai")
def test_pipeline_has_variables_and_secrets(azure: dict[str, Any]) -> None:
    assert azure["pipeline"].keys() == {"variables", "secrets"}


def test_hook_has_its_own_requirements(
    azure: dict[str, Any],
) -> None:
    script = ROOT / azure["hooks"]["postprovision"]["run"]
    # azd prefers pyproject.toml to requirements.txt, and would install the project.
    requirements = [
        name for name in ("pyproject.toml", "requirements.txt") if (script.parent / name).exists()
    ]
    lines = (script.parent / "requirements.txt").read_text("utf-8").splitlines()

    assert script.suffix == ".py"
    assert script.is_file()
    assert requirements == ["requirements.txt"]
    for line in lines:
        if line.startswith("-r "):
            assert (script.parent / line.removeprefix("-r ")).is_file(), line


@pytest.mark.part("ingestion")
def test_hook_does_not_install_numpy() -> None:
    """Its wheels are for fewer versions of Python than those of the other requirements."""
    files = referenced_files(ROOT / "scripts", "requirements.txt")
    lines = [line for file in files for line in (ROOT / "scripts" / file).read_text().splitlines()]

    assert [line for line in lines if line.startswith("pypdf")] != []
    assert [line for line in lines if line.startswith("numpy")] == []


def test_hook_environment_is_ignored_by_git_and_the_package() -> None:
    for name in (".gitignore", ".funcignore"):
        lines = (ROOT / name).read_text("utf-8").split()
        assert {"*_env", "*_env/"} & set(lines), name


def test_workflow_has_every_pipeline_variable(azure: dict[str, Any]) -> None:
    job = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["deploy"]
    variables = {name for name, value in job["env"].items() if f"vars.{name} " in str(value)}
    always = {f"AZURE_{name}" for name in ("CLIENT_ID", "TENANT_ID", "SUBSCRIPTION_ID")}

    secret = {name for name, value in job["env"].items() if f"secrets.{name} " in str(value)}
    assert variables - always - OF_AZD == set(azure["pipeline"]["variables"])
    assert secret == set(azure["pipeline"].get("secrets", ()))
    assert job["env"]["AZURE_PRINCIPAL_TYPE"] == "ServicePrincipal"


def test_workflow_gives_each_variable_its_own_value() -> None:
    environment = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["deploy"]["env"]
    objects = ("AZURE_TAGS", "AZURE_RESOURCE_NAMES", "AZURE_APP_SETTINGS")
    others = {"AZURE_PRINCIPAL_TYPE", *objects, "AZURE_LOAD_SAMPLES"}
    plain = {name: value for name, value in environment.items() if name not in others}

    assert {name: re.sub(r"\b(vars|secrets)\.", "", value) for name, value in plain.items()} == {
        name: f"${{{{ {name} }}}}" for name in plain
    }
    # An empty text is no JSON object, and azd would stop.
    for name in objects:
        assert environment[name].endswith(f" vars.{name} || '{{}}' }}}}"), name


def test_workflow_knows_every_spelling_of_true_that_turns_the_network_on() -> None:
    value = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["deploy"]["env"][
        "AZURE_LOAD_SAMPLES"
    ]
    match = re.fullmatch(
        r"\$\{\{ vars\.AZURE_LOAD_SAMPLES \|\| \(contains\(fromJSON\('(.+)'\), "
        r"vars\.AZURE_USE_VNET\) && 'false' \|\| ''\) \}\}",
        value,
    )

    assert match
    words = json.loads(match[1])
    assert all(is_on({"AZURE_USE_VNET": word.upper()}, "AZURE_USE_VNET") for word in words)
    # What preprovision lets through, which is what azd can parse.
    spellings = [word for word in BOOLEAN.pattern.split("|") if is_on({"X": word}, "X")]
    assert {word.lower() for word in spellings} == set(words)


def test_workflow_runs_one_at_a_time_and_only_where_azure_is_set_up() -> None:
    document = yaml.safe_load(WORKFLOW.read_text("utf-8"))

    assert document["concurrency"] == {"group": "azure-dev", "cancel-in-progress": False}
    assert document["jobs"]["deploy"]["if"] == "vars.AZURE_CLIENT_ID != ''"
    assert document[True]["push"] == {"branches": ["main"]}  # `on` is true in YAML


@needs_infra
def test_pipeline_can_set_every_parameter(azure: dict[str, Any]) -> None:
    values = json.loads(PARAMETERS.read_text("utf-8"))["parameters"].values()
    read = {name for one in values for name in re.findall(r"\$\{(\w+)", str(one["value"]))}

    pipeline = azure["pipeline"]
    of_hooks = {"AZURE_LOAD_SAMPLES", "AZURE_BUDGET_AMOUNT"}
    assert {*pipeline["variables"], *pipeline.get("secrets", ())} == read - OF_AZD | of_hooks


@needs_infra
def test_bicep_outputs_what_the_hook_reads() -> None:
    outputs = set(re.findall(r"^output (\w+) ", MAIN.read_text("utf-8"), re.MULTILINE))

    assert set(AZD_OUTPUTS) <= outputs


def test_app_reads_the_settings_that_the_hook_writes() -> None:
    aliases = {field.alias for field in Settings.model_fields.values()}

    assert set(AZD_OUTPUTS) <= aliases
    assert set(REQUIRED_OUTPUTS) <= set(AZD_OUTPUTS)


def test_function_timeout_exceeds_the_answer_timeout() -> None:
    host = json.loads((ROOT / "host.json").read_text("utf-8"))
    hours, minutes, seconds = map(int, host["functionTimeout"].split(":"))
    (most,) = (
        one.le
        for one in Settings.model_fields["answer_timeout_seconds"].metadata
        if hasattr(one, "le")
    )

    assert hours * 3600 + minutes * 60 + seconds > most


def test_host_telemetry_is_sampled_except_requests() -> None:
    host = json.loads((ROOT / "host.json").read_text("utf-8"))
    sampling = host["logging"]["applicationInsights"]["samplingSettings"]

    assert sampling == {"isEnabled": True, "excludedTypes": "Request;Trace"}


def test_sample_of_local_settings_needs_no_storage_and_no_key() -> None:
    sample = json.loads((ROOT / "local.settings.sample.json").read_text("utf-8"))

    assert sample["IsEncrypted"] is False
    assert sample["Values"]["FUNCTIONS_WORKER_RUNTIME"] == "python"
    assert sample["Values"]["AzureWebJobsStorage"] == ""
    assert "*" not in sample["Host"]["CORS"]


def test_workflow_and_devcontainer_install_the_same_azd(azure: dict[str, Any]) -> None:
    steps = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["deploy"]["steps"]
    (setup,) = (step for step in steps if step.get("uses", "").startswith("Azure/setup-azd@"))
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    (feature,) = (it for name, it in container["features"].items() if "/azure-dev/azd:" in name)
    minimum = azure["requiredVersions"]["azd"].removeprefix(">= ")
    version = setup["with"]["version"]

    assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{version} is a moving version"
    assert feature.get("version") == version
    assert Version(version) >= Version(minimum)
