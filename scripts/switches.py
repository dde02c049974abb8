"""The switches that only the hooks read, and what they mean together with azd's outputs."""

from __future__ import annotations

from collections.abc import Mapping

# azd's own words for booleans (strconv.ParseBool of Go), in any case, and those of a person.
TRUE_WORDS, FALSE_WORDS = ("true", "1", "t", "yes", "on"), ("false", "0", "f", "no", "off")
EXISTING_SEARCH = "AZURE_EXISTING_SEARCH_ID_IN_USE"
EXISTING_OPENAI = "AZURE_EXISTING_OPENAI_ID_IN_USE"


def is_on(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable is set to true."""
    return environment.get(name, "").strip().lower() in TRUE_WORDS


def is_off(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable is set to false."""
    return environment.get(name, "").strip().lower() in FALSE_WORDS


def is_private_network(environment: Mapping[str, str]) -> bool:
    """Whether the services were deployed into a virtual network without access from outside."""
    return (
        is_on(environment, "AZURE_VNET_IN_USE")
        and not environment.get("AZURE_ALLOWED_IPS_IN_USE", "").strip()
    )


def is_private_app(environment: Mapping[str, str]) -> bool:
    """Whether the app was deployed behind a private endpoint without access from outside."""
    return is_on(environment, "AZURE_PRIVATE_APP_IN_USE") and is_private_network(environment)


def expects_index(environment: Mapping[str, str]) -> bool:
    """Whether there is an index after provisioning: one that existed, or that of the samples."""
    if environment.get(EXISTING_SEARCH):
        return True
    reachable = is_on(environment, "AZURE_LOAD_SAMPLES") or not is_private_network(environment)
    return reachable and not is_off(environment, "AZURE_LOAD_SAMPLES")
