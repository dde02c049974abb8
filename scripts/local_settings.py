"""Writes azd's outputs to local.settings.json, so that `make run` uses the services in Azure.

Values that the user has changed are not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.private_file import write_private
from shared.bootstrap.local_settings import UsageError, read_json, read_local_settings

# The outputs of infra/main.bicep that are settings of the app.
AZD_OUTPUTS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_SEARCH_SEMANTIC_CONFIGURATION",
    "AZURE_SEARCH_KNOWLEDGE_BASE",
    "AZURE_SEARCH_KNOWLEDGE_EFFORT",
    "AZURE_SEARCH_VECTORIZER",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_CONTAINER",
)
FILE, SAMPLE = "local.settings.json", "local.settings.sample.json"
# A copy of the values last written: a value that differs from it is the user's.
WRITTEN_COPY = Path(".azure") / "local.settings.written.json"

WRITTEN_MESSAGE = f"{FILE} now names the services in Azure: `make run` uses them."
OWN_VALUES_MESSAGE = (
    f"{FILE} keeps your own value of {{names}}: empty it to use the service in Azure."
)
UNREADABLE_MESSAGE = (
    f"{FILE} is not changed ({{reason}}). For `make run` to use the services in Azure, copy into "
    "it these values of `azd env get-values`: {names}."
)


def write_local_settings(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Write the outputs of azd to the settings in `folder`; yield messages for the user."""
    outputs = {name: environment.get(name, "") for name in AZD_OUTPUTS} | app_settings(environment)
    try:
        path = folder / FILE
        settings = read_local_settings(path if path.exists() else folder / SAMPLE)
        values = settings["Values"]
        own = find_own_values(values, read_json(folder / WRITTEN_COPY), outputs)
        written = {name: value for name, value in outputs.items() if name not in own}
        values |= {name: value for name, value in written.items() if value or name in values}
        write_json(path, settings)
        write_json(folder / WRITTEN_COPY, written)
    except (UsageError, OSError) as error:
        reason = str(error).removesuffix(".")
        yield UNREADABLE_MESSAGE.format(reason=reason, names=", ".join(outputs))
        return
    yield WRITTEN_MESSAGE
    if own:
        yield OWN_VALUES_MESSAGE.format(names=", ".join(own))


def app_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of AZURE_APP_SETTINGS that hold on a laptop, too: no references."""
    try:
        settings = json.loads(environment.get("AZURE_APP_SETTINGS") or "{}")
    except ValueError:
        return {}
    return {
        name: value
        for name, value in (settings.items() if isinstance(settings, dict) else ())
        if isinstance(value, str) and not value.startswith("@Microsoft.KeyVault(")
    }


def find_own_values(
    values: Mapping[str, Any], last_written: Mapping[str, Any], outputs: Mapping[str, str]
) -> list[str]:
    """Return the names of values that the user has set: not empty, last written or an output."""
    known = {name: ("", None, last_written.get(name), outputs[name]) for name in outputs}
    return [name for name in outputs if values.get(name) not in known[name]]


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file atomically, which only its owner can read: it has keys. Raises OSError."""
    write_private(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
