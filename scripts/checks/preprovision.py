"""The preprovision hook of azd: refuses what would fail, or be ignored, once resources cost money.

It runs with any Python from 3.7 on, and without a library, to name a version that does not fit.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from sysconfig import get_platform

ROOT = Path(__file__).parent.parent.parent
OLDEST, NEWEST = (3, 11), (3, 14)
# What azd can parse (strconv.ParseBool and ParseInt of Go). It ignores anything else.
BOOLEAN = re.compile("1|t|T|TRUE|true|True|0|f|F|FALSE|false|False")
INTEGER = re.compile(r"[+-]?[0-9]+")
FORMATS = {"bool": (BOOLEAN, "true or false"), "int": (INTEGER, "a whole number")}
OBJECT_ID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
EXISTING_RESOURCES = {
    "AZURE_EXISTING_SEARCH_ID": "Microsoft.Search/searchServices",
    "AZURE_EXISTING_OPENAI_ID": "Microsoft.CognitiveServices/accounts",
    "AZURE_EXISTING_LOG_ANALYTICS_ID": "Microsoft.OperationalInsights/workspaces",
}
# As the app's setting ALLOWED_ORIGINS, with which an app does not start that has another value.
ORIGIN = re.compile(r"\s*([a-z][a-z0-9+.-]*://[^/,\s?#@]+/*)?\s*", re.IGNORECASE)
PRIVATE_RANGES = [IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
EMAIL = re.compile(r"[^@\s,;<>]+@[^@\s,;<>.]+(\.[^@\s,;<>.]+)+")
# What every service accepts: the search service takes neither capitals nor 61 characters.
RESOURCE_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])")
STORAGE_NAME = re.compile("[a-z0-9]{3,24}")
# Variables of earlier versions, and what has taken their place: to ignore them would be silent.
RENAMED = {"AZURE_OPENAI_SKU": "AZURE_OPENAI_CHAT_SKU and AZURE_OPENAI_EMBEDDING_SKU"}
PATTERNS = {
    "AZURE_INDEXERS_GROUP_ID": (
        OBJECT_ID,
        "the object id of a group: az ad group show --group NAME --query id --output tsv",
    ),
    "AZURE_ALERT_EMAIL": (EMAIL, "one address such as team@example.com."),
}
# Variables that only the hooks read.
HOOK_VARIABLES = {
    "AZURE_BUDGET_AMOUNT": "int",
    "AZURE_LOAD_SAMPLES": "bool",
    "AZURE_LOCAL_SETTINGS": "bool",
    "AZURE_DEPLOY_INDEX": "bool",
}


def version_problems(version: tuple[int, int], executable: str) -> Iterator[str]:
    """Yield a message if the documents of the samples cannot be read by this Python."""
    if not OLDEST <= version <= NEWEST:
        name = ".".join(map(str, version))
        yield (
            f"azd runs hooks with {executable}, Python {name}: this template needs 3.11 to 3.14. "
            "Put one of these first on the PATH (as python3; on Windows as py), and delete "
            f"{sys.prefix} if it is a folder of this project: azd would use it again."
        )


def platform_problems(platform: str, executable: str) -> Iterator[str]:
    """Yield a message if a library that the hooks need has no wheel for this Python's platform."""
    if platform == "win-arm64":
        yield (
            f"azd runs hooks with {executable}, a Python for ARM64: semantic-text-splitter, which "
            "splits the samples, has no wheel for it on Windows. Install the 64-bit (x64) Python "
            "of https://www.python.org/downloads/windows/, which Windows on ARM runs as well, put "
            f"it first on the PATH (as py), and delete {sys.prefix} if it is a folder of this "
            "project."
        )


