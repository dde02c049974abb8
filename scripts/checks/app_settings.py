"""Checks AZURE_APP_SETTINGS, settings of the app beyond those that infra/main.bicep makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from shared.bootstrap.local_settings import closest_setting
from shared.settings import SettingsError, read_settings

NAME = "AZURE_APP_SETTINGS"
INFRA = Path(__file__).parent.parent.parent / "infra"
REFERENCE = "@Microsoft.KeyVault("
# What the platform sets, and what Bicep sets outside of `settings` in main.bicep.
PLATFORM_PREFIXES = ("APPLICATIONINSIGHTS_", "AzureWebJobs", "FUNCTIONS_", "OVERRIDE_", "WEBSITE_")
PLATFORM_NAMES = (
    "AZURE_FUNCTIONS_ENVIRONMENT",
    "CHAT_API_KEY",
    "CONTAINER_NAME",
    "IDENTITY_ENDPOINT",
    "SIGN_IN_CLIENT_ID",
    "SIGN_IN_TENANT_ID",
    "TRUST_SIGN_IN_HEADERS",
)
SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRETS = ("OPENAI_API_KEY", "OPENAI_EMBEDDING_API_KEY")
OWN_VARIABLE = "is set by the platform, or has a variable of its own (docs/deployment-settings.md)."
SIMILARITY = 0.8  # of an unknown name to a known one, from which it is taken for a mistake


def find_problems(text: str) -> Iterator[str]:
    """Yield a message for each problem of the JSON; no value is in it."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        yield (
            f'{NAME} must be a JSON object such as {{"DEFAULT_TOP": "5"}}, or {{}}. '
            "PowerShell can drop the quotes: docs/deploy.md has a form for every shell."
        )
        return
    if names := [name for name, value in values.items() if not isinstance(value, str)]:
        yield f"{NAME}: the values of {', '.join(names)} must be strings."
        return
    problems = [f"{NAME}: {name} {reason}" for name, reason in find_wrong_names(values)]
    yield from problems or check_values(values)


def find_wrong_names(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names that may not be set here, each with the reason."""
    template = template_settings()
    for name, value in values.items():
        if name in template:
            yield name, "is set by infra/main.bicep: see docs/deployment-settings.md."
        elif name in PLATFORM_NAMES or name.startswith(PLATFORM_PREFIXES):
            yield name, OWN_VARIABLE
        elif not SETTING_NAME.fullmatch(name):
            yield name, "is no name of a setting: letters, digits and _ only."
        elif closest := closest_setting(name, SIMILARITY):
            yield name, f"is not a setting of the app. Is it {closest}?"
        elif name in SECRETS and not value.startswith(REFERENCE):
            yield name, f"is a secret: give a Key Vault reference, {REFERENCE}SecretUri=...)."


def template_settings() -> Set[str]:
    """Return the names of `settings` in infra/main.bicep."""
    text = (INFRA / "main.bicep").read_text("utf-8")
    (block,) = re.findall(
        r"(?ms)^    settings: union\(appSettings, (?:\w+, )*\{$\n(.*?)^    \}\)$", text
    )
    return set(re.findall(r"(?m)^      (\w+): ", block))


def check_values(values: Mapping[str, str]) -> Iterator[str]:
    """Yield what the app would say of these settings together with those of the template."""
    template = dict.fromkeys(template_settings(), "documents")
    endpoints = {name: "https://x.example.com/" for name in template if name.endswith("_ENDPOINT")}
    fixed = {"CALLERS": "keys", "MEMORY_DAYS": "90", "FEEDBACK_COPIES": "off"}
    fixed |= dict.fromkeys(("ALLOWED_ORIGINS", "AZURE_SEARCH_SEMANTIC_CONFIGURATION"), "")
    own = {name: value for name, value in values.items() if not value.startswith(REFERENCE)}
    try:
        read_settings({**own, **template, **endpoints, **fixed})
    except SettingsError as error:
        for problem in error.problems:
            yield f"{NAME}: {problem}."
