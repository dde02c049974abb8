"""The keys and the sign-in that the OpenAPI document asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.http.call import Json
from shared.protocols.exchange import Route
from shared.protocols.openapi.operation import Operation

FUNCTION_KEY, APP_KEY, BEARER, SIGN_IN = "functionKey", "appKey", "appKeyAsBearer", "signIn"
SCHEMES: Mapping[str, Json] = {
    FUNCTION_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "x-functions-key",
        "description": "A function key of the app; the master key changes what holds for all.",
    },
    APP_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "api-key",
        "description": "The setting CHAT_API_KEY.",
    },
    BEARER: {"type": "http", "scheme": "bearer", "description": "The setting CHAT_API_KEY."},
    SIGN_IN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of Microsoft Entra ID for this app; in a browser the cookie of "
        "/.auth/login/aad.",
    },
}


@dataclass(frozen=True, slots=True)
class OpenApiConfig:
    """Whether the deployment has the document, its address, and what it asks of its callers."""

    enabled: bool = True
    base_url: str = ""  # empty if unknown
    function_keys: bool = False
    app_key: bool = False
    sign_in: bool = False


def list_schemes(route: Route, operation: Operation, config: OpenApiConfig) -> Sequence[str]:
    """Return the security schemes of which a call needs one; none if it needs no key."""
    sign_in = [SIGN_IN] if config.sign_in else []
    if operation.app_key:
        return [*([APP_KEY, BEARER] if config.app_key else []), *sign_in]
    if route.auth == "anonymous":
        return []
    return [FUNCTION_KEY] if config.function_keys else sign_in


def describe_used(paths: Mapping[str, Json]) -> Json:
    """Return the security schemes that the operations of some paths name."""
    used = {
        name
        for methods in paths.values()
        for operation in methods.values()
        for requirement in operation["security"]
        for name in requirement
    }
    return {name: scheme for name, scheme in SCHEMES.items() if name in used}
