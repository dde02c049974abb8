"""The clients of the services that the settings name: made once, when a part first needs one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import Any

from shared import settings as configuration
from shared.settings import Settings

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]


class Clients:
    """One worker's clients. Imports the libraries that are asked for, and no other."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def identity(self) -> Any:
        """Who the app is towards Azure."""
        from shared import identity

        managed = bool(self.settings.identity_endpoint)
        return identity.credential(managed, self.settings.azure_client_id)

    @cached_property
    def azure_openai(self) -> Any:
        """Azure OpenAI's, for the chat and for embeddings. Raises SettingsError."""
        from shared import identity
        from shared.models.openai_client import make_client

        (given,) = configuration.required(self.settings, "AZURE_OPENAI_ENDPOINT")
        endpoint = given.removesuffix("/v1").removesuffix("/openai")
        return make_client(
            f"{endpoint}/openai/v1/", identity.bearer(self.identity, identity.OPENAI_SCOPE)
        )

    @cached_property
    def openai(self) -> Any:
        """The other server's, for the chat and for embeddings. Raises SettingsError."""
        from shared.models.openai_client import make_client

        (base_url,) = configuration.required(self.settings, "OPENAI_BASE_URL")
        secret = self.settings.openai_api_key
        value = secret.get_secret_value() if secret else "none"  # servers without keys take any

        async def key() -> str:
            return value

        return make_client(base_url, key)

    @cached_property
    def embed(self) -> Embed | None:
        """What makes vectors of texts; None without a model for it. Raises SettingsError."""
        azure, other = self.settings.azure_openai_embedding, self.settings.openai_embedding
        name = azure or other
        if name is None:
            return None
        from shared.models.openai_client import embed

        client = self.azure_openai if azure else self.openai
        return partial(embed, client, name, self.settings.search_seconds)
