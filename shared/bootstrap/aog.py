"""Makes the descriptions of the providers that AOG lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.bootstrap.clients import Clients, get_max_prompt_tokens
from shared.bootstrap.models import select_api
from shared.models.providers.metadata import redact_provider
from shared.protocols.aog.routes import AogConfig


def make_aog_config(clients: Clients) -> AogConfig:
    """Make the configuration of AOG: what of each provider is not its default."""
    settings = clients.settings
    flavor, path = select_api(settings)
    described: dict[str, Mapping[str, Any]] = {
        "demo": {"flavor": "demo"},
        "custom": {"flavor": "custom"},
    }
    if settings.azure_openai_endpoint:
        url = clients.azure_openai_base_url + path
        described["azure-openai"] = {"flavor": flavor, "url": url, "auth_type": "apikey"}
    if settings.openai_base_url:
        described["openai"] = {
            "flavor": flavor,
            "url": settings.openai_base_url.rstrip("/") + path,
            "auth_type": "none" if settings.openai_api_key is None else "apikey",
        }
    for provider in settings.model_providers:
        fields = redact_provider(provider, get_max_prompt_tokens(settings, provider.url))
        described[provider.provider_name] = fields
    return AogConfig(described)
