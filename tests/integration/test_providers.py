"""The list of providers: where it is read from, what is wrong with it, how it keeps secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shared.bootstrap.build import start
from shared.domain.hosts import is_local
from shared.settings import SettingsError, read_settings
from tests.support.calls import call, run_calls
from tests.support.flavors import FLAVORS
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.servers import FAKE_SEARCH, ROOT
from tests.support.upstream import error_response

PLAIN = {
    "provider_name": "near",
    "url": "http://localhost:11434/v1/chat/completions",
    "flavor": "openai",
}
YAML = """\
# The one under the desk.
- provider_name: near
  url: {url}/v1/chat/completions
  flavor: openai
  status: 1
  models: [m]
  extra_headers:
    X-Key: ${{DESK_KEY}}
"""


def problems(*entries: Any, **more: str) -> tuple[str, ...]:
    """What is said of a list that is wrong."""
    with pytest.raises(SettingsError) as wrong:
        read_settings(provider_settings(*entries, **more))
    return wrong.value.problems


@pytest.mark.parametrize("name", ["providers.yaml", "providers.json"])
def test_the_list_may_be_a_file(tmp_path: Path, name: str) -> None:
    with run_gateways("openai") as (server,):
        content = YAML.format(url=server.url)
        if name.endswith("json"):
            headers = {"X-Key": "${DESK_KEY}"}
            content = json.dumps([provider_entry("openai", server, extra_headers=headers)])
        (tmp_path / name).write_text(content, "utf-8")
        settings = {**FAKE_SEARCH, "MODEL_PROVIDERS": str(tmp_path / name), "DESK_KEY": "k3y"}
        (got,) = run_calls(settings, call("/chat"))

    assert got.json["message"]["content"] == "Remote [a.md]."
    assert server.requests[0].headers["x-key"] == "k3y"


@pytest.mark.part("ollama-models")
def test_the_list_in_the_docs_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "models.md").read_text("utf-8")
    block = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    (tmp_path / "list.yaml").write_text(block[1], "utf-8")
    desk, cloud = read_settings({"MODEL_PROVIDERS": str(tmp_path / "list.yaml")}).model_providers

    assert (desk.service_source, desk.models) == ("local", ["qwen3:8b", "llama3.2"])
    assert (cloud.service_source, cloud.auth_type) == ("remote", "apikey")
    fields = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))))
    assert set(type(desk).model_fields) <= fields


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "MODEL_PROVIDERS names a file that cannot be read"),
        (b"- a: [", "MODEL_PROVIDERS names a file that is no YAML or JSON (line 1)"),
        (b"\xff\xfe\xff", "MODEL_PROVIDERS names a file that is no YAML or JSON"),
        (b"", "MODEL_PROVIDERS must be a list of providers"),
        (b"{}", "MODEL_PROVIDERS must be a list of providers"),
        (
            b"- !!python/object/apply:os.system [true]",
            "MODEL_PROVIDERS names a file that is no YAML",
        ),
    ],
)
def test_an_invalid_file_is_a_problem(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "list.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as wrong:
        read_settings({"MODEL_PROVIDERS": str(path)})

    (message,) = wrong.value.problems
    assert message.startswith(problem)


@pytest.mark.parametrize("value", ["[", "[]", "{}", '["x"', "[NaN]"])
def test_an_invalid_value_is_a_problem(value: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        read_settings({"MODEL_PROVIDERS": value})

    assert wrong.value.problems[0].startswith("MODEL_PROVIDERS")


def test_each_problem_names_its_entry() -> None:
    messages = problems(
        PLAIN | {"status": 2, "service_source": "here"},
        {"flavor": "openai"},
        "text",
        PLAIN | {"provider_name": "b", "url": "ftp://x"},
        PLAIN | {"provider_name": "c", "colour": "red"},
    )

    assert messages == (
        "MODEL_PROVIDERS[0] (near).service_source: must be one of 'local' or 'remote'",
        "MODEL_PROVIDERS[0] (near).status: must be one of 0 or 1",
        "MODEL_PROVIDERS[1].provider_name: is required",
        "MODEL_PROVIDERS[1].url: is required",
        "MODEL_PROVIDERS[2]: must be an object",
        "MODEL_PROVIDERS[3] (b).url: must be a URL such as https://host/v1/chat/completions",
        "MODEL_PROVIDERS[4] (c).colour: is not known here",
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://user:password@host/x",
        "https://host\\@evil/x",
        "https://host/x#fragment",
        "https://ho st/x",
        "https://höst/x",
        "//host/x",
        "https:///x",
        "https://host:99999/x",
        "file:///etc/passwd",
    ],
)
def test_an_ambiguous_url_is_refused(url: str) -> None:
    (message,) = problems(PLAIN | {"url": url})

    assert message.startswith("MODEL_PROVIDERS[0] (near).url: must be a URL")
    assert "password" not in message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"auth_type": "apikey"}, "auth_key must be"),
        ({"auth_type": "apikey", "auth_key": {"ak": "${K}"}}, "auth_key must be"),
        ({"auth_type": "none", "auth_key": {"apikey": "${K}"}}, "auth_key must be"),
        ({"auth_type": "apikey", "auth_key": {"apikey": "sk-clear"}}, "no secret stands"),
        ({"auth_type": "apikey", "auth_key": {"apikey": ""}}, "no secret stands"),
        ({"auth_type": "apikey", "auth_key": {"apikey": "${K}x"}}, "no secret stands"),
        ({"auth_type": "apikey", "auth_key": "{"}, "JSON string"),
        ({"auth_type": "apikey", "auth_key": {"apikey": "${TWO}"}}, "one word"),
        ({"extra_headers": {"Host": "evil"}}, "must not set 'Host'"),
        ({"extra_headers": {"x-stainless-raw-response": "true"}}, "must not set"),
        ({"extra_headers": {"Expect": "100-continue"}}, "must not set 'Expect'"),
        ({"extra_json_body": '{"a": 1e400}'}, "out of range"),
        ({"extra_headers": {"a b": "x"}}, "must not set 'a b'"),
        ({"extra_headers": {"A": "x\r\nB: y"}}, "ASCII"),
        ({"extra_headers": {"A": "${UNSET}"}}, "UNSET is not set"),
        ({"extra_json_body": {"messages": []}}, "must not set messages"),
        ({"extra_json_body": {"stream": False}}, "must not set stream"),
        ({"extra_json_body": {"input": "x"}}, "must not set input"),
        ({"extra_json_body": {"instructions": "x"}}, "must not set instructions"),
        ({"properties": {"max_input_tokens": 0}}, "max_input_tokens: must be 1 or more"),
        ({"properties": {"supported_response_mode": []}}, "must not be empty"),
        ({"status": True}, "status: must be one of 0 or 1"),
        (
            {"auth_type": "apikey", "auth_key": {"apikey": "${identity}"}, "url": "http://a/b"},
            "TLS",
        ),
    ],
)
def test_invalid_entries_are_refused(more: dict[str, Any], words: str) -> None:
    (message,) = problems(PLAIN | more, K="k", TWO="a b")

    assert message.startswith("MODEL_PROVIDERS[0] (near)")
    assert words in message
    assert "sk-clear" not in message


def test_one_provider_must_be_available() -> None:
    service = start(provider_settings(PLAIN))

    assert service.problems == ("MODEL_PROVIDERS must have a provider with status 1",)


@pytest.mark.part("demo")
def test_a_name_of_a_provider_of_the_settings_is_refused() -> None:
    named = PLAIN | {"provider_name": "demo", "status": 1}
    service = start(provider_settings(named, CHAT_MODEL="demo"))

    assert service.problems == (
        "MODEL_PROVIDERS must not name a provider demo: the settings make one",
    )


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://192.168.0.9/v1", True),
        ("http://[fd00::1]/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://localhost.example.com/v1", False),
        ("https://127.0.0.1.example.com/v1", False),
    ],
)
def test_a_server_is_local_by_its_address(url: str, local: bool) -> None:
    assert is_local(url) == local


@pytest.mark.parametrize("flavor", FLAVORS)
def test_health_checks_every_provider(flavor: str) -> None:
    with run_gateways("openai", flavor) as (local, remote):
        remote.plan = [error_response(503), error_response(503)]
        settings = provider_settings(
            provider_entry("openai", local, provider_name="near", models=["near"]),
            provider_entry(flavor, remote, models=["far"], **REMOTE),
            provider_entry(flavor, remote, provider_name="off", status=0),
        )
        (got,) = run_calls(settings, call("/health", b"", method="GET"))

    assert got.json["model"] == "near"
    assert got.json[f"model of {flavor}"] == "far"
    assert got.json["failing"].keys() == {f"model of {flavor}"}
    assert local.requests[0].path == FLAVORS["openai"].HEALTH_PATH
    assert remote.requests[0].path == FLAVORS[flavor].HEALTH_PATH
