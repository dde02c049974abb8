"""AOG's descriptions of the providers of models: which there are, and no secrets."""

from __future__ import annotations

import json
import logging

import pytest

from shared.bootstrap.build import build
from shared.settings import read_settings
from shared.telemetry.access_log import quiet_libraries
from tests.support.aog_calls import aog_call, read_text
from tests.support.calls import QUESTION, ask, call, read_events, run_calls
from tests.support.fakes import FakeModel
from tests.support.flavors.aog import AOG_FLAVOR, aog_event
from tests.support.flavors.ollama import (
    LAST_LINE,
    OLLAMA_FLAVOR,
    message,
    ollama_line,
    ollama_stream,
)
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.servers import SAMPLES
from tests.support.upstream import chunk, error_response, sse_event, stream_response

HELLO = {"messages": [{"role": "user", "content": "Hello."}], "retrieval": False}

HELLO = {"messages": [{"role": "user", "content": "Hello."}], "retrieval": False}

HELLO = {"messages": [{"role": "user", "content": "Hello."}], "retrieval": False}
SECRETS = {
    "A_KEY": "sekret-one",
    "B_KEY": "sekret-two",
    "C_KEY": "sekret-three",
}
SECRETIVE = {
    "auth_type": "apikey",
    "auth_key": {"apikey": "${A_KEY}"},
    "extra_headers": {
        "X-Whatever": "${B_KEY}",
        "Authorization": "Bearer sekret-four",
        "X-Plain": "blue",
        "X-Odd": "sk-sekret-five",
        "X-Gateway": "Token sekret-eleven",
        "X-Gateway-Pin": "sekret-twelve",
        "X-Long": "sekret-eyJhbGciOiJIUzI1NiJ9.e30.abc",
    },
    "extra_json_body": {
        "api_key": "sekret-six",
        "options": {"token": "sekret-seven", "a": None, "max_tokens": 7},
        "credentials": {"value": "sekret-nine"},
        "source": [{"connection_string": "sekret-ten"}],
        "hint": "${C_KEY}",
    },
}


def test_secrets_are_neither_returned_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "chat")
    quiet_libraries()
    with run_gateways("openai", "openai") as (local, remote):
        remote.plan = [error_response(401), error_response(401)]
        near = provider_entry("openai", local, provider_name="near", **SECRETIVE)
        far = provider_entry("openai", remote, provider_name="far", **REMOTE, **SECRETIVE)
        far["url"] += "?api-version=1&code=sekret-eight"
        got = run_calls(
            provider_settings(near, far, **SECRETS),
            *(
                call(f"/aog/v0.2/{name}", b"", method="GET")
                for name in ("service", "service_provider")
            ),
            aog_call({**HELLO, "hybrid_policy": "always_remote"}),
            aog_call(HELLO),
            call("/health", b"", method="GET"),
        )

        settings = read_settings(provider_settings(near, far, **SECRETS))

    # ... nor where somebody prints the settings; what stands in an address, does.
    assert "sekret" not in (repr(settings) + str(settings.model_providers)).replace(
        "sekret-eight", ""
    )
    text = b"".join(each.data for each in got).decode()
    assert "sekret" in json.dumps(remote.requests[0].body) + str(remote.requests[0].headers)
    assert "code=sekret-eight" in remote.requests[0].path
    assert "sekret" not in text
    assert "sekret" not in caplog.text
    provider = got[1].json["data"][1]
    assert provider["url"].endswith("?api-version=1&code=***")
    assert provider["extra_headers"] == {
        "X-Whatever": "***",
        "Authorization": "***",
        "X-Plain": "***",
        "X-Odd": "***",
        "X-Gateway": "***",
        "X-Gateway-Pin": "***",
        "X-Long": "***",
    }
    assert provider["extra_json_body"] == {
        "api_key": "***",
        "options": {"token": "***", "max_tokens": 7},
        "credentials": "***",
        "source": [{"connection_string": "***"}],
        "hint": "***",
    }
    assert remote.requests[0].body["hint"] == "sekret-three"
    assert remote.requests[0].body["options"] == {"token": "sekret-seven", "max_tokens": 7}
    assert "null" not in got[0].data.decode() + got[1].data.decode()


def test_providers_of_the_other_settings_come_first() -> None:
    with run_gateways("openai", OLLAMA_FLAVOR) as (first, second):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, second, **REMOTE),
            OPENAI_BASE_URL=f"{first.url}/v1",
            OPENAI_CHAT_MODEL="llama3",
        )
        near, far, response = run_calls(
            settings,
            aog_call(HELLO),
            aog_call({**HELLO, "hybrid_policy": "always_remote"}),
            call("/aog/v0.2/service_provider", b"", method="GET"),
        )

    assert (read_text(near), read_text(far)) == ("Remote [a.md].", "Local [a.md].")
    earlier, later = response.json["data"]
    assert earlier == {
        "provider_name": "openai",
        "service_name": "chat",
        "service_source": "local",
        "desc": "",
        "method": "POST",
        "url": f"{first.url}/v1/chat/completions",
        "flavor": "openai",
        "properties": {"max_input_tokens": 3000, "supported_response_mode": ["stream", "sync"]},
        "auth_type": "none",
        "extra_headers": {},
        "extra_json_body": {},
        "status": 1,
        "models": ["llama3"],
        "allow_to_select_model": True,
    }
    assert later["provider_name"] == "ollama"


