"""Parses and validates the app's settings from the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
from shared.domain.overrides import DEFAULT_TOP, Policy
from shared.models.providers.metadata import ProviderMetadata
from shared.models.providers.provider_list import read_list
from shared.retrieval.azure_search.search_fields import FieldNames

MIB = 1024 * 1024
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


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
    if parts.scheme != "https" and parts.hostname not in LOOPBACK_HOSTS:
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
ROUTE_WORDS = ("admin", "aog", "ask", "chat", "content", "health", "mcp", "openai", "v1")
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
UNTRUSTED_SIGN_IN = (
    "WEBSITE_AUTH_ENABLED is set, and the platform is not App Service: any client could send its "
    "sign-in headers. Remove it, or set TRUST_SIGN_IN_HEADERS to true if a proxy in front of the "
    "app sets and strips them"
)


class Settings(BaseModel):
    """The settings of a deployment. The alias of a field is the name of the app setting."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    chat_model: Name | None = Field(default=None, alias="CHAT_MODEL")
    azure_openai_endpoint: SecureUrl | None = Field(default=None, alias="AZURE_OPENAI_ENDPOINT")
    azure_openai_chat_deployment: Name | None = Field(
        default=None, alias="AZURE_OPENAI_CHAT_DEPLOYMENT"
    )
    azure_openai_embedding: Name | None = Field(
        default=None, alias="AZURE_OPENAI_EMBEDDING_DEPLOYMENT"
    )
    openai_embedding: Name | None = Field(default=None, alias="OPENAI_EMBEDDING_MODEL")
    search_endpoint: SecureUrl | None = Field(default=None, alias="AZURE_SEARCH_ENDPOINT")
    search_index: IndexName | None = Field(default=None, alias="AZURE_SEARCH_INDEX")
    search_fields: FieldNames | None = Field(default=None, alias="AZURE_SEARCH_FIELDS")
    search_public: bool = Field(default=False, alias="AZURE_SEARCH_INDEX_PUBLIC")
    search_ranking: Name | None = Field(default=None, alias="AZURE_SEARCH_SEMANTIC_CONFIGURATION")
    search_vectorizer: bool = Field(default=False, alias="AZURE_SEARCH_VECTORIZER")
    retriever: Name | None = Field(default=None, alias="RETRIEVER")
    index_file: Name = Field(default="index.db", alias="INDEX_FILE")
    search_seconds: float = Field(default=10, gt=0, alias="SEARCH_SECONDS")
    openai_base_url: Url | None = Field(default=None, alias="OPENAI_BASE_URL")
    openai_chat_model: Name | None = Field(default=None, alias="OPENAI_CHAT_MODEL")
    openai_api_key: Key | None = Field(default=None, alias="OPENAI_API_KEY")
    azure_client_id: Name | None = Field(default=None, alias="AZURE_CLIENT_ID")
    documents_path: Name | None = Field(default=None, alias="DOCUMENTS_PATH")
    storage_endpoint: SecureUrl | None = Field(default=None, alias="AZURE_STORAGE_ENDPOINT")
    storage_container: ContainerName = Field(default="documents", alias="AZURE_STORAGE_CONTAINER")
    storage_seconds: float = Field(default=10, gt=0, alias="STORAGE_SECONDS")
    model_api: ModelApi = Field(default="chat_completions", alias="CHAT_MODEL_API")
    reasoning: bool | None = Field(default=None, alias="CHAT_MODEL_REASONING")
    vision: bool | None = Field(default=None, alias="CHAT_MODEL_VISION")
    reasoning_effort: Effort | None = Field(default=None, alias="REASONING_EFFORT")
    prompt_tokens: int = Field(default=16000, ge=1000, alias="MAX_PROMPT_TOKENS")
    answer_tokens: int | None = Field(default=None, ge=1, alias="MAX_ANSWER_TOKENS")
    accept_seconds: float = Field(default=60, gt=0, alias="MODEL_ACCEPT_SECONDS")
    first_seconds: float = Field(default=60, gt=0, alias="MODEL_FIRST_TOKEN_SECONDS")
    gap_seconds: float = Field(default=30, gt=0, alias="MODEL_GAP_SECONDS")
    providers: Providers = Field(default=(), alias="MODEL_PROVIDERS")
    policy: Policy = Field(default="default", alias="HYBRID_POLICY")
    local_seconds: float = Field(default=20, gt=0, alias="LOCAL_FIRST_TOKEN_SECONDS")
    request_provider_hosts: Hosts = Field(default=frozenset(), alias="INLINE_PROVIDER_HOSTS")
    chat_api_key: CallerKey | None = Field(default=None, alias="CHAT_API_KEY")
    public_url: Url | None = Field(default=None, alias="PUBLIC_URL")
    trace_exporter: Name | None = Field(default=None, alias="TRACE_EXPORTER")
    trace_ratio: float = Field(default=1, ge=0, le=1, alias="TRACE_RATIO")
    allow_client_prompts: bool = Field(default=False, alias="ALLOW_CLIENT_PROMPTS")
    allow_client_filters: bool = Field(default=False, alias="ALLOW_CLIENT_FILTERS")
    strictness_scores: Scores = Field(
        default="[0.5,1,1.5,2,2.5]", validate_default=True, alias="STRICTNESS_SCORES"
    )
    thoughts: Switch = Field(default="on", alias="THOUGHTS")
    chat_answers: Literal["message", "output_text"] = Field(default="message", alias="CHAT_ANSWERS")
    page: Switch = Field(default="on", alias="PAGE")
    default_top: int = Field(default=DEFAULT_TOP, ge=1, le=50, alias="DEFAULT_TOP")
    default_temperature: float = Field(default=0.3, ge=0, le=2, alias="DEFAULT_TEMPERATURE")
    json_limit: int = Field(default=4 * MIB, ge=1, alias="MAX_JSON_BYTES")
    form_limit: int = Field(default=20 * MIB, ge=1, alias="MAX_FORM_BYTES")
    concurrent_answers: int = Field(default=64, ge=1, alias="MAX_CONCURRENT_ANSWERS")
    body_seconds: float = Field(default=15, gt=0, le=540, alias="BODY_TIMEOUT_SECONDS")
    answer_seconds: float = Field(default=120, gt=0, le=540, alias="ANSWER_TIMEOUT_SECONDS")
    force_security_filters: bool = Field(default=True, alias="FORCE_SECURITY_FILTERS")
    allowed_origins: Origins = Field(default=frozenset(), alias="ALLOWED_ORIGINS")
    # Used by dev_server.py; only validated here.
    allowed_hosts: Hosts = Field(default=frozenset(), alias="ALLOWED_HOSTS")
    codespace: str | None = Field(default=None, alias="CODESPACE_NAME")
    codespaces_domain: str | None = Field(
        default=None, alias="GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN"
    )
    callers: Callers = Field(default="keys", alias="CALLERS")
    memory_file: Name | None = Field(default=None, alias="MEMORY_FILE")
    cosmos_endpoint: SecureUrl | None = Field(default=None, alias="AZURE_COSMOS_ENDPOINT")
    cosmos_database: Name = Field(default="chat", alias="AZURE_COSMOS_DATABASE")
    cosmos_container: Name = Field(default="memory", alias="AZURE_COSMOS_CONTAINER")
    conversations: Literal["opt-in", "always"] = Field(default="opt-in", alias="CONVERSATIONS")
    memory_days: float | None = Field(default=None, ge=0, le=24855, alias="MEMORY_DAYS")
    max_conversations: int = Field(default=10_000, ge=1, alias="MAX_CONVERSATIONS")
    max_stored_megabytes: int = Field(default=200, ge=1, alias="MAX_STORED_MEGABYTES")
    memory_seconds: float = Field(default=10, gt=0, alias="MEMORY_SECONDS")
    sign_in: bool = Field(default=False, alias="WEBSITE_AUTH_ENABLED")
    trust_sign_in: bool = Field(default=False, alias="TRUST_SIGN_IN_HEADERS")
    functions_environment: str | None = Field(default=None, alias="AZURE_FUNCTIONS_ENVIRONMENT")
    host_name: str | None = Field(default=None, alias="WEBSITE_HOSTNAME")
    identity_endpoint: Name | None = Field(default=None, alias="IDENTITY_ENDPOINT")
    instance_id: str | None = Field(default=None, alias="WEBSITE_INSTANCE_ID")
    container_name: str | None = Field(default=None, alias="CONTAINER_NAME")
    pod_name: str | None = Field(default=None, alias="WEBSITE_POD_NAME")
    site_name: str | None = Field(default=None, alias="WEBSITE_SITE_NAME")

    @property
    def in_azure(self) -> bool:
        """Whether the app runs in Azure: every plan sets one of these, Core Tools none."""
        return bool(self.container_name or self.in_app_service)

    @property
    def in_app_service(self) -> bool:
        """Whether the app runs in App Service, which strips sign-in headers that callers send.

        CONTAINER_NAME alone is no proof: other containers may have it, too.
        """
        return bool(self.instance_id or self.pod_name or self.site_name)

    @property
    def on_laptop(self) -> bool:
        """Whether the dev server or Core Tools runs the app.

        Anywhere else access is restricted: the app may run in any container, for anybody.
        """
        development = (self.functions_environment or "").lower() == "development"
        return development and not self.in_azure

    @property
    def link_base_url(self) -> str:
        """The base URL of links to documents: empty for absolute paths."""
        return self.public_url or self.azure_url

    @property
    def base_url(self) -> str:
        """The app's own address; empty if unknown."""
        local_url = f"http://{self.host_name}" if self.host_name else ""
        return self.link_base_url or local_url

    @property
    def azure_url(self) -> str:
        """The app's address in Azure; empty elsewhere."""
        return f"https://{self.host_name}" if self.host_name and self.in_azure else ""

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
    signed_in = settings.callers == "signed-in" and settings.sign_in
    return KeyRequirements(
        callers=not signed_in and settings.callers != "anyone",
        admins=not settings.on_laptop and not settings.sign_in,
    )


def _check_combinations(settings: Settings) -> Iterator[str]:
    if settings.sign_in and not settings.in_app_service and not settings.trust_sign_in:
        yield UNTRUSTED_SIGN_IN
    values = settings.model_dump(by_alias=True)
    for first, second in REQUIRED_PAIRS:
        if values[first] and not values[second]:
            yield f"{second} is required with {first}"
        if values[second] and not values[first]:
            yield f"{first} is required with {second}"


def first_setting(settings: Settings, aliases: Iterable[str]) -> str | None:
    """Return the first setting with a value, including defaults; None without any."""
    values = settings.model_dump(by_alias=True)
    return next((alias for alias in aliases if values[alias]), None)


def require_settings(settings: Settings, *aliases: str) -> list[str]:
    """Return the values of required settings. Raises SettingsError."""
    values = settings.model_dump(by_alias=True)
    if missing := tuple(f"{alias} is required" for alias in aliases if not values[alias]):
        raise SettingsError(missing)
    return [str(values[alias]) for alias in aliases]
