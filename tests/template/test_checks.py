"""The hooks of azd that check: before provisioning the variables, after deployment the app."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import trustme

from scripts import samples
from scripts.checks import first_question, postdeploy, preprovision
from scripts.checks.app_settings import PLATFORM_NAMES, SECRETS
from scripts.checks.postdeploy import WaitPolicy
from shared.settings import Settings, SettingsError, read_settings
from tests.support import bicep
from tests.support.azd import install_azd
from tests.support.bicep import PLATFORM, app_settings
from tests.support.http_server import QuietHandler, run_http_server
from tests.support.servers import ROOT, run_server

CHECKS = ROOT / "scripts" / "checks"
PYTHON = (3, 13)
QUICK = WaitPolicy(pause=0.01)
HEALTHY = (200, b'{"status": "ok", "model": "gpt-5.6-luna"}')
ANSWER = (
    200,
    b'{"delta":{"role":"assistant"},"context":{"data_points":{"text":["a.md: A","b.md: B"]}}}\n'
    b'{"delta":{"content":"The deductible "}}\n{"delta":{"content":"is $1,500."}}\n'
    b'{"delta":{},"finish_reason":"stop"}\n',
)
KEYS = {
    "SERVICE_API_CALLERS": "keys",
    "AZURE_SUBSCRIPTION_ID": "sub",
    "AZURE_RESOURCE_GROUP": "rg-dev",
    "SERVICE_API_NAME": "func-1",
}
SIGN_IN = {"SERVICE_API_CALLERS": "signed-in", "AZURE_AUTH_CLIENT_ID": "client"}
STARTING = (503, b"<h1>503 Service Unavailable</h1>")
SEARCH_ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Search/searchServices/mine"
TYPED = preprovision.typed_variables()


@pytest.mark.parametrize("version", [(3, 10), (3, 15), (2, 7), (4, 0)])
def test_python_that_does_not_fit_is_named(
    version: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    status = preprovision.main({}, version)
    error = capsys.readouterr().err

    assert status == 1
    assert f"Python {version[0]}.{version[1]}: this template needs 3.11 to 3.14" in error
    assert "Nothing was created." in error
    assert f"delete {sys.prefix} if it is a folder of this project" in error


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_supported_python_passes(
    version: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert preprovision.main({}, version) == 0
    assert capsys.readouterr().err == ""


def test_python_without_wheels_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status = preprovision.main({}, PYTHON, "win-arm64")
    error = capsys.readouterr().err

    assert status == 1
    assert "semantic-text-splitter" in error
    assert "Install the 64-bit (x64) Python" in error
    assert "Nothing was created." in error


@pytest.mark.parametrize("platform", ["win-amd64", "macosx-11.0-arm64", "linux-aarch64"])
def test_platforms_with_wheels_pass(platform: str) -> None:
    assert preprovision.main({}, PYTHON, platform) == 0


@pytest.mark.parametrize("file", ["preprovision.py", "postprovision.py"])
def test_hook_can_be_parsed_by_an_old_python(file: str) -> None:
    """Else a SyntaxError would stand in place of the sentence that names the version."""
    path = CHECKS / file if (CHECKS / file).exists() else CHECKS.parent / file

    ast.parse(path.read_text("utf-8"), feature_version=(3, 7))


def test_every_boolean_and_number_of_bicep_is_checked() -> None:
    kinds = {name: param.kind for name, param in bicep.params("main.bicep").items()}
    typed = {
        variable: kinds[name]
        for name, variable, _ in bicep.parameters_file()
        if kinds[name] in ("bool", "int")
    }

    assert {"AZURE_USE_VNET", "AZURE_MEMORY_DAYS"} <= typed.keys()
    switches = ("AZURE_LOAD_SAMPLES", "AZURE_LOCAL_SETTINGS", "AZURE_DEPLOY_INDEX")
    assert typed | dict.fromkeys(switches, "bool") | {"AZURE_BUDGET_AMOUNT": "int"} == TYPED


def test_variable_of_an_earlier_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert preprovision.main({"AZURE_OPENAI_SKU": "DataZoneStandard"}, PYTHON) == 1
    assert "AZURE_OPENAI_CHAT_SKU and AZURE_OPENAI_EMBEDDING_SKU" in capsys.readouterr().err


def test_renamed_variables_have_a_replacement_that_exists() -> None:
    variables = {variable for _, variable, _ in bicep.parameters_file()}
    for name, replacement in preprovision.RENAMED.items():
        assert name not in variables
        assert set(replacement.split(" and ")) <= variables


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("value", ["yes", "on", "tRUE", " true", "1.5", "ten", "1_0"])
def test_value_that_azd_ignores_is_refused(
    name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preprovision.main({name: value}, PYTHON) == 1

    error = capsys.readouterr().err
    assert f"{name} must be " in error
    assert f"azd env set {name} " in error


@pytest.mark.parametrize("name", TYPED)
def test_values_that_azd_parses_pass(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    values = ["", "true", "False", "1"] if TYPED[name] == "bool" else ["", "0", "-1", "40"]

    assert [preprovision.main({**SIGN_IN, name: value}, PYTHON) for value in values] == [0] * 4
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "value", ["203.0.113.8", "203.0.113.8, 198.51.100.0/24", "203.0.113.0/30,", "", " "], ids=repr
)
def test_addresses_that_storage_accepts_pass(value: str) -> None:
    assert preprovision.main({"AZURE_ALLOWED_IPS": value}, PYTHON) == 0


@pytest.mark.parametrize(
    "value",
    [
        "203.0.113.8/32",
        "203.0.113.8/31",
        "10.0.0.1",
        "192.168.0.0/16",
        "203.0.113.8/24",
        "2001:db8::1",
        "home",
    ],
)
def test_address_that_storage_refuses_is_named(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preprovision.main({"AZURE_ALLOWED_IPS": f"198.51.100.9,{value}"}, PYTHON) == 1
    assert f"separated by commas: {value}\n" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["team@example.com", "a.b+c@x.example.org", ""])
def test_email_of_alerts_passes(value: str) -> None:
    assert preprovision.main({"AZURE_ALERT_EMAIL": value}, PYTHON) == 0


@pytest.mark.parametrize("value", ["team", "team@", "@x.y", "a@x.y, b@x.y", "A <a@x.y>", "a@x"])
def test_email_that_is_none_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert preprovision.main({"AZURE_ALERT_EMAIL": value}, PYTHON) == 1
    assert "AZURE_ALERT_EMAIL must be one address" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AZURE_LOCATION": "norwayeast"}, "norwayeast"),
        (
            {"AZURE_LOCATION": "westeurope", "AZURE_SEARCH_LOCATION": "Spain Central"},
            "Spain Central",
        ),
        ({"AZURE_LOCATION": "westeurope"}, None),
        ({"AZURE_LOCATION": "norwayeast", "AZURE_SEARCH_LOCATION": "westeurope"}, None),
        ({"AZURE_LOCATION": "norwayeast", "AZURE_SEARCH_SEMANTIC_RANKER": "disabled"}, None),
        ({"AZURE_LOCATION": "norwayeast", "AZURE_SEARCH_SKU": "free"}, None),
        ({"AZURE_LOCATION": "norwayeast", "AZURE_EXISTING_SEARCH_ID": SEARCH_ID}, None),
        ({}, None),
    ],
)
def test_region_without_the_ranker_is_noted(
    variables: dict[str, str], region: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preprovision.main(variables, PYTHON) == 0

    note = f"no semantic ranker in {region}, so" if region else ""
    error = capsys.readouterr().err
    assert note in error
    assert bool(error) == bool(region)


def test_all_problems_are_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    preprovision.main({"AZURE_USE_VNET": "yes", "AZURE_MEMORY_DAYS": "90d"}, (3, 10))

    assert len(capsys.readouterr().err.splitlines()) == 4


@pytest.mark.parametrize("name", ["AZURE_APP_SETTINGS", "AZURE_TAGS", "AZURE_RESOURCE_NAMES"])
def test_json_that_lost_its_quotes_is_explained(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Windows PowerShell 5.1 passes it to azd."""
    assert preprovision.main({name: "{owner: me}"}, PYTHON) == 1
    assert "PowerShell can drop the quotes" in capsys.readouterr().err


