"""Parses and validates the app's settings from the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    SecretStr,
    ValidationError,
    ValidationInfo,
)

from shared.domain.errors import describe_error
from shared.domain.hosts import is_loopback
from shared.domain.overrides import DEFAULT_TOP, MAX_TOP, ModelName, Policy
from shared.models.providers.metadata import ProviderMetadata
from shared.models.providers.provider_list import read_list
from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource
from shared.retrieval.azure_search.search_fields import FieldNames

MIB = 1024 * 1024


class SettingsError(Exception):
    """Missing or invalid settings: all of them, with names but never values."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


Name = Annotated[str, Field(min_length=1)]
HEADER_WORD = re.compile(r"[\x21-\x7e]+")
MIN_KEY_LENGTH = 20  # of CHAT_API_KEY: anyone on the network may try to guess it


def _check_url(value: str) -> str:
    """Check a URL: only scheme, host, port and path."""
    try:
        parts = urlsplit(value)
        extra = parts.query or parts.fragment or parts.username or re.search(r"[\s?#]", value)
        has_host = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is not a number
        has_host, extra = False, None
    if not has_host or extra:
        raise ValueError("must be a URL such as https://host, without a query")
    return value.rstrip("/")


def _check_tls(value: str) -> str:
    """Check a URL that gets tokens of the identity: https, or on this machine."""
    parts = urlsplit(value)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be a URL such as https://host: no token goes out without TLS")
    return value


def _check_key(value: SecretStr) -> SecretStr:
    if not HEADER_WORD.fullmatch(value.get_secret_value()):
        raise ValueError("must be one word of ASCII characters")
    return value


def _check_caller_key(value: SecretStr) -> SecretStr:
    if len(value.get_secret_value()) < MIN_KEY_LENGTH:
        hint = "`openssl rand -base64 30` makes one"
        raise ValueError(f"must have {MIN_KEY_LENGTH} characters or more: {hint}")
    return value


def _check_index_name(value: str) -> str:
    """Check the name of an index, which becomes part of a route: `/{index}/_search`."""
    if value.startswith("_") or value.lower() in ROUTE_WORDS:
        raise ValueError("must not be the first segment of another route, nor begin with _")
    return value


