"""Makes clients of Azure, and the configuration of a model, from settings."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from pydantic import SecretStr

from shared.domain.hosts import is_local
from shared.models import builtin_embedding
from shared.retrieval.base import Embed
from shared.settings import Settings, SettingsError, require_settings

BATCH_REQUEST_SECONDS = 600.0  # for one request with its retries


class Clients:
    """The clients of a process. Imports only the libraries in use.

    `batch` clients serve a run over many documents, and may wait for minutes.
    """

    def __init__(self, settings: Settings, batch: bool = False) -> None:
        self.settings, self.batch = settings, batch
        self.others: list[Any] = []  # clients of providers, closed by this class

    @cached_property
    def identity(self) -> Any:
        """The credential for Azure."""
        from shared.azure import identity

        managed = bool(self.settings.identity_endpoint)
        return identity.get_credential(managed, self.settings.azure_client_id)

    def prefetch_tokens(self) -> None:
        """Request the tokens for search and model, if there is a managed identity.

        A developer's sign-in is left out: a CLI would take CPU time from the start.
        """
        settings = self.settings
        uses_azure = settings.azure_search_endpoint or settings.azure_openai_endpoint
        if not settings.identity_endpoint or not uses_azure:
            return
        from shared.azure import identity

        scopes = [identity.SEARCH_SCOPE] if settings.azure_search_endpoint else []
        scopes += [identity.OPENAI_SCOPE] if settings.azure_openai_endpoint else []
        identity.prefetch_tokens(self.identity, scopes)

    @property
    def azure_openai_base_url(self) -> str:
        """The base URL of Azure OpenAI's API. Raises SettingsError."""
        (url,) = require_settings(self.settings, "AZURE_OPENAI_ENDPOINT")
        return f"{url.removesuffix('/v1').removesuffix('/openai')}/openai/v1"

    @cached_property
    def azure_openai(self) -> Any:
        """The client of Azure OpenAI, for chat and embeddings. Raises SettingsError."""
        from shared.azure import identity
        from shared.models.openai.client import make_client

        key = identity.make_token_provider(self.identity, identity.OPENAI_SCOPE)
        return make_client(f"{self.azure_openai_base_url}/", key, self.batch)

    @cached_property
    def openai(self) -> Any:
        """The client of OPENAI_BASE_URL, for chat and embeddings. Raises SettingsError."""
        (base_url,) = require_settings(self.settings, "OPENAI_BASE_URL")
        return self._make_client(base_url, self.settings.openai_api_key)

    @cached_property
    def openai_embeddings(self) -> Any:
        """The client of OPENAI_EMBEDDING_BASE_URL. Raises SettingsError."""
        settings = self.settings
        if settings.openai_embedding_base_url is None:
            raise SettingsError(("OPENAI_EMBEDDING_BASE_URL is required, or OPENAI_BASE_URL",))
        return self._make_client(
            settings.openai_embedding_base_url, settings.openai_embedding_api_key
        )

    def _make_client(self, base_url: str, key: SecretStr | None) -> Any:
        from shared.models.openai.client import fixed_key, make_client

        value = key.get_secret_value() if key else "none"  # servers without keys accept any
        return make_client(base_url, fixed_key(value), self.batch)

    @property
    def embedding_model(self) -> str | None:
        """The name of the embedding model: Azure OpenAI's, another server's, the built-in one."""
        if self.settings.embeddings == "off":
            return None
        if self.uses_builtin_embedding:
            return builtin_embedding.MODEL
        return self._served_embedding_model

    @property
    def _served_embedding_model(self) -> str | None:
        settings = self.settings
        return settings.azure_openai_embedding_deployment or settings.openai_embedding_model

    @property
    def uses_builtin_embedding(self) -> bool:
        """Whether the built-in model embeds: for the embedded index, if nothing else is set."""
        return (
            self.settings.embeddings == "builtin"
            and self._served_embedding_model is None
            and self.settings.azure_search_endpoint is None
            and builtin_embedding.is_available()
        )

    @property
    def _embedding_client(self) -> Any:
        """The client of the embedding model, which may have a server of its own."""
        settings = self.settings
        if settings.azure_openai_embedding_deployment:
            return self.azure_openai
        shares_server = settings.openai_base_url and not settings.openai_embedding_base_url
        return self.openai if shares_server else self.openai_embeddings

    @cached_property
    def blob_container(self) -> Any:
        """The container with the files of citations. Raises SettingsError."""
        from shared.files.blobs import make_container_client

        (endpoint,) = require_settings(self.settings, "AZURE_STORAGE_ENDPOINT")
        return make_container_client(endpoint, self.settings.azure_storage_container, self.identity)

    @property
    def blob_files(self) -> Any:
        """The store of the Blob container. Raises SettingsError."""
        from shared.files.blobs import BlobFiles

        return BlobFiles(self.blob_container, self.settings.storage_seconds)

    @cached_property
    def embed(self) -> Embed | None:
        """The embedding function; None without a model. Raises SettingsError."""
        name = self.embedding_model
        if name is None:
            return None
        if self.uses_builtin_embedding:
            return builtin_embedding.embed
        from shared.models.openai.client import embed

        seconds = BATCH_REQUEST_SECONDS if self.batch else self.settings.search_seconds
        return partial(embed, self._embedding_client, name, seconds)

    async def check_embedding(self) -> None:
        """Check that the embedding model is available, without an inference. Raises ChatErrors."""
        from shared.models.openai.client import check_ready

        if self.uses_builtin_embedding:
            return
        name = self.embedding_model or ""
        await check_ready(self._embedding_client, "/models", name, "do its key or its roles hold?")

    async def close(self, identity: bool = True) -> None:
        """Close all clients, and the shared `identity` on request."""
        for client in self.others:
            await client.close()
        names = ["azure_openai", "openai", "openai_embeddings"]
        for name in [*names, "identity"] if identity else names:
            if name in vars(self):
                await vars(self)[name].close()


def get_max_prompt_tokens(settings: Settings, url: str) -> int:
    """Return the setting, or its default for the server of a URL.

    On a laptop a context often has 4,096 tokens, counted with another tokenizer, and the answer
    needs room in it. Ollama cuts what is longer, often without an error.
    """
    return settings.max_prompt_tokens or (3_000 if is_local(url) else 16_000)


def make_http_model(settings: Settings, client: Any, url: str, flavor: str, **config: Any) -> Any:
    """Make the model of an HTTP server, with the settings for all models and its own `config`."""
    from shared.models.formats import FLAVORS
    from shared.models.formats.base import ModelConfig
    from shared.models.formats.openai import default_effort, model_limits
    from shared.models.openai.http_model import HttpModel

    common = {
        "max_prompt_tokens": get_max_prompt_tokens(settings, url),
        "max_answer_tokens": settings.max_answer_tokens,
        "accept_seconds": settings.model_accept_seconds,
        "first_seconds": settings.model_first_token_seconds,
        "gap_seconds": settings.model_gap_seconds,
        "reasoning_effort": settings.reasoning_effort or default_effort(config["name"]),
    }
    model_config = ModelConfig(**common | config)
    model_format = FLAVORS[flavor]
    limits = model_limits(model_config, model_format.unsupported)
    return HttpModel(client, url, model_format, model_config, limits)
