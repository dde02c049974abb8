"""Settings: empty is unset, everything wrong is named at once, and no value is repeated."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shared.bootstrap import start
from shared.service import Service
from shared.settings import Settings, SettingsError, read
from tests.calls import ask, call
from tests.fakes import engine


def test_an_empty_string_is_unset() -> None:
    assert read({"CHAT_MODEL": "", "DEFAULT_TOP": "  ", "WEBSITE_AUTH_ENABLED": ""}) == Settings()


def test_every_wrong_setting_is_named_at_once_and_no_value_is_repeated() -> None:
    wrong = {
        "DEFAULT_TOP": "secret",
        "DEFAULT_TEMPERATURE": "3",
        "ALLOW_CLIENT_PROMPTS": "perhaps",
        "MAX_JSON_BYTES": "0",
        "ANSWER_TIMEOUT_SECONDS": "0",
    }
    with pytest.raises(SettingsError) as failure:
        read(wrong)

    assert set(failure.value.problems) == {
        "DEFAULT_TOP must be a whole number",
        "DEFAULT_TEMPERATURE must be 2 or less",
        "ALLOW_CLIENT_PROMPTS must be true or false",
        "MAX_JSON_BYTES must be 1 or more",
        "ANSWER_TIMEOUT_SECONDS must be more than 0",
    }


@pytest.mark.parametrize("name", ["nonsense", "no.such:model", "tests.fakes:absent", "json:", ":x"])
def test_a_model_that_cannot_be_found_is_named_by_its_setting(name: str) -> None:
    service = start({"CHAT_MODEL": name})

    assert service.problems == (
        "CHAT_MODEL must be demo, azure-openai, openai, or a package.module:factory that can be "
        "imported",
    )


def test_a_factory_that_fails_does_not_stop_the_app_from_loading() -> None:
    assert start({"CHAT_MODEL": "json:loads"}).problems == (
        "The app could not start; its log names the cause.",
    )


def test_what_belongs_together_is_missed_by_its_name() -> None:
    wrong = {
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt",
        "OPENAI_BASE_URL": "http://localhost:11434/v1",
        "OPENAI_API_KEY": "s3cret",
    }

    assert start(wrong).problems == (
        "AZURE_OPENAI_ENDPOINT is required with AZURE_OPENAI_CHAT_DEPLOYMENT",
        "OPENAI_CHAT_MODEL is required with OPENAI_BASE_URL",
    )
    assert start({"CHAT_MODEL": "openai"}).problems == (
        "OPENAI_BASE_URL is required",
        "OPENAI_CHAT_MODEL is required",
    )


def test_an_endpoint_that_is_no_url_is_named() -> None:
    wrong = {"OPENAI_BASE_URL": "localhost:11434", "OPENAI_CHAT_MODEL": "x"}

    identity = {"AZURE_OPENAI_ENDPOINT": "http://host", "AZURE_SEARCH_ENDPOINT": "http://127.0.0.1"}

    assert start(wrong).problems == ("OPENAI_BASE_URL must be a URL such as https://host",)
    assert start(identity).problems == (
        "AZURE_OPENAI_ENDPOINT must be a URL such as https://host",
        "AZURE_SEARCH_ENDPOINT must be a URL such as https://host",
    )


def test_a_key_does_not_show_in_the_settings() -> None:
    assert "s3cret" not in repr(read({"OPENAI_API_KEY": "s3cret"}))


def test_a_model_of_one_s_own_is_imported_by_its_name() -> None:
    assert start({"CHAT_MODEL": "tests.fakes:obeying"}).parts["model"] == "obeying"


ROOT = Path(__file__).parent.parent
PLATFORM = {"FUNCTIONS_WORKER_RUNTIME", "AzureWebJobsStorage", "PYTHON_ENABLE_INIT_INDEXING"}


def test_the_table_of_the_docs_names_every_setting_and_its_default() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \|.*\| `(\S+)` \|$", text, re.MULTILINE))
    fields = Settings.model_fields.values()

    assert table == {str(f.alias): str(f.default).lower() for f in fields}


def test_the_sample_of_local_settings_holds_settings_that_exist() -> None:
    sample = json.loads((ROOT / "local.settings.sample.json").read_text("utf-8"))
    known = {field.alias for field in Settings.model_fields.values()}

    assert set(sample["Values"]) - PLATFORM <= known
    assert read(sample["Values"]) == Settings()
    assert "*" not in sample["Host"]["CORS"]


def test_the_model_in_the_docs_answers() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    block = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block[0], names)
    service = Service(engine(names["make"](Settings())))
    got = ask(call("/chat"), service)

    assert got.json["message"]["content"].startswith("What is in Plus?\n\nSources:\n")
    assert got.json["context"]["finish_reason"] == "stop"
