"""Checks the variables of uploads in Azure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

NAME = "AZURE_UPLOADS"
# What azd takes for true in a condition, of what it takes for true in a parameter.
TRUE_WORDS = ("1", "true", "True", "TRUE")
AMBIGUOUS = ("t", "T")
NO_SPELLING = f"{NAME} must be true or false, in full: azd env set {NAME} true"
NO_SIGN_IN = (
    f"{NAME} is true, and there is no sign-in, but uploads belong to who has signed in: "
    f"azd env set {NAME} false, azd up, then set up sign-in (docs/sign-in.md) and {NAME} again."
)
OWN_SEARCH = (
    f"{NAME} is true, and AZURE_APP_SETTINGS has RETRIEVER: uploads are found in Azure AI Search "
    f"alone. Take RETRIEVER out, or azd env set {NAME} false."
)

MAX_INDEX_NAME = 128  # characters
# What infra/main.bicep adds to the name of the index, in a search service that existed before.
SUFFIX, TOKEN_SUFFIX = "-uploads", "-" + 13 * "x"


def find_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each setting that uploads cannot be deployed with."""
    value = environment.get(NAME, "")
    if value in AMBIGUOUS:  # the resources would be created, and the reader not deployed
        yield NO_SPELLING
    if value not in TRUE_WORDS:
        return
    if not environment.get("AZURE_AUTH_CLIENT_ID", ""):
        yield NO_SIGN_IN
    if has_own_search(environment.get("AZURE_APP_SETTINGS", "")):
        yield OWN_SEARCH
    yield from find_name_problems(environment)


def find_name_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message if the name of the index leaves no room for that of the uploads' index."""
    suffix = SUFFIX + (TOKEN_SUFFIX if environment.get("AZURE_EXISTING_SEARCH_ID", "") else "")
    limit, index = MAX_INDEX_NAME - len(suffix), environment.get("AZURE_SEARCH_INDEX", "")
    if len(index) > limit:
        yield (
            f"{NAME} is true, and AZURE_SEARCH_INDEX has {len(index)} characters: it may have "
            f"{limit}, because the index of uploads is named after it. azd env set "
            f"AZURE_SEARCH_INDEX with a shorter name, or azd env set {NAME} false."
        )


def has_own_search(app_settings: str) -> bool:
    """Whether the settings of the app name a search of one's own."""
    try:
        settings = json.loads(app_settings or "{}")
    except ValueError:  # another check reports it
        return False
    return isinstance(settings, dict) and bool(settings.get("RETRIEVER"))