def variable_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable whose value azd would ignore."""
    for name, kind in sorted(typed_variables().items()):
        pattern, words = FORMATS[kind]
        if environment.get(name, "") and not pattern.fullmatch(environment[name]):
            yield f"{name} must be {words}: azd env set {name} ..."


def typed_variables() -> Mapping[str, str]:
    """Return the types (bool or int) of azd's variables, by the parameters of infra/main.bicep."""
    types = dict(re.findall(r"(?m)^param (\w+) (bool|int)\b", read("main.bicep")))
    parameters = json.loads(read("main.parameters.json"))["parameters"]
    variables = {}
    for name, entry in parameters.items():
        match = re.match(r"\$\{(\w+)", str(entry["value"]))
        if match and name in types:
            variables[match.group(1)] = types[name]
    return {**variables, **HOOK_VARIABLES}


def object_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable that is not a JSON object of strings."""
    for name, example in (("AZURE_TAGS", "owner"), ("AZURE_RESOURCE_NAMES", "app")):
        if read_object(environment, name) is None:
            yield (
                f'{name} must be a JSON object of strings such as {{"{example}": "me"}}, or {{}}. '
                "PowerShell can drop the quotes: docs/deploy.md has a form for every shell."
            )


def read_object(environment: Mapping[str, str], name: str) -> Mapping[str, str] | None:
    """Return a JSON object of strings; None if a variable is another value."""
    try:
        value = json.loads(environment.get(name, "{}"))
    except ValueError:
        return None
    is_valid = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return value if is_valid else None


def resource_name_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each name of AZURE_RESOURCE_NAMES that has no effect or is refused."""
    (defaults,) = re.findall(r"(?s)var defaultNames = \{\n(.*?)\n\}", read("main.bicep"))
    keys = re.findall(r"(?m)^  (\w+): ", defaults)
    for key, name in (read_object(environment, "AZURE_RESOURCE_NAMES") or {}).items():
        if key not in keys:
            yield f"AZURE_RESOURCE_NAMES: {key} is none of {', '.join(keys)}."
        elif key.endswith("Storage") and not STORAGE_NAME.fullmatch(name):
            yield (
                f"AZURE_RESOURCE_NAMES: {key} must be 3 to 24 lower-case letters and digits: {name}"
            )
        elif not RESOURCE_NAME.fullmatch(name):
            yield (
                f"AZURE_RESOURCE_NAMES: {key} must be 2 to 60 lower-case letters, digits and "
                f"hyphens, a letter or digit at both ends: {name}"
            )


def existing_resource_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each AZURE_EXISTING_..._ID that is no resource id of its type."""
    for name, resource_type in EXISTING_RESOURCES.items():
        pattern = rf"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/{resource_type}/[^/]+"
        value = environment.get(name, "")
        if value and not re.fullmatch(pattern, value, re.IGNORECASE):
            yield f"{name} must be a resource id: /subscriptions/.../providers/{resource_type}/NAME"


def origin_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message if AZURE_ALLOWED_ORIGINS has an entry that is no origin."""
    if not all(map(ORIGIN.fullmatch, environment.get("AZURE_ALLOWED_ORIGINS", "").split(","))):
        yield (
            "AZURE_ALLOWED_ORIGINS must be origins such as https://chat.example.com, separated by "
            "commas, and never *."
        )


def pattern_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable of PATTERNS with another value."""
    for name, (pattern, words) in PATTERNS.items():
        if environment.get(name, "") and not pattern.fullmatch(environment[name]):
            yield f"{name} must be {words}"


def renamed_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable of an earlier version."""
    for name, replacement in RENAMED.items():
        if environment.get(name, ""):
            yield (
                f"{name} has no effect any more: set {replacement} instead, then "
                f'azd env set {name} ""'
            )


def network_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message if AZURE_VNET_PREFIX has no room for two subnets of /24 at its places."""
    try:
        fits = ip_network(environment.get("AZURE_VNET_PREFIX") or "10.0.0.0/22").prefixlen <= 22
    except ValueError:
        fits = False
    if not fits:
        yield "AZURE_VNET_PREFIX must be a range of /22 or more, such as 10.0.0.0/16."


def address_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message if AZURE_ALLOWED_IPS has an entry that storage accounts refuse."""
    entries = environment.get("AZURE_ALLOWED_IPS", "").replace(" ", "").split(",")
    wrong = [entry for entry in entries if entry and not is_public_range(entry)]
    if wrong:
        yield (
            "AZURE_ALLOWED_IPS must be public IPv4 addresses such as 203.0.113.7, or ranges of /30 "
            f"or more such as 203.0.113.0/24, separated by commas: {', '.join(wrong)}"
        )