@pytest.mark.parametrize("tags", ["", "owner=me", "[]", '{"cost": 5}', '{"a": {"b": "c"}}'])
def test_tags_that_azd_or_azure_would_refuse_are_named(
    tags: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preprovision.main({"AZURE_TAGS": tags}, PYTHON) == 1
    assert "AZURE_TAGS must be a JSON object of strings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("origins", "valid"),
    [
        ("", True),
        ("https://chat.example.com", True),
        (" https://chat.example.com/ , HTTP://localhost:3000,", True),
        ("chat.example.com", False),
        ("https://chat.example.com/page", False),
        ("https://a.example https://b.example", False),
    ],
)
def test_origins_pass_that_the_app_starts_with(origins: str, valid: bool) -> None:
    assert preprovision.main({"AZURE_ALLOWED_ORIGINS": origins}, PYTHON) == (0 if valid else 1)
    if valid:
        read_settings({"ALLOWED_ORIGINS": origins})
    else:
        with pytest.raises(SettingsError):
            read_settings({"ALLOWED_ORIGINS": origins})


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ('{"search": "contoso-search", "hostStorage": "contosohost1"}', ""),
        ('{"Search": "contoso"}', "Search is none of identity, logs, insights, hostStorage, "),
        ('{"hostStorage": "contoso-host"}', "hostStorage must be 3 to 24 lower-case letters"),
        ('{"search": "Contoso"}', "search must be 2 to 60 lower-case letters"),
        ('{"app": "-chat"}', "app must be 2 to 60 lower-case letters"),
        ('{"app": ""}', "app must be 2 to 60 lower-case letters"),
    ],
)
def test_names_of_resources_are_checked(
    names: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = preprovision.main({"AZURE_RESOURCE_NAMES": names}, PYTHON)

    assert status == (1 if problem else 0)
    assert problem in capsys.readouterr().err


def test_tags_pass() -> None:
    assert preprovision.main({"AZURE_TAGS": "{}"}, PYTHON) == 0
    assert preprovision.main({"AZURE_TAGS": '{"owner": "me", "cost center": "5"}'}, PYTHON) == 0


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("AZURE_EXISTING_SEARCH_ID", "mysearch", "providers/Microsoft.Search/searchServices/NAME"),
        (
            "AZURE_EXISTING_OPENAI_ID",
            "/subscriptions/1/resourceGroups/g/providers/Microsoft.Search/searchServices/s",
            "providers/Microsoft.CognitiveServices/accounts/NAME",
        ),
        ("AZURE_EXISTING_LOG_ANALYTICS_ID", "https://portal.azure.com", "must be a resource id"),
        ("AZURE_INDEXERS_GROUP_ID", "writers", "must be the object id of a group"),
        ("AZURE_INDEXERS_GROUP_ID", "/groups/0f8fad5b-d9cb-469f-a165-70867728950e", "az ad group"),
        ("AZURE_ALLOWED_ORIGINS", "https://chat.example.com,*", "and never *"),
        ("AZURE_VNET_PREFIX", "10.0.0.0/24", "must be a range of /22 or more"),
        ("AZURE_VNET_PREFIX", "10.0.0.1/16", "must be a range of /22 or more"),
        ("AZURE_VNET_PREFIX", "mine", "must be a range of /22 or more"),
    ],
)
def test_value_that_fails_after_resources_are_created_is_refused(
    name: str, value: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preprovision.main({name: value}, PYTHON) == 1

    error = capsys.readouterr().err
    assert f"{name} must be" in error
    assert problem in error


def test_ids_and_prefixes_pass() -> None:
    group = "/subscriptions/1b2c/resourcegroups/their group/providers"
    values = {
        "AZURE_EXISTING_SEARCH_ID": f"{group}/Microsoft.Search/searchServices/theirs",
        "AZURE_EXISTING_OPENAI_ID": f"{group}/Microsoft.CognitiveServices/accounts/theirs",
        "AZURE_EXISTING_LOG_ANALYTICS_ID": f"{group}/microsoft.operationalinsights/workspaces/w",
        "AZURE_INDEXERS_GROUP_ID": "0F8FAD5B-d9cb-469f-a165-70867728950e",
        "AZURE_VNET_PREFIX": "192.168.4.0/22",
    }

    assert preprovision.main(values, PYTHON) == 0


def check_settings(settings: object, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the hook prints about AZURE_APP_SETTINGS; empty if they pass."""
    text = settings if isinstance(settings, str) else json.dumps(settings)
    status = preprovision.main({"AZURE_APP_SETTINGS": text}, PYTHON)
    error = capsys.readouterr().err

    assert status == bool(error)
    return error


def test_all_optional_settings_may_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {
        "DEFAULT_TOP": "5",
        "ALLOW_CLIENT_FILTERS": "true",
        "STRICTNESS_SCORES": "[0, 1, 2, 3, 4]",
        "OPENAI_BASE_URL": "https://api.example.com/v1",
        "OPENAI_CHAT_MODEL": "m",
        "OPENAI_API_KEY": "@Microsoft.KeyVault(SecretUri=https://v.vault.azure.net/secrets/s)",
        "MY_RETRIEVER_URL": "https://search.example.com",
    }

    assert check_settings(settings, capsys) == ""
    assert check_settings({}, capsys) == ""


def test_file_of_variables_in_the_docs_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """Single quotes keep a value as it is (godotenv, by which azd reads the file)."""
    (block,) = re.findall(r"```ini\n(.*?)```", (ROOT / "docs/deploy.md").read_text("utf-8"), re.S)
    variables = dict(re.findall(r"(?m)^(\w+)='([^'\\]+)'$", block))

    assert len(variables) == len(block.splitlines()) == 2
    assert preprovision.main(variables, PYTHON) == 0
    assert capsys.readouterr().err == ""


def test_key_vault_reference_may_stand_for_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    reference = "@Microsoft.KeyVault(SecretUri=https://v.vault.azure.net/secrets/s)"

    assert check_settings({"DEFAULT_TOP": reference}, capsys) == ""


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("", "must be a JSON object"),
        ("DEFAULT_TOP=5", "must be a JSON object"),
        ([], "must be a JSON object"),
        ({"DEFAULT_TOP": 5}, "the values of DEFAULT_TOP must be strings"),
        ({"DEFAULT_TOP": "500"}, "DEFAULT_TOP must be 50 or less"),
        ({"ALLOW_CLIENT_PROMPTS": "maybe"}, "ALLOW_CLIENT_PROMPTS must be true or false"),
        ({"OPENAI_BASE_URL": "https://x"}, "OPENAI_CHAT_MODEL is required with OPENAI_BASE_URL"),
        ({"DEFUALT_TOP": "5"}, "DEFUALT_TOP is not a setting of the app. Is it DEFAULT_TOP?"),
        ({"CALLERS": "anyone"}, "CALLERS is set by infra/main.bicep"),
        ({"AZURE_SEARCH_INDEX": "x"}, "AZURE_SEARCH_INDEX is set by infra/main.bicep"),
        ({"AzureWebJobsStorage": "x"}, "AzureWebJobsStorage is set by the platform"),
        ({"TRUST_SIGN_IN_HEADERS": "true"}, "TRUST_SIGN_IN_HEADERS is set by the platform"),
        ({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}, "is set by the platform"),
        ({"CHAT_API_KEY": "x" * 30}, "CHAT_API_KEY is set by the platform, or has a variable"),
        ({"OPENAI_API_KEY": "sk-secret"}, "OPENAI_API_KEY is a secret"),
        ({"openai_api_key": "sk-"}, "openai_api_key is not a setting of the app. Is it OPENAI_API"),
        ({"My:Setting": "x"}, "My:Setting is no name of a setting"),
        ({"": "x"}, " is no name of a setting"),
    ],
)
def test_setting_that_cannot_be_meant_is_refused(
    settings: object, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = check_settings(settings, capsys)

    assert problem in error
    assert "secret" not in error.replace("is a secret", "")
    assert "x" * 30 not in error


def test_no_setting_of_the_platform_or_of_bicep_may_be_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in app_settings().keys() | PLATFORM:
        assert f"{name} is set by" in check_settings({name: "x"}, capsys), name


def test_secrets_are_those_of_the_settings() -> None:
    secret = {
        str(one.alias)
        for one in Settings.model_fields.values()
        if "SecretStr" in str(one.annotation)
    }

    assert secret == {*SECRETS, "CHAT_API_KEY"}
    assert "CHAT_API_KEY" in PLATFORM_NAMES


def test_hook_and_app_read_settings_by_the_same_pydantic() -> None:
    (line,) = re.findall(
        r"(?m)^(pydantic==.+); (.+)$", (CHECKS / "requirements.txt").read_text("utf-8")
    )

    assert line[0] in (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    assert line[1] == 'python_version >= "3.11" and python_version < "3.15"'


@dataclass
class App:
    """A deployed app whose /health gives these responses, the last one for ever."""

    responses: list[tuple[int, bytes]]
    delay: float = 0.0
    paths: list[str] = field(default_factory=list)
    # What a POST gets: with the header of a caller, by path, the last one for ever; without it.
    header: tuple[str, str] = ("", "")
    streams: list[tuple[int, bytes]] = field(default_factory=lambda: [ANSWER])
    whole: tuple[int, bytes] = (503, b'{"error": "not available"}')
    refusal: int = 401

    def next(self) -> tuple[int, bytes]:
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]

    def answer(self, path: str, headers: Message, body: Any) -> tuple[int, bytes]:
        name, value = self.header
        if name and headers[name] != value:
            return self.refusal, b""
        if "messages" not in body:
            return 400, b'{"error": "messages: is required"}'
        if path == "/chat":
            return self.whole
        return self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]


def serve(
    app: App, add_certificate: Callable[[ssl.SSLContext], None] | None = None
) -> AbstractContextManager[str]:
    """Serve the app on 127.0.0.1, at the address that is returned."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            app.paths.append(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send(*app.answer(self.path, self.headers, body))

        def do_GET(self) -> None:
            app.paths.append(self.path)
            time.sleep(app.delay)
            self.send(*app.next())

        def send(self, status: int, body: bytes) -> None:
            if status == 0:  # closes the connection without a response
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", "https://login.example.com/")
            self.end_headers()
            self.wfile.write(body)

    return run_http_server(Handler, add_certificate)


def check(app: App, policy: WaitPolicy = QUICK, outputs: Mapping[str, str] | None = None) -> int:
    """Run the hook; by default the app lets anybody ask."""
    default = {"SERVICE_API_CALLERS": "anyone"}
    with serve(app) as url:
        return postdeploy.main({"SERVICE_API_URI": f"{url}/", **default, **(outputs or {})}, policy)


def test_app_that_answers_works(capsys: pytest.CaptureFixture[str]) -> None:
    app = App([HEALTHY])
    status = check(app)
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert app.paths == ["/health", "/chat/stream"]
    assert "The app works. It answered" in output.out
    assert "  The deductible is $1,500.\n  Sources: a.md, b.md\n" in output.out
    assert "Anybody may ask it" in output.out


def test_app_with_keys_is_asked_with_its_function_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App([HEALTHY], header=("x-functions-key", "the key"))
    install_azd(tmp_path, '{"token": "secret"}')
    with key_service() as (manager, requests):
        status = check(
            app,
            outputs={**KEYS, "PATH": str(tmp_path), "AZURE_RESOURCE_MANAGER_URL": manager},
        )
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert app.paths == ["/health", "/chat", "/chat/stream"]
    assert requests == [
        "/subscriptions/sub/resourceGroups/rg-dev/providers/Microsoft.Web/sites/func-1"
        "/host/default/listkeys?api-version=2023-12-01 Bearer secret"
    ]
    assert "Without credentials it refuses, as it should." in output.out
    assert '/chat/stream -H "x-functions-key: $key"' in output.out
    assert "the key" not in output.out
    assert "secret" not in output.out


@pytest.mark.parametrize("refusal", [401, 302])
def test_app_with_sign_in_is_asked_with_a_token(
    refusal: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App([HEALTHY], header=("Authorization", "Bearer for the app"), refusal=refusal)
    scope = ("--scope", "api://client/user_impersonation")
    install_azd(tmp_path, '{"token": "for the app"}', arguments=scope)
    status = check(app, outputs={**SIGN_IN, "PATH": str(tmp_path)})
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert "The app works." in output.out
    assert "Without credentials it refuses" in output.out


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ("keys", "the app's function key cannot be read: Install azd first"),
        ("signed-in", "azd has no token for the app: `python scripts/sign_in.py --allow-azure-cli"),
    ],
)
def test_question_that_azd_may_not_ask_is_reported(
    outputs: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service principal in a pipeline has no role in the app: its deployment is in order."""
    app = App([HEALTHY], header=("x-functions-key", "the key"))
    variables = {"keys": KEYS, "signed-in": SIGN_IN}[outputs]
    status = check(app, outputs={**variables, "PATH": str(tmp_path)})
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert f"It was asked no question: {reason}" in output.out
    assert "The app works" not in output.out
    assert "curl -N" in output.out


def test_app_that_lets_anybody_in_fails_the_deployment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = App([HEALTHY])
    status = check(app, outputs=KEYS)
    output = capsys.readouterr()

    assert status == 1
    assert "accepts calls without credentials, although it needs a function key" in output.err
    assert "az functionapp stop --name func-1 --resource-group rg-dev" in output.err
    assert app.paths == ["/health", "/chat"]  # no question that costs


STREAM_ERROR = b'{"delta":{"role":"assistant"}}\n{"error":"The model did not answer."}\n'


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ((500, b""), "500 from /chat/stream: Internal Server Error"),
        ((503, b'{"error": "No model."}'), "503 from /chat/stream: No model."),
        ((429, b'{"error": "Later."}'), "AZURE_OPENAI_CHAT_CAPACITY; Later."),
        ((403, b""), "403 from /chat/stream: the credentials are valid, but not accepted"),
        ((404, b""), "404 from /chat/stream: there is no such route"),
        ((200, STREAM_ERROR), "the stream ends with an error: The model did not answer."),
        ((200, b'{"delta":{"role":"assistant"}}\n'), "the answer has no words"),
        ((200, b"<html></html>"), "the response is not JSON by lines"),
        ((200, b"[]"), "the response is not JSON by lines"),
        ((0, b""), "no answer from http://127.0.0.1:"),
    ],
)
def test_app_without_an_answer_fails_the_deployment(
    response: tuple[int, bytes], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = WaitPolicy(service_seconds=0.05, pause=0.02)
    status = check(App([HEALTHY], streams=[response]), policy)
    output = capsys.readouterr()

    assert status == 1
    assert f"does not answer a question: {problem}" in output.err or problem in output.err
    assert "azd monitor --logs" in output.err
    assert "The app works" not in output.out


@pytest.mark.parametrize("response", [(500, b""), (0, b""), (200, STREAM_ERROR)])
def test_broken_stream_is_distinguished_from_a_broken_app(
    response: tuple[int, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    app = App([HEALTHY], streams=[response], whole=(200, b'{"message": {"content": "Yes."}}'))
    status = check(app, WaitPolicy(service_seconds=0))
    error = capsys.readouterr().err

    assert status == 1
    assert "answers POST /chat, but its streams are broken: " in error
    assert "docs/limits.md" in error


def test_answer_that_comes_late_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    app = App([HEALTHY], streams=[(503, b""), (429, b""), (200, STREAM_ERROR), ANSWER])
    status = check(app)
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert output.out.count("No answer yet (") == 3
    assert "The app works." in output.out


def test_stalled_stream_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    with serve_stalled_stream() as url:
        environment = {"SERVICE_API_URI": url, "SERVICE_API_CALLERS": "anyone"}
        policy = WaitPolicy(service_seconds=0, answer_seconds=0.2)
        assert postdeploy.main(environment, policy) == 1

    assert "the answer breaks off: timed out" in capsys.readouterr().err


def serve_stalled_stream() -> AbstractContextManager[str]:
    """Serve an app whose streams stop after their first word."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send(HEALTHY[1])

        def do_POST(self) -> None:
            self.send(b'{"delta":{"content":"The"}}\n')
            time.sleep(1)

        def send(self, body: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    return run_http_server(Handler)


@pytest.mark.part("demo", "embedded-index")
def test_real_app_answers_the_first_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_server("dev", tmp_path, {}) as server:
        environment = {"SERVICE_API_URI": server.url, "SERVICE_API_CALLERS": "anyone"}
        status = postdeploy.main(environment, WaitPolicy(service_seconds=0))
        whole = first_question.complete_answer(server.url, {}, 60)
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert "Sources: plans/northwind_standard.md, " in output.out
    assert "$1,500" in whole.text
    assert "plans/northwind_standard.md" in whole.sources


@contextmanager
def key_service() -> Iterator[tuple[str, list[str]]]:
    """Serve Resource Manager with the keys of an app; yield its address and its requests."""
    requests: list[str] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            requests.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"masterKey": "m", "functionKeys": {"default": "the key"}}')

    with run_http_server(Handler) as url:
        yield url, requests


@pytest.mark.parametrize(
    ("callers", "command", "header"),
    [
        ("keys", "az functionapp keys list", 'x-functions-key: $key"'),
        ("signed-in", "az account get-access-token", 'Authorization: Bearer $token"'),
        ("anyone", "curl -N", "Content-Type"),
    ],
)
def test_first_question_is_sent_with_what_the_app_asks_for(
    callers: str, command: str, header: str
) -> None:
    commands = postdeploy.first_call({"SERVICE_API_CALLERS": callers}, "https://a.example.com")

    assert commands.startswith(command) or f"$({command}" in commands
    assert header in commands
    assert ("$key" in commands) == (callers == "keys")
    assert ("$token" in commands) == (callers == "signed-in")


def test_printed_commands_are_valid_for_a_shell(tmp_path: os.PathLike[str]) -> None:
    """A fake curl prints its arguments, a fake az and azd print a value."""
    for name, text in (
        ("az", "echo secret"),
        ("azd", "echo value"),
        ("curl", 'printf "%s\\n" "$@"'),
    ):
        path = os.path.join(tmp_path, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
    for callers, header in (("keys", "x-functions-key: secret"), ("signed-in", "Bearer secret")):
        command = postdeploy.first_call({"SERVICE_API_CALLERS": callers}, "https://a.example.com")
        done = subprocess.run(
            ["/bin/sh", "-ec", command],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )

        arguments = done.stdout.splitlines()
        assert (done.returncode, done.stderr) == (0, "")
        assert "https://a.example.com/chat/stream" in arguments
        assert header in done.stdout
        assert ("/user_impersonation" in command) == (callers == "signed-in")
        assert json.loads(arguments[-1])["messages"][0]["role"] == "user"


def test_app_that_starts_late_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    app = App([(404, b""), STARTING, (0, b""), HEALTHY])
    status = check(app, WaitPolicy(service_seconds=0, pause=0.01))
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert app.paths == ["/health"] * 4 + ["/chat/stream"]
    assert "404 from /health, not from the app" in output.out
    assert "503 from /health, not from the app" in output.out
    assert "no answer from http://127.0.0.1:" in output.out


@pytest.mark.parametrize(
    ("response", "sentence"),
    [
        ((404, b""), "404 from /health, not from the app"),
        ((200, b"<html>Your app is up and running</html>"), "200 from /health, not from the app"),
        ((200, b"[]"), "200 from /health, not from the app"),
        ((200, b'{"message": "It works"}'), "200 from /health, not from the app"),
        (
            (503, b'{"error": "x", "settings": ["AZURE_SEARCH_ENDPOINT is required"]}'),
            "settings are wrong or missing: AZURE_SEARCH_ENDPOINT is required",
        ),
        ((0, b""), "no answer from http://127.0.0.1:"),
    ],
)
def test_app_that_does_not_work_fails_the_deployment(
    response: tuple[int, bytes], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = check(App([response]), WaitPolicy(start_seconds=0.2, service_seconds=0, pause=0.05))
    output = capsys.readouterr()

    assert status == 1
    assert f"The app does not work: {sentence}" in output.err
    assert "azd hooks run postdeploy" in output.err
    assert "curl" not in output.out


DEGRADED = (200, b'{"status": "degraded", "failing": {"index": "There is no such index."}}')


@pytest.mark.parametrize(
    ("outputs", "checks_again"),
    [
        ({}, True),
        ({"AZURE_LOAD_SAMPLES": "true", "AZURE_VNET_IN_USE": "true"}, True),
        ({"AZURE_LOAD_SAMPLES": "false"}, False),
        ({"AZURE_LOAD_SAMPLES": "f"}, False),
        ({"AZURE_LOAD_SAMPLES": "false", "AZURE_EXISTING_SEARCH_ID_IN_USE": "/x"}, True),
        ({"AZURE_VNET_IN_USE": "true", "AZURE_ALLOWED_IPS_IN_USE": "203.0.113.7"}, True),
        ({"AZURE_VNET_IN_USE": "true"}, False),
    ],
)
def test_app_without_an_index_is_deployed_and_says_so(
    outputs: dict[str, str], checks_again: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App([DEGRADED])
    policy = WaitPolicy(start_seconds=0, service_seconds=0.3, pause=0.05)
    status = check(app, policy, outputs)
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert "The app is deployed and runs, but cannot answer yet: index: There is no" in output.out
    assert "New roles can take 15 minutes" in output.out
    assert "`azd hooks run postdeploy` checks again" in output.out
    assert "curl" in output.out
    assert (len(app.paths) > 1) == checks_again


@pytest.mark.parametrize("response", [(403, b"Ip Forbidden"), (0, b"")])
def test_private_app_is_not_awaited_from_outside(
    response: tuple[int, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    app = App([response])
    outputs = {"AZURE_PRIVATE_APP_IN_USE": "true", "AZURE_VNET_IN_USE": "true"}
    status = check(app, WaitPolicy(), outputs)
    output = capsys.readouterr()

    assert (status, output.err) == (0, "")
    assert "in its virtual network alone, and this machine is not in it" in output.out
    assert app.paths == ["/health"]


def test_private_app_is_checked_from_inside(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = {"AZURE_PRIVATE_APP_IN_USE": "true", "AZURE_VNET_IN_USE": "true"}

    assert check(App([HEALTHY]), outputs=outputs) == 0
    assert "The app works." in capsys.readouterr().out


def test_services_that_answer_late_are_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(App([DEGRADED, DEGRADED, HEALTHY]), WaitPolicy(start_seconds=0, pause=0.01)) == 0
    assert "The app works." in capsys.readouterr().out


def test_app_has_as_long_to_start_as_new_roles_take() -> None:
    """The host needs roles on its storage. Else a correct deployment would fail."""
    assert WaitPolicy().start_seconds >= samples.WaitPolicy().max_seconds == 15 * 60


def test_certificate_that_python_does_not_trust_is_named_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app, certificate = App([HEALTHY]), trustme.CA().issue_cert("127.0.0.1")
    with serve(app, certificate.configure_cert) as url:
        status = postdeploy.main({"SERVICE_API_URI": url}, WaitPolicy(start_seconds=1, pause=0.1))
    output = capsys.readouterr()

    assert (status, output.out, app.paths) == (1, "", [])
    assert "The app is deployed, but was not checked." in output.err
    assert "Install Certificates.command" in output.err
    assert "`azd hooks run postdeploy`" in output.err


def test_app_that_stalls_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    app = App([HEALTHY], delay=3)
    status = check(app, WaitPolicy(start_seconds=0.1, pause=0.05, request_seconds=0.2))

    assert status == 1
    assert "timed out" in capsys.readouterr().err


def test_missing_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert postdeploy.main({}) == 1
    assert "`azd provision`" in capsys.readouterr().err


def test_hooks_run_as_files_without_any_library() -> None:
    """As azd runs them: in their folder, with a Python that has only its standard library."""
    with serve(App([HEALTHY])) as url:
        for file, environment in (
            ("preprovision.py", {"AZURE_USE_VNET": "yes"}),
            ("postdeploy.py", {"SERVICE_API_URI": url, "SERVICE_API_CALLERS": "anyone"}),
        ):
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(CHECKS / file)],
                cwd=CHECKS,
                env={"PATH": "/usr/bin:/bin", **environment},
                capture_output=True,
                text=True,
                timeout=60,
            )
            expected = {
                "preprovision.py": (1, "AZURE_USE_VNET"),
                "postdeploy.py": (0, "The app works"),
            }
            assert done.returncode == expected[file][0], done.stderr
            assert expected[file][1] in done.stdout + done.stderr


def test_interrupted_check_ends_quietly() -> None:
    with serve(App([STARTING])) as url:
        process = subprocess.Popen(
            [sys.executable, str(CHECKS / "postdeploy.py")],
            env={**os.environ, "SERVICE_API_URI": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert "not ready" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)

    assert (process.returncode, error) == (130, "")


def test_postprovision_names_an_incomplete_environment() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(CHECKS.parent / "postprovision.py")],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert " is not installed in " in done.stderr
    assert "Delete that folder" in done.stderr
    assert "Traceback" not in done.stderr