def _check_container_name(value: str) -> str:
    """Check a container's name against the rules of Blob storage: it becomes part of a URL."""
    if not re.fullmatch(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*", value, re.ASCII):
        raise ValueError("must be 3 to 63 lower-case letters, digits and single hyphens")
    return value


def _parse_providers(value: str, info: ValidationInfo) -> tuple[ProviderMetadata, ...]:
    """Parse MODEL_PROVIDERS, with secrets from the environment."""
    return read_list(value, info.context or {}, SHARED_FOLDER.parent)


def _check_color(value: str) -> str:
    if not re.fullmatch(r"#[0-9a-f]{6}", value, re.ASCII | re.IGNORECASE):
        raise ValueError("must be a color such as #2457c5")
    return value


def _check_ascending(scores: tuple[float, ...]) -> tuple[float, ...]:
    if len(scores) != 5 or list(scores) != sorted(scores):
        raise ValueError("must be five scores in ascending order")
    return scores


def _split(value: str) -> frozenset[str]:
    """Split a list that is separated by commas."""
    return frozenset(part.strip().lower() for part in value.split(",")) - {""}


def _check_hosts(hosts: frozenset[str]) -> frozenset[str]:
    if not all(HOST.fullmatch(host) for host in hosts):
        raise ValueError("must be hosts such as api.example.com or host:port, separated by commas")
    return frozenset(host.removesuffix(":443") for host in hosts)


def _check_origins(values: frozenset[str]) -> frozenset[str]:
    origins = frozenset(value.rstrip("/") for value in values) - {""}
    if not all(ORIGIN.fullmatch(origin) for origin in origins - {"*"}):
        raise ValueError("must be origins such as https://www.example.com, separated by commas")
    return origins


SHARED_FOLDER = Path(__file__).parent
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/,\s?#@]+", re.ASCII)
HOST = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?(:[0-9]{1,5})?", re.ASCII)
# The first segments of routes; "admin" is the Functions host's.
ROUTE_WORDS = ("admin", "aog", "api", "ask", "chat", "content", "health", "mcp", "openai", "v1")
IndexName = Annotated[Name, AfterValidator(_check_index_name)]
Url = Annotated[str, AfterValidator(_check_url)]
SecureUrl = Annotated[Url, AfterValidator(_check_tls)]
ContainerName = Annotated[str, AfterValidator(_check_container_name)]
Providers = Annotated[tuple[ProviderMetadata, ...], BeforeValidator(_parse_providers)]
Origins = Annotated[frozenset[str], BeforeValidator(_split), AfterValidator(_check_origins)]
Hosts = Annotated[frozenset[str], BeforeValidator(_split), AfterValidator(_check_hosts)]
Key = Annotated[SecretStr, AfterValidator(_check_key)]
CallerKey = Annotated[Key, AfterValidator(_check_caller_key)]
Score = Annotated[float, Field(ge=0, le=4)]
Scores = Annotated[Json[tuple[Score, ...]], AfterValidator(_check_ascending)]
Title = Annotated[str, Field(min_length=1, max_length=100)]
Color = Annotated[str, AfterValidator(_check_color)]
Aliases = Json[Annotated[dict[ModelName, ModelName], Field(max_length=100)]]
Questions = Json[Annotated[tuple[Title, ...], Field(max_length=10)]]
KnowledgeSources = Json[tuple[KnowledgeSource, ...]]
EntraId = Annotated[Name, Field(pattern=r"^[A-Za-z0-9.-]+$")]
SearchPermissions = Literal["filter", "user-token"]
KnowledgeEffort = Literal["minimal", "low", "medium"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ModelApi = Literal["chat_completions", "responses"]
Callers = Literal["keys", "signed-in", "anyone"]
Switch = Literal["on", "off"]

# Settings that require each other.
REQUIRED_PAIRS = (
    ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT"),
    ("OPENAI_BASE_URL", "OPENAI_CHAT_MODEL"),
    ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX"),
)
# Settings that require another one.
REQUIREMENTS = (
    *chain.from_iterable((pair, pair[::-1]) for pair in REQUIRED_PAIRS),
    ("OPENAI_EMBEDDING_BASE_URL", "OPENAI_EMBEDDING_MODEL"),
    ("OPENAI_EMBEDDING_API_KEY", "OPENAI_EMBEDDING_BASE_URL"),
    ("AZURE_SEARCH_KNOWLEDGE_BASE", "AZURE_SEARCH_ENDPOINT"),
    ("AZURE_SEARCH_KNOWLEDGE_SOURCES", "AZURE_SEARCH_KNOWLEDGE_BASE"),
    ("AZURE_SEARCH_KNOWLEDGE_EFFORT", "AZURE_SEARCH_KNOWLEDGE_BASE"),
    ("AZURE_UPLOADS_ENDPOINT", "AZURE_UPLOADS_QUEUE_ENDPOINT"),
    ("AZURE_UPLOADS_ENDPOINT", "AZURE_UPLOADS_INDEX"),
    ("AZURE_UPLOADS_ENDPOINT", "AZURE_SEARCH_ENDPOINT"),
)
UNTRUSTED_SIGN_IN = (
    "WEBSITE_AUTH_ENABLED is set, and the platform is not App Service: any client could send its "
    "sign-in headers. Remove it, or set TRUST_SIGN_IN_HEADERS to true if a proxy in front of the "
    "app sets and strips them"
)


class Settings(BaseModel):
    """The settings of a deployment. A field has the name of its variable in lower case."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=str.upper)

    # The model: a provider's name, or package.module:factory
    chat_model: Name | None = None
    azure_openai_endpoint: SecureUrl | None = None
    azure_openai_chat_deployment: Name | None = None
    azure_openai_embedding_deployment: Name | None = None
    openai_base_url: Url | None = None
    openai_chat_model: Name | None = None
    openai_api_key: Key | None = None
    openai_embedding_model: Name | None = None
    openai_embedding_base_url: Url | None = None
    openai_embedding_api_key: Key | None = None
    # The built-in embedding model where no other one is set, or none at all
    embeddings: Literal["builtin", "off"] | None = None
    chat_model_api: ModelApi = "chat_completions"
    chat_model_reasoning: bool | None = None
    chat_model_vision: bool | None = None
    reasoning_effort: Effort | None = None
    max_prompt_tokens: int | None = Field(default=None, ge=1000)
    max_answer_tokens: int | None = Field(default=None, ge=1)
    model_accept_seconds: float = Field(default=60, gt=0)
    model_first_token_seconds: float = Field(default=60, gt=0)
    model_gap_seconds: float = Field(default=30, gt=0)

    # Several models
    model_providers: Providers = ()
    model_aliases: Aliases = Field(default="{}", validate_default=True)
    hybrid_policy: Policy = "default"
    local_first_token_seconds: float = Field(default=20, gt=0)
    inline_provider_hosts: Hosts = frozenset()

    # Search
    retriever: Name | None = None
    search_seconds: float = Field(default=10, gt=0)
    azure_search_endpoint: SecureUrl | None = None
    azure_search_index: IndexName | None = None
    azure_search_fields: FieldNames | None = None
    azure_search_index_public: bool = False
    azure_search_semantic_configuration: Name | None = None
    azure_search_vectorizer: bool = False
    azure_search_permissions: SearchPermissions = "filter"
    azure_search_knowledge_base: Name | None = None
    azure_search_knowledge_sources: KnowledgeSources = ()
    azure_search_knowledge_effort: KnowledgeEffort | None = None
    index_file: Name = "index.db"
    minimum_relevance: float | None = Field(default=None, gt=0)

    # The files of citations
    documents_path: Name | None = None
    azure_storage_endpoint: SecureUrl | None = None
    azure_storage_container: ContainerName = "documents"
    storage_seconds: float = Field(default=10, gt=0)

    # Documents of users
    uploads: Switch = "off"
    uploads_folder: Name = ".user_documents"
    max_upload_megabytes: int = Field(default=32, ge=1, le=100)
    max_upload_pages: int = Field(default=1000, ge=1)
    max_uploads: int = Field(default=100, ge=1)
    max_uploads_per_day: int = Field(default=200, ge=1)
    azure_uploads_endpoint: SecureUrl | None = None
    azure_uploads_queue_endpoint: SecureUrl | None = None
    azure_uploads_index: IndexName | None = None

    # Stored conversations
    memory_file: Name | None = None
    azure_cosmos_endpoint: SecureUrl | None = None
    azure_cosmos_database: Name = "chat"
    azure_cosmos_container: Name = "memory"
    conversations: Literal["opt-in", "always"] = "opt-in"
    memory_days: float | None = Field(default=None, ge=0, le=24855)
    max_conversations: int = Field(default=10_000, ge=1)
    max_stored_megabytes: int = Field(default=200, ge=1)
    memory_seconds: float = Field(default=10, gt=0)
    feedback_copies: Switch = "off"

    # Answers
    default_top: int = Field(default=DEFAULT_TOP, ge=1, le=MAX_TOP)
    default_temperature: float = Field(default=0.3, ge=0, le=2)
    thoughts: Switch = "on"
    allow_client_prompts: bool = False
    allow_client_filters: bool = False
    strictness_scores: Scores = Field(default="[0.5,1,1.5,2,2.5]", validate_default=True)
    chat_answers: Literal["message", "output_text"] = "message"
    task_models: Switch = "off"
    citation_links: Switch = "off"
    page: Switch = "on"
    page_title: Title | None = None
    page_color: Color | None = None
    page_questions: Questions = ()

    # The description of the routes
    openapi: Switch = "on"

    # Limits
    max_json_bytes: int = Field(default=4 * MIB, ge=1)
    max_form_bytes: int = Field(default=20 * MIB, ge=1)
    max_concurrent_answers: int = Field(default=64, ge=1)
    body_timeout_seconds: float = Field(default=15, gt=0, le=540)
    answer_timeout_seconds: float = Field(default=120, gt=0, le=540)

    # Who may call
    callers: Callers = "keys"
    chat_api_key: CallerKey | None = None
    force_security_filters: bool = True
    trust_sign_in_headers: bool = False
    allowed_origins: Origins = frozenset()
    allowed_hosts: Hosts = frozenset()  # used by dev_server.py, validated here
    public_url: Url | None = None

    # Traces
    trace_exporter: Name | None = None
    trace_ratio: float = Field(default=1, ge=0, le=1)

    # What the platform sets
    azure_client_id: Name | None = None
    identity_endpoint: Name | None = None
    website_auth_enabled: bool = False
    sign_in_tenant_id: EntraId | None = None
    sign_in_client_id: EntraId | None = None
    website_hostname: str | None = None
    website_instance_id: str | None = None
    website_pod_name: str | None = None
    website_site_name: str | None = None
    container_name: str | None = None
    azure_functions_environment: str | None = None
    codespace_name: str | None = None
    github_codespaces_port_forwarding_domain: str | None = None

    @property
    def in_azure(self) -> bool:
        """Whether the app runs in Azure: every plan sets one of these, Core Tools none."""
        return bool(self.container_name or self.in_app_service)

    @property
    def in_app_service(self) -> bool:
        """Whether the app runs in App Service, which strips sign-in headers that callers send.

        CONTAINER_NAME alone is no proof: other containers may have it, too.
        """
        return bool(self.website_instance_id or self.website_pod_name or self.website_site_name)

    @property
    def on_laptop(self) -> bool:
        """Whether the dev server or Core Tools runs the app.

        Anywhere else access is restricted: the app may run in any container, for anybody.
        """
        development = (self.azure_functions_environment or "").lower() == "development"
        return development and not self.in_azure

    @property
    def needs_function_keys(self) -> bool:
        """Whether callers need a function key, where the host checks keys."""
        signed_in = self.callers == "signed-in" and self.website_auth_enabled
        return not signed_in and self.callers != "anyone"

    @property
    def link_base_url(self) -> str:
        """The base URL of links to documents: empty for absolute paths."""
        return self.public_url or self.azure_url

    @property
    def base_url(self) -> str:
        """The app's own address; empty if unknown."""
        local_url = f"http://{self.website_hostname}" if self.website_hostname else ""
        return self.link_base_url or local_url

    @property
    def azure_url(self) -> str:
        """The app's address in Azure; empty elsewhere."""
        return f"https://{self.website_hostname}" if self.website_hostname and self.in_azure else ""

    @property
    def rewrite_seconds(self) -> float:
        """How long a model may take to rewrite a question, or to plan a search."""
        return self.answer_timeout_seconds / 4

    @property
    def retention_seconds(self) -> float | None:
        """The retention of conversations in seconds; None for no limit."""
        return self.memory_days * 86400 if self.memory_days else None


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings. An empty string means unset: azd writes those.

    Raises SettingsError with every invalid setting.
    """
    values = {key: value.strip() for key, value in environment.items() if value.strip()}
    try:
        settings = Settings.model_validate(values, context=values)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise SettingsError(tuple(chain.from_iterable(map(_describe, errors)))) from None
    if problems := tuple(_check_combinations(settings)):
        raise SettingsError(problems)
    return settings


def _describe(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield the messages of an error: several for a list with errors in several entries."""
    cause = error.get("ctx", {}).get("error")
    messages = cause.args if isinstance(cause, ValueError) else (describe_error(error),)
    for message in messages:
        yield f"{error['loc'][0]}{'' if message.startswith('[') else ' '}{message}"


class KeyRequirements(NamedTuple):
    """Whether the host requires its keys: of all callers, and for administrative routes."""

    callers: bool
    admins: bool


def key_requirements(environment: Mapping[str, str]) -> KeyRequirements:
    """Determine which keys the host requires: all of them if the settings are invalid.

    Callers need keys if sign-in is required but off. Administrative routes need the master key,
    except on a laptop, and with sign-in, which has an app role for them.
    """
    try:
        settings = read_settings(environment)
    except SettingsError:
        return KeyRequirements(callers=True, admins=True)
    return KeyRequirements(
        callers=settings.needs_function_keys,
        admins=not settings.on_laptop and not settings.website_auth_enabled,
    )


def _check_combinations(settings: Settings) -> Iterator[str]:
    if (
        settings.website_auth_enabled
        and not settings.in_app_service
        and not settings.trust_sign_in_headers
    ):
        yield UNTRUSTED_SIGN_IN
    if settings.azure_search_permissions == "user-token" and not settings.azure_search_endpoint:
        yield "AZURE_SEARCH_ENDPOINT is required with AZURE_SEARCH_PERMISSIONS=user-token"
    for name, other in REQUIREMENTS:
        if getattr(settings, name.lower()) and not getattr(settings, other.lower()):
            yield f"{other} is required with {name}"


def require_settings(settings: Settings, *names: str) -> list[str]:
    """Return the values of required settings. Raises SettingsError with those that are unset."""
    values = {name: getattr(settings, name.lower()) for name in names}
    if missing := tuple(f"{name} is required" for name, value in values.items() if not value):
        raise SettingsError(missing)
    return [str(value) for value in values.values()]