def is_public_range(text: str) -> bool:
    """Whether a storage account accepts an address or a range: no /31, no /32, nothing private."""
    try:
        network = IPv4Network(text)
    except ValueError:
        return False
    is_private = any(network.overlaps(private) for private in PRIVATE_RANGES)
    return not is_private and ("/" not in text or network.prefixlen <= 30)


def upload_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the problems of uploads."""
    sys.path.insert(0, str(ROOT))
    from scripts.checks import uploads

    yield from uploads.find_problems(environment)


def setting_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each problem of AZURE_APP_SETTINGS, by the app's own settings."""
    text = environment.get("AZURE_APP_SETTINGS")
    if text is None:
        return
    sys.path.insert(0, str(ROOT))
    try:
        from scripts.checks.app_settings import find_problems
    except ImportError as error:
        yield f"{error.name} is not installed in {sys.prefix}: delete it, and azd makes it anew."
        return
    yield from find_problems(text)


def model_notes(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes about the models."""
    from scripts.checks import model_notes

    yield from model_notes.model_notes(environment)


def group_findings(environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the problems and the notes about the resource group."""
    sys.path.insert(0, str(ROOT))
    from scripts.checks import resource_group

    return resource_group.group_findings(environment)


def ranker_notes(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a note if the region of the search service has no semantic ranker."""
    region = environment.get("AZURE_SEARCH_LOCATION") or environment.get("AZURE_LOCATION") or ""
    is_off = (
        environment.get("AZURE_EXISTING_SEARCH_ID")
        or environment.get("AZURE_SEARCH_SKU") == "free"
        or environment.get("AZURE_SEARCH_SEMANTIC_RANKER") == "disabled"
    )
    if not is_off and region.replace(" ", "").lower() in regions_without_ranker():
        yield (
            f"Note: Azure AI Search has no semantic ranker in {region}, so searches go without it. "
            "For one, before the service is created: azd env set AZURE_SEARCH_LOCATION REGION"
        )


def regions_without_ranker() -> Sequence[str]:
    """Return the regions of infra/main.bicep where Azure AI Search has no semantic ranker."""
    (text,) = re.findall(r"(?s)var regionsWithoutRanker = \[(.*?)\]", read("main.bicep"))
    return re.findall(r"'(\w+)'", text)


def read(name: str) -> str:
    """Read a file of infra/."""
    return (ROOT / "infra" / name).read_text("utf-8")


def main(
    environment: Mapping[str, str] = os.environ,
    version: tuple[int, int] = (sys.version_info.major, sys.version_info.minor),
    platform: str = get_platform(),
) -> int:
    """Print the problems. Returns the exit status: 0, or 1 if there are any."""
    problems = [
        *version_problems(version, sys.executable),
        *platform_problems(platform, sys.executable),
        *variable_problems(environment),
        *object_problems(environment),
        *resource_name_problems(environment),
        *existing_resource_problems(environment),
        *origin_problems(environment),
        *pattern_problems(environment),
        *renamed_problems(environment),
        *network_problems(environment),
        *address_problems(environment),
        *upload_problems(environment),
    ]
    notes = list(ranker_notes(environment))
    if OLDEST <= version <= NEWEST:
        problems += setting_problems(environment)
        group_problems, group_notes = group_findings(environment)
        problems += group_problems
        notes += [*group_notes, *model_notes(environment)]
    print_errors([*problems, *notes])
    if problems:
        print_errors(["Nothing was created. Fix this, then run azd again."])
    return 1 if problems else 0


def print_errors(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
