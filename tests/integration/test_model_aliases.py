"""Other names for the models of the deployment: `MODEL_ALIASES`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.settings import SettingsError, read_settings
from tests.support.calls import call, run_calls
from tests.support.fakes import FAKES
from tests.support.providers import provider_entry, provider_settings, run_gateways

CHAT = "/v1/chat/completions"
ALIASES = {"MODEL_ALIASES": json.dumps({"gpt-4o": "command_model"})}
SAY = {"messages": [{"role": "user", "content": "say Yes"}]}


def body(model: str, **more: Any) -> dict[str, Any]:
    return {**SAY, "model": model, **more}


def test_old_name_of_a_model_is_answered_by_its_successor() -> None:
    deployment = "/openai/deployments/{deployment}/chat/completions"
    calls = [
        call(CHAT, body("gpt-4o")),
        call(CHAT, body("command_model")),
        call(deployment, SAY, path="gpt-4o"),
        call("/chat", {**SAY, "context": {"overrides": {"model": "gpt-4o"}}}),
        call(CHAT, body("gpt-4o-no-search")),
    ]
    replies = run_calls({**FAKES, **ALIASES, "TASK_MODELS": "on"}, *calls)

    assert [reply.status for reply in replies] == [200] * len(calls)
    assert replies[0].json["model"] == "command_model"
    assert "x-chat-notice" not in replies[0].headers


@pytest.mark.part("responses")
def test_response_may_name_an_alias() -> None:
    request = call("/v1/responses", {"model": "gpt-4o", "input": "say Yes"})
    (reply,) = run_calls({**FAKES, **ALIASES}, request)

    assert (reply.status, reply.json["status"]) == (200, "completed")


def test_unknown_name_has_no_alias() -> None:
    known, unknown = run_calls(
        {**FAKES, **ALIASES}, call(CHAT, body("gpt-4o")), call(CHAT, body("gpt-4"))
    )

    assert (known.status, unknown.status) == (200, 404)


def test_alias_reaches_the_server_as_the_name_of_its_model() -> None:
    with run_gateways("openai") as (server,):
        settings = provider_settings(provider_entry("openai", server, models=["small", "large"]))
        aliases = {"MODEL_ALIASES": json.dumps({"gpt-4": "large"})}
        (reply,) = run_calls({**settings, **aliases}, call(CHAT, body("gpt-4")))

        assert reply.status == 200
        assert server.requests[-1].body["model"] == "large"


@pytest.mark.parametrize(
    ("aliases", "problem"),
    [
        ({"gpt-4o": "secret"}, "MODEL_ALIASES names a model that the deployment does not have"),
        (
            {"command_model": "command_model"},
            "MODEL_ALIASES has an alias that is the name of a model",
        ),
    ],
)
def test_alias_that_stands_for_nothing_is_a_problem(aliases: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as failure:
        run_calls({**FAKES, "MODEL_ALIASES": json.dumps(aliases)})

    assert failure.value.problems == (problem,)


@pytest.mark.parametrize("value", ["gpt-4o", "[]", '{"a": 1}', '{"a\\n": "b"}'])
def test_aliases_are_a_json_object_of_names(value: str) -> None:
    with pytest.raises(SettingsError) as failure:
        read_settings({"MODEL_ALIASES": value})

    assert failure.value.problems[0].startswith("MODEL_ALIASES")