def test_azure_openai_is_remote_and_a_server_on_this_machine_local() -> None:
    settings = {
        **SAMPLES,
        "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt",
        "OPENAI_BASE_URL": "http://192.168.1.7:11434/v1",
        "OPENAI_CHAT_MODEL": "llama3",
    }
    service = build(read_settings(settings))
    got = ask(call("/aog/v0.2/service", b"", method="GET"), service).json["data"][0]
    cards = ask(call("/aog/v0.2/service_provider", b"", method="GET"), service).json["data"]

    assert got["local_service_providers"] == "openai"
    assert got["remote_service_providers"] == "azure-openai"
    assert cards[0]["url"] == "https://mine.openai.azure.com/openai/v1/chat/completions"
    assert service.rag is not None
    assert service.rag.model.name == "llama3"


def custom(_settings: object) -> FakeModel:
    return FakeModel()


def test_a_custom_model_is_a_local_provider() -> None:
    service = build(
        read_settings({**SAMPLES, "CHAT_MODEL": "tests.integration.test_aog_providers:custom"})
    )
    (card,) = ask(call("/aog/v0.2/service_provider", b"", method="GET"), service).json["data"]

    assert (card["provider_name"], card["flavor"], card["models"]) == ("custom", "custom", ["fake"])


def test_the_demo_model_is_used_only_without_other_providers() -> None:
    demo = build(read_settings(SAMPLES))
    (card,) = ask(call("/aog/v0.2/service_provider", b"", method="GET"), demo).json["data"]

    assert (card["flavor"], card["url"], card["models"], card["status"]) == (
        "demo",
        "",
        ["demo"],
        1,
    )
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        settings = provider_settings(provider_entry(OLLAMA_FLAVOR, server))
        (got,) = run_calls(settings, call("/chat", QUESTION))
        (response,) = run_calls(settings, call("/aog/v0.2/service_provider", b"", method="GET"))
    assert got.json["message"]["content"] == "Local [a.md]."
    assert [one["provider_name"] for one in response.json["data"]] == ["ollama"]


def test_additional_fields_of_a_response_are_returned() -> None:
    with run_gateways("openai", OLLAMA_FLAVOR, AOG_FLAVOR) as (openai, ollama, aog):
        openai.plan = [
            stream_response(
                [
                    sse_event({**chunk("Hi"), "service_tier": "default", "usage": None}),
                    sse_event(chunk(delta={"reasoning_content": "Hm."})),
                    sse_event(chunk(finish_reason="stop", logprobs={"content": []})),
                    sse_event(
                        {**chunk(), "choices": [], "usage": {"prompt_tokens": 1, "more": {"a": 2}}}
                    ),
                ]
            )
        ]
        ollama.plan = [
            ollama_stream(ollama_line(**message("Hi", thinking="Hm.")), ollama_line(**LAST_LINE))
        ]
        aog.plan = [
            stream_response(
                [aog_event("Hi", new={"a": 1}), aog_event(finished=True, finish_reason="stop")]
            )
        ]
        first, second, third = (
            run_calls(provider_settings(provider_entry(flavor, server)), aog_call(HELLO))[0].json
            for flavor, server in (("openai", openai), ("ollama", ollama), ("aog", aog))
        )

    assert first["service_tier"] == "default"
    assert first["usage"] == {"prompt_tokens": 1, "more": {"a": 2}}
    assert first["logprobs"] == {"content": []}
    assert first["message"]["reasoning_content"] == "Hm."
    assert second["message"]["thinking"] == "Hm."
    assert (second["total_duration"], second["eval_count"]) == (5191566416, 298)
    assert third["new"] == {"a": 1}
    assert not {"choices", "object", "created", "done", "done_reason"} & (first | second).keys()


def test_additional_fields_replace_no_field_and_must_be_json() -> None:
    extra = aog_event("Hi", context={"x": 1}, new=1)
    big = aog_event("!", finished=True, finish_reason="stop").replace(
        b'"finished"', b'"big": 1e400, "finished"'
    )
    with run_gateways(AOG_FLAVOR) as (server,):
        server.plan = [stream_response([extra, big])] * 2
        settings = provider_settings(provider_entry(AOG_FLAVOR, server))
        body = {"messages": [{"role": "user", "content": "Hello."}]}
        streamed, whole = run_calls(settings, aog_call({**body, "stream": True}), aog_call(body))

    first, second, last = read_events(streamed)
    assert first["context"].keys() == whole.json["context"].keys() == {"data_points", "thoughts"}
    assert first["new"] == whole.json["new"] == 1
    assert "big" not in second.keys() | last.keys() | whole.json.keys()


def test_finish_reasons_are_those_of_the_specification() -> None:
    for done_reason, reason in {"stop": "stop", "length": "length", "load": "stop"}.items():
        with run_gateways(OLLAMA_FLAVOR) as (server,):
            server.plan = [
                ollama_stream(
                    ollama_line(**message("Hi")),
                    ollama_line(**LAST_LINE | {"done_reason": done_reason}),
                )
            ]
            (got,) = run_calls(
                provider_settings(provider_entry(OLLAMA_FLAVOR, server)), aog_call(HELLO)
            )

        assert got.json["finish_reason"] == reason
