"""The clients of the services that the settings name: made once, when a part first needs one."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from shared import settings as configuration
from shared.models.providers.metadata import ProviderMetadata
from shared.models.providers.provider_list import IDENTITY
from shared.retrieval.base import Embed
from shared.settings import Settings

BATCH_REQUEST_SECONDS = 600.0  # for one request, its waits included


class Clients:
    """One worker's clients. Imports the libraries that are asked for, and no other.

    `batch` ones are for a run over many documents, which may wait for minutes.
    """

    def __init__(self, settings: Settings, patient: bool = False) -> None:
        self.settings, self.batch = settings, patient
        self._provider_clients: list[Any] = []  # for the providers of the list

    @cached_property
    def identity(self) -> Any:
        """Who the app is towards Azure."""
        from shared.azure import identity

        managed = bool(self.settings.identity_endpoint)
        return identity.get_credential(managed, self.settings.azure_client_id)

    @cached_property
    def azure_openai(self) -> Any:
        """Azure OpenAI's, for the chat and for embeddings. Raises SettingsError."""
        from shared.azure import identity
        from shared.models.openai.client import make_client

        (given,) = configuration.require_settings(self.settings, "AZURE_OPENAI_ENDPOINT")
        endpoint = given.removesuffix("/v1").removesuffix("/openai")
        key = identity.make_token_provider(self.identity, identity.OPENAI_SCOPE)
        return make_client(f"{endpoint}/openai/v1/", key, self.batch)

    @cached_property
    def openai(self) -> Any:
        """The other server's, for the chat and for embeddings. Raises SettingsError."""
        from shared.models.openai.client import make_client

        (base_url,) = configuration.require_settings(self.settings, "OPENAI_BASE_URL")
        secret = self.settings.openai_api_key
        value = secret.get_secret_value() if secret else "none"  # servers without keys take any

        async def key() -> str:
            return value

        return make_client(base_url, key, self.batch)

    def for_provider(self, provider: ProviderMetadata, ours: bool = True) -> Any:
        """A client for a provider that is `ours`, or for one that a request describes.

        The latter never gets the app's own identity.
        """
        from shared.models.openai.client import make_client

        key = self._make_key_provider(provider, ours)
        client = make_client(provider.url, key, headers=provider.extra_headers)
        if ours:
            self._provider_clients.append(client)
        return client

    def _make_key_provider(self, provider: ProviderMetadata, ours: bool) -> Any:
        """What gives the provider's key; None where it has none."""
        if provider.key is None:
            return None
        value = provider.key.get_secret_value()
        if ours and value == IDENTITY:
            from shared.azure import identity

            return identity.make_token_provider(self.identity, identity.OPENAI_SCOPE)

        async def key() -> str:
            return value

        return key

    @property
    def embedding_model(self) -> str | None:
        """The name of the model that makes vectors: Azure's deployment before any other."""
        return self.settings.azure_openai_embedding or self.settings.openai_embedding

    @property
    def _embedding_client(self) -> Any:
        return self.azure_openai if self.settings.azure_openai_embedding else self.openai

    @cached_property
    def blob_container(self) -> Any:
        """The container that citations' files lie in. Raises SettingsError."""
        from shared.files.blobs import make_container_client

        (endpoint,) = configuration.require_settings(self.settings, "AZURE_STORAGE_ENDPOINT")
        return make_container_client(endpoint, self.settings.storage_container, self.identity)

    @cached_property
    def embed(self) -> Embed | None:
        """What makes vectors of texts; None without a model for it. Raises SettingsError."""
        name = self.embedding_model
        if name is None:
            return None
        from shared.models.openai.client import embed

        seconds = BATCH_REQUEST_SECONDS if self.batch else self.settings.search_seconds
        return partial(embed, self._embedding_client, name, seconds)

    async def check_embedding(self) -> None:
        """Ask whether vectors would come, at no cost. Raises ChatErrors."""
        from shared.models.openai.client import ready

        name = self.embedding_model or ""
        await ready(self._embedding_client, "/models", name, "do its key or its roles hold?")

    async def close(self, identity: bool = True) -> None:
        """Close what was made; the `identity` too, which all clients of a process share."""
        for client in self._provider_clients:
            await client.close()
        for name in ("azure_openai", "openai", *(("identity",) if identity else ())):
            if name in vars(self):
                await vars(self)[name].close()
