"""Settings: parsing, validation, and error messages without values."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from shared.bootstrap.build import start
from shared.bootstrap.local_settings import describe_misspelt
from shared.bootstrap.models import MODEL_FACTORIES
from shared.protocols.exchange import App
from shared.protocols.health import Health, HealthReport
from shared.protocols.mcp.documents import McpConfig
from shared.retrieval.base import Retriever
from shared.settings import Settings, SettingsError, read_settings
from tests.support import fakes
from tests.support.calls import ask, call


def test_empty_string_is_unset() -> None:
    assert (
        read_settings({"CHAT_MODEL": "", "DEFAULT_TOP": "  ", "WEBSITE_AUTH_ENABLED": ""})
        == Settings()
    )


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh"])
def test_each_effort_of_a_reasoning_model_can_be_set(effort: str) -> None:
    assert read_settings({"REASONING_EFFORT": effort}).reasoning_effort == effort


def test_all_invalid_settings_are_named_without_values() -> None:
    wrong = {
        "DEFAULT_TOP": "secret",
        "DEFAULT_TEMPERATURE": "3",
        "ALLOW_CLIENT_PROMPTS": "perhaps",
        "MAX_JSON_BYTES": "0",
        "ANSWER_TIMEOUT_SECONDS": "0",
    }
    with pytest.raises(SettingsError) as failure:
        read_settings(wrong)

    assert set(failure.value.problems) == {
        "DEFAULT_TOP must be a whole number",
        "DEFAULT_TEMPERATURE must be 2 or less",
        "ALLOW_CLIENT_PROMPTS must be true or false",
        "MAX_JSON_BYTES must be 1 or more",
        "ANSWER_TIMEOUT_SECONDS must be more than 0",
    }


@pytest.mark.part("page")
@pytest.mark.parametrize("color", ["green", "#fff", "#12345g", "#1234567", "2457c5", "red;x"])
def test_color_is_six_hexadecimal_digits(color: str) -> None:
    with pytest.raises(SettingsError) as failure:
        read_settings({"PAGE_COLOR": color})

    assert failure.value.problems == ("PAGE_COLOR must be a color such as #2457c5",)


@pytest.mark.parametrize("name", ["abc", "files-2", "a" * 63])
def test_container_name_of_blob_storage_is_accepted(name: str) -> None:
    assert read_settings({"AZURE_STORAGE_CONTAINER": name}).azure_storage_container == name


@pytest.mark.parametrize("name", ["ab", "Files", "a_b", "-ab", "a--b", "ab-", "a/b", "a" * 64])
def test_other_container_names_are_refused(name: str) -> None:
    with pytest.raises(SettingsError) as failure:
        read_settings({"AZURE_STORAGE_CONTAINER": name})

    assert failure.value.problems == (
        "AZURE_STORAGE_CONTAINER must be 3 to 63 lower-case letters, digits and single hyphens",
    )


@pytest.mark.parametrize(
    "name", ["nonsense", "no.such:model", "tests.support.fakes:absent", "json:", ":x"]
)
def test_unknown_model_factory_is_a_problem_of_its_setting(name: str) -> None:
    known = ", ".join(MODEL_FACTORIES)
    problem = f"CHAT_MODEL must be {known}, or a package.module:factory that can be imported"

    assert start({"CHAT_MODEL": name, **fakes.FAKE_INDEX}).problems == (problem,)


def test_app_loads_with_a_failing_factory() -> None:
    assert start({"CHAT_MODEL": "json:loads"}).problems == (
        "The app could not start: see its log.",
    )


MISSPELT = {
    "OPENAI_CHAT_MODLE": "OPENAI_CHAT_MODEL",
    "OPENAI_BASEURL": "OPENAI_BASE_URL",
    "OPENAI_MODEL": "OPENAI_CHAT_MODEL",
    "AZURE_OPENAI_DEPLOYMENT": "AZURE_OPENAI_CHAT_DEPLOYMENT",
    "OPENAI_EMBEDING_MODEL": "OPENAI_EMBEDDING_MODEL",
    "MODEL_PROVIDER": "MODEL_PROVIDERS",
    "DOCUMENT_PATH": "DOCUMENTS_PATH",
    "chat_model": "CHAT_MODEL",
}
OF_OTHERS = (
    *("FUNCTIONS_WORKER_RUNTIME", "AzureWebJobsStorage", "PYTHON_ENABLE_INIT_INDEXING"),
    *("AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_SUBSCRIPTION_ID", "AZURE_CONFIG_DIR"),
    *("AZURE_STORAGE_ACCOUNT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION", "OPENAI_API_KEY_2"),
    *("MISTRAL_API_KEY", "GEMINI_API_KEY", "OTEL_SERVICE_NAME", "SSL_CERT_FILE", "HTTPS_PROXY"),
    *("APPLICATIONINSIGHTS_CONNECTION_STRING", "WEBSITE_RUN_FROM_PACKAGE", "MY_SEARCH_URL"),
)


@pytest.mark.parametrize("name", MISSPELT)
def test_misspelt_setting_is_named_with_the_right_one(name: str) -> None:
    sentence = f"{name} is not a setting of this app: did you mean {MISSPELT[name]}?"

    assert list(describe_misspelt([name])) == [sentence]


def test_settings_and_variables_of_others_are_not_misspelt() -> None:
    names = {str(field.alias) for field in Settings.model_fields.values()}

    assert list(describe_misspelt([*sorted(names), *OF_OTHERS])) == []


def test_missing_half_of_a_pair_is_named() -> None:
    wrong = {
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt",
        "OPENAI_BASE_URL": "http://localhost:11434/v1",
        "OPENAI_API_KEY": "s3cret",
        "OPENAI_EMBEDDING_API_KEY": "s3cret",
    }

    assert start(wrong).problems == (
        "AZURE_OPENAI_ENDPOINT is required with AZURE_OPENAI_CHAT_DEPLOYMENT",
        "OPENAI_CHAT_MODEL is required with OPENAI_BASE_URL",
        "OPENAI_EMBEDDING_BASE_URL is required with OPENAI_EMBEDDING_API_KEY",
    )
    assert start({"CHAT_MODEL": "openai"}).problems == (
        "OPENAI_BASE_URL is required",
        "OPENAI_CHAT_MODEL is required",
    )


NO_URLS = [
    "localhost:11434",
    "ftp://host",
    "http://",
    "http://host:x",
    "http://host:0",
    "http://ex ample",
    "http://host?api-version=1",
    "http://host#x",
    "http://user:s3cret@host",
]


@pytest.mark.parametrize("value", NO_URLS)
def test_endpoint_that_is_not_a_url_is_named(value: str) -> None:
    wrong = {"OPENAI_BASE_URL": value, "OPENAI_CHAT_MODEL": "x"}
    message = "OPENAI_BASE_URL must be a URL such as https://host, without a query"

    assert start(wrong).problems == (message,)


@pytest.mark.parametrize("name", ["AZURE_OPENAI_ENDPOINT", "AZURE_SEARCH_ENDPOINT"])
def test_endpoint_without_tls_is_rejected_for_tokens(name: str) -> None:
    message = f"{name} must be a URL such as https://host: no token goes out without TLS"

    assert start({name: "http://mine.openai.azure.com"}).problems == (message,)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_endpoint_on_this_machine_needs_no_tls(host: str) -> None:
    settings = read_settings({"AZURE_COSMOS_ENDPOINT": f"http://{host}:8081"})

    assert settings.azure_cosmos_endpoint == f"http://{host}:8081"


@pytest.mark.parametrize(
    "name", ["content", "Chat", "ask", "health", "mcp", "admin", "_search", "_all"]
)
def test_index_named_like_a_route_is_rejected(name: str) -> None:
    search = {"AZURE_SEARCH_ENDPOINT": "https://mine.search.windows.net"}
    message = "AZURE_SEARCH_INDEX must not be the first segment of another route, nor begin with _"

    assert start({**search, "AZURE_SEARCH_INDEX": name}).problems == (message,)
    assert read_settings({**search, "AZURE_SEARCH_INDEX": "docs"}).azure_search_index == "docs"


@pytest.mark.parametrize("end", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
def test_azure_endpoint_is_accepted_in_every_form(end: str) -> None:
    both = {"AZURE_OPENAI_ENDPOINT": f"https://x{end}", "AZURE_OPENAI_CHAT_DEPLOYMENT": "c"}
    engine = start(both | fakes.FAKE_INDEX).rag

    assert engine is not None
    assert str(engine.model.client.base_url) == "https://x/openai/v1/"  # type: ignore[attr-defined]


def test_key_that_is_invalid_in_a_header_is_named() -> None:
    for key in ("k\u00e9", "a b", "a\nb"):
        assert start({"OPENAI_API_KEY": key}).problems == (
            "OPENAI_API_KEY must be one word of ASCII characters",
        )


def test_repr_of_settings_has_no_key() -> None:
    assert "s3cret" not in repr(read_settings({"OPENAI_API_KEY": "s3cret"}))


@pytest.mark.parametrize("key", ["k", "k" * 19])
def test_short_caller_key_is_rejected(key: str) -> None:
    message = "CHAT_API_KEY must have 20 characters or more: `openssl rand -base64 30` makes one"

    assert start({"CHAT_API_KEY": key}).problems == (message,)


def test_caller_key_of_20_characters_is_accepted() -> None:
    assert not start({"CHAT_API_KEY": "k" * 20, **fakes.FAKES}).problems
    assert not start({"CHAT_API_KEY": "", **fakes.FAKES}).problems


@pytest.mark.parametrize(
    "scores", ["[0,1,2,3]", "[0,1,2,3,4,4]", "[2,1,2,3,4]", "[0,1,2,3,5]", "3"]
)
def test_strictness_scores_must_be_five_ascending_values(scores: str) -> None:
    (problem,) = start({"STRICTNESS_SCORES": scores}).problems

    assert problem.startswith("STRICTNESS_SCORES must be")
    assert not start({"STRICTNESS_SCORES": "[0, 0, 1, 2.5, 4]", **fakes.FAKES}).problems


def test_custom_model_is_imported_by_name() -> None:
    assert start(fakes.FAKES).config(Health).names["model"] == "command_model"


@pytest.mark.parametrize("name", ["nonsense", "no.such:retriever", "tests.support.fakes:absent"])
def test_unknown_retriever_factory_is_a_problem_of_its_setting(name: str) -> None:
    assert start({"RETRIEVER": name, **fakes.FAKE_MODEL}).problems == (
        "RETRIEVER must be a package.module:factory that can be imported",
    )


class NoSearch(Retriever):
    """A retriever with only the inherited defaults."""


def without_search(_settings: Settings) -> object:
    return NoSearch()  # type: ignore[abstract]


MEMBERS = [name for name in vars(Retriever) if not name.startswith("_")]


def not_a_retriever(_settings: Settings) -> object:
    return object()


@pytest.mark.parametrize(
    ("factory", "missing"),
    [
        ("without_search", "search"),
        ("not_a_retriever", ", ".join(MEMBERS)),
    ],
)
def test_missing_members_of_a_retriever_are_named_at_start(factory: str, missing: str) -> None:
    assert start({"RETRIEVER": f"{__name__}:{factory}", **fakes.FAKE_MODEL}).problems == (
        f"RETRIEVER names a factory whose retriever has no {missing}",
    )


ROOT = Path(__file__).parent.parent.parent
PLATFORM = {"FUNCTIONS_WORKER_RUNTIME", "AzureWebJobsStorage", "PYTHON_ENABLE_INIT_INDEXING"}


def test_missing_index_file_is_named_with_the_command_to_create_it(tmp_path: Path) -> None:
    message = "INDEX_FILE names a missing file: `make index DOCS=folder` creates it"

    assert start({"INDEX_FILE": str(tmp_path / "none.db")}).problems == (message,)
    assert start({"INDEX_FILE": ""}).problems == start({"INDEX_FILE": "samples"}).problems == ()


def test_docs_table_has_every_setting_and_default() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \|.*\| `(\S+)` \|$", text, re.MULTILINE))
    fields = Settings.model_fields.values()

    def cell(default: object) -> str:
        return "none" if default in ((), frozenset()) else str(default).lower()

    assert table == {str(f.alias): cell(f.default) for f in fields}


def test_sample_of_local_settings_has_known_settings() -> None:
    sample = json.loads((ROOT / "local.settings.sample.json").read_text("utf-8"))
    known = {field.alias for field in Settings.model_fields.values()}

    assert set(sample["Values"]) - PLATFORM <= known
    assert read_settings(sample["Values"]) == read_settings(
        {"EMBEDDINGS": "builtin", "MEMORY_FILE": "memory.db"}
    )
    assert "*" not in sample["Host"]["CORS"]


def test_model_example_of_the_docs_works() -> None:
    text = (ROOT / "docs" / "own-model-or-search.md").read_text("utf-8")
    block = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block[0], names)
    service = App(fakes.make_rag(names["make"](Settings())))
    response = ask(call("/chat"), service)

    assert response.json["message"]["content"].startswith("What is in Plus?\n\nSources:\n")
    assert response.json["context"]["finish_reason"] == "stop"


def test_retriever_example_of_the_docs_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "own-model-or-search.md").read_text("utf-8")
    block = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_search.py").write_text(block[1])
    monkeypatch.syspath_prepend(tmp_path)
    search = {"AZURE_SEARCH_ENDPOINT": "https://x", "AZURE_SEARCH_INDEX": "i"}
    service = start({"RETRIEVER": "my_search:make", **fakes.FAKE_MODEL, **search})
    body = {"messages": [{"role": "user", "content": "When has the library opened?"}]}
    response = ask(call("/chat", body), service)
    texts = response.json["context"]["data_points"]["text"]

    assert service.config(Health).names["index"] == "library"
    assert texts[0] == "opening.md: The library opens at nine."
    assert asyncio.run(service.config(Health).report()) == HealthReport()
    assert ask(call("/content/{path}", b"", method="GET", path="opening.md"), service).status == 404


AUTH_ENABLED = {"WEBSITE_AUTH_ENABLED": "true"}


@pytest.mark.parametrize("more", [{}, {"CONTAINER_NAME": "x"}, {"CONTAINER_APP_NAME": "x"}])
def test_sign_in_outside_app_service_is_rejected(
    more: dict[str, str],
) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({**AUTH_ENABLED, **more})

    (problem,) = refused.value.problems
    assert problem.startswith("WEBSITE_AUTH_ENABLED is set, and the platform is not App Service")
    assert "TRUST_SIGN_IN_HEADERS" in problem
    assert read_settings(
        {**AUTH_ENABLED, **more, "TRUST_SIGN_IN_HEADERS": "true"}
    ).website_auth_enabled


@pytest.mark.parametrize("name", ["WEBSITE_INSTANCE_ID", "WEBSITE_POD_NAME", "WEBSITE_SITE_NAME"])
def test_sign_in_in_app_service_is_accepted(name: str) -> None:
    assert read_settings({**AUTH_ENABLED, name: "x"}).website_auth_enabled


def test_on_laptop_needs_development_outside_azure() -> None:
    development = {"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}
    platform = ("WEBSITE_INSTANCE_ID", "CONTAINER_NAME", "WEBSITE_POD_NAME", "WEBSITE_SITE_NAME")

    assert read_settings(development).on_laptop
    assert not read_settings({}).on_laptop
    assert not read_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}).on_laptop
    assert not any(read_settings({**development, name: "x"}).on_laptop for name in platform)


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, ""),
        ({"WEBSITE_HOSTNAME": "localhost:7071"}, "http://localhost:7071"),
        ({"WEBSITE_HOSTNAME": "a.example", "WEBSITE_SITE_NAME": "a"}, "https://a.example"),
        ({"WEBSITE_SITE_NAME": "a"}, ""),
        (
            {"PUBLIC_URL": "https://b.example/", "WEBSITE_HOSTNAME": "localhost:7071"},
            "https://b.example",
        ),
    ],
)
def test_app_knows_its_own_address(settings: dict[str, str], url: str) -> None:
    assert start(settings | fakes.FAKES).config(McpConfig).base_url == url
