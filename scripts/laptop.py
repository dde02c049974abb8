"""How does `make run` on a laptop come to use the search and the model in Azure?

By local.settings.json: azd's outputs are written there, and never over a value of one's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Outputs of infra/main.bicep that are settings of the app.
AZD_OUTPUTS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_SEARCH_SEMANTIC_CONFIGURATION",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_CONTAINER",
)
FILE, SAMPLE = "local.settings.json", "local.settings.sample.json"
# What was written the last time: what has changed since is somebody's own.
WRITTEN_COPY = Path(".azure") / "local.settings.written.json"

WRITTEN_MESSAGE = f"{FILE} names what is in Azure: `make run` answers from there."
OWN_VALUES_MESSAGE = (
    f"{FILE} keeps a value of your own for {{names}}: empty it to use what is in Azure."
)
UNREADABLE_MESSAGE = (
    f"{FILE} is left as it is ({{why}}). For `make run` to answer from Azure, copy into it the "
    "values that `azd env get-values` prints of: {names}."
)


class UnreadableSettings(Exception):
    """Why the file cannot be changed."""


def write_local_settings(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Write the outputs of azd into the settings of the app in `folder`; what there is to say."""
    wanted = {name: environment.get(name, "") for name in AZD_OUTPUTS}
    try:
        local = read_local_settings(folder)
        own = find_own_values(local["Values"], read_json(folder / WRITTEN_COPY), wanted)
        taken = {name: value for name, value in wanted.items() if name not in own}
        there = {name: value for name, value in taken.items() if value or name in local["Values"]}
        local["Values"].update(there)
        write_json(folder / FILE, local)
        write_json(folder / WRITTEN_COPY, taken)
    except (UnreadableSettings, OSError) as error:
        yield UNREADABLE_MESSAGE.format(why=error, names=", ".join(wanted))
        return
    yield WRITTEN_MESSAGE
    if own:
        yield OWN_VALUES_MESSAGE.format(names=", ".join(own))


def find_own_values(
    values: Mapping[str, Any], before: Mapping[str, Any], wanted: Mapping[str, str]
) -> list[str]:
    """The names whose values are neither empty, nor ours of the last time, nor the same."""
    ours = {name: ("", None, before.get(name), wanted[name]) for name in wanted}
    return [name for name in wanted if values.get(name) not in ours[name]]


def read_local_settings(folder: Path) -> dict[str, Any]:
    """The settings that there are, else those of the sample. Raises Unreadable, OSError."""
    local = read_json(folder / FILE) or read_json(folder / SAMPLE)
    if local.get("IsEncrypted"):
        raise UnreadableSettings("it is encrypted")
    if not isinstance(local.setdefault("Values", {}), dict):
        raise UnreadableSettings("its Values are no object")
    return local


def read_json(path: Path) -> dict[str, Any]:
    """An object; nothing where there is no file. Raises Unreadable, OSError."""
    try:
        made = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise UnreadableSettings("it is not plain JSON") from None
    if not isinstance(made, dict):
        raise UnreadableSettings("it is no JSON object")
    return made


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file whole or not at all. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
    os.replace(part, path)
