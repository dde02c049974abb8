"""The routes of AOG v0.2, and what is answered without a model."""

from __future__ import annotations

from collections.abc import Mapping

from shared.chat.errors import NotFound
from shared.http.call import Call
from shared.http.json_encoding import Json
from shared.models.router import Router
from shared.protocols.aog import response as aog

VERSION = "/aog/v0.2"
CHAT = f"{VERSION}/services/{{service}}"
SERVICES = f"{VERSION}/service"
PROVIDERS = f"{VERSION}/service_provider"
EXAMPLE = f"{VERSION}/services/{aog.NAME}"
OTHER = "/aog/{*path}"

# The methods of each route. What is in braces is in `Call.path`.
ROUTES: Mapping[str, str] = {
    CHAT: "POST",
    SERVICES: "GET, HEAD",
    PROVIDERS: "GET, HEAD",
    OTHER: "GET, POST, PUT, PATCH, DELETE, HEAD",
}


def check(call: Call) -> None:
    """Raise NotFound for a service or a version that is not there."""
    if call.route == OTHER:
        raise NotFound(f"There is nothing here: POST {EXAMPLE} is the chat.")
    if call.route == CHAT and call.path != aog.NAME:
        raise aog.missing_service(call.path)


def told(call: Call, models: Router) -> Json:
    """The services, or their providers."""
    if call.route == SERVICES:
        return aog.services(models.policy, models.first("local"), models.first("remote"))
    return aog.service_providers(one.card for one in models.providers)
