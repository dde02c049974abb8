"""Fallback from a local to a remote provider: policies, and failures of their servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.http.call import Call
from tests.support.calls import QUESTION, BufferedReply, call, run_calls
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.servers import free_port
from tests.support.upstream import (
    Exchange,
    Server,
    Step,
    chunk,
    error_response,
    json_response,
    sse_event,
    stream_response,
)

QUICK = {
    "MODEL_ACCEPT_SECONDS": "1.5",
    "MODEL_FIRST_TOKEN_SECONDS": "1.5",
    "LOCAL_FIRST_TOKEN_SECONDS": "1",
}
SOME = sse_event(chunk("Half"))
CRASHED = sse_event({"error": {"message": "crashed"}})

# Trouble before the first token: what a server does each time that it is asked, and the status of
# the reply where no other model is asked.
BEFORE: list[Any] = [
    pytest.param([error_response(500)], 503, id="a 500"),
    pytest.param([error_response(503, {"Retry-After": "60"})], 503, id="a 503 that asks to wait"),
    pytest.param([error_response(429)], 429, id="a 429"),
    pytest.param([error_response(401)], 503, id="a wrong key"),
    pytest.param([json_response({"error": "model not found"}, 404)], 503, id="no such model there"),
    pytest.param([json_response({"error": "no tools"}, 400)], 400, id="a 400"),
    pytest.param([[Exchange.reset]], 503, id="a reset"),
    pytest.param([[Exchange.stall]], 504, id="a stall before the headers"),
    pytest.param([stream_response([Exchange.stall])], 504, id="a stall before the first token"),
    pytest.param([stream_response([Exchange.reset])], 503, id="a reset before the first token"),
    pytest.param([stream_response([CRASHED])], 503, id="an error in the place of the first token"),
    pytest.param([stream_response([])], 503, id="an end before the first token"),
    pytest.param(
        [stream_response([sse_event(chunk()), Exchange.stall])], 504, id="an empty first token"
    ),
    pytest.param(
        [stream_response([b"<html>\n"])], 503, id="a page in the place of the first token"
    ),
]


def near(server: Server, **more: Any) -> dict[str, Any]:
    return provider_entry("openai", server, provider_name="near", **more)


def far(server: Server, **more: Any) -> dict[str, Any]:
    return provider_entry("openai", server, provider_name="far", **more, **REMOTE)


def chat_call(stream: bool = False, **overrides: Any) -> Call:
    body = {**QUESTION, "context": {"overrides": overrides}}
    return call("/chat/stream" if stream else "/chat", body)


def read_text(reply: BufferedReply) -> str:
    """The answer's text in a reply, whole or streamed."""
    if reply.media_type == "application/json":
        return str(reply.json["message"]["content"])
    return "".join(line["delta"].get("content", "") for line in reply.lines if "delta" in line)


def is_accepted(steps: list[list[Step]]) -> bool:
    """Whether the server begins a stream: what fails then is the last line of the app's."""
    return any(isinstance(step, bytes) and b"text/event-stream" in step for step in steps[0])


def troubled(server: Server, steps: list[list[Step]]) -> None:
    """Let every request meet the same trouble."""
    server.plan = steps * 4


@pytest.mark.parametrize(("steps", "status"), BEFORE)
@pytest.mark.parametrize("stream", [False, True])
def test_a_local_failure_before_the_first_token_falls_back(
    steps: list[list[Step]], status: int, stream: bool
) -> None:
    with run_gateways("openai", "openai") as (local, remote):
        troubled(local, steps)
        settings = provider_settings(near(local), far(remote), **QUICK)
        (default,) = run_calls(settings, chat_call(stream))
        order = [server is remote for server in remote.order]
        (alone,) = run_calls(settings, chat_call(stream, hybrid_policy="always_local"))

    assert read_text(default) == "Remote [a.md]."
    assert "far was asked instead of near" in default.data.decode()
    assert order == [False] * (len(order) - 1) + [True]
    assert alone.status == (200 if is_accepted(steps) and stream else status)
    assert alone.status != 200 or "error" in alone.lines[-1]
    assert len(remote.requests) == 1


@pytest.mark.parametrize(("steps", "status"), BEFORE)
def test_a_remote_failure_does_not_fall_back(steps: list[list[Step]], status: int) -> None:
    with run_gateways("openai", "openai") as (local, remote):
        troubled(remote, steps)
        settings = provider_settings(near(local), far(remote), **QUICK)
        (got,) = run_calls(settings, chat_call(hybrid_policy="always_remote"))

    assert got.status == status
    assert local.requests == []


async def dies(going: Exchange) -> None:
    """A reset, when what was sent before it has been read."""
    await asyncio.sleep(0.3)
    going.reset()


@pytest.mark.parametrize("policy", ["default", "always_local"])
@pytest.mark.parametrize(
    ("end", "status"),
    [(dies, 503), (Exchange.stall, 504), (CRASHED, 503), (b"data: no JSON\n\n", 503)],
)
def test_a_failure_after_the_first_token_does_not_fall_back(
    policy: str, end: Step, status: int
) -> None:
    with run_gateways("openai", "openai") as (local, remote):
        troubled(local, [stream_response([SOME, end])])
        settings = provider_settings(
            near(local),
            far(remote),
            **QUICK,
            MODEL_GAP_SECONDS="0.5",
        )
        calls = [chat_call(stream, hybrid_policy=policy) for stream in (True, False)]
        streamed, folded = run_calls(settings, *calls)

    assert read_text(streamed) == "Half"
    assert streamed.lines[-1].keys() == {"error"}
    assert folded.status == status
    assert folded.json.keys() == {"error"}
    assert remote.requests == []


def test_an_unreachable_server_falls_back() -> None:
    with run_gateways("openai") as (remote,):
        nobody = Server(url=f"http://127.0.0.1:{free_port()}")
        settings = provider_settings(near(nobody), far(remote))
        (got,) = run_calls(settings, chat_call())

    assert read_text(got) == "Remote [a.md]."
    assert len(remote.requests) == 1


def test_the_thoughts_name_the_model_and_the_fallback() -> None:
    with run_gateways("openai", "openai") as (local, remote):
        troubled(local, [error_response(500)])
        settings = provider_settings(
            near(local, models=["small"]),
            far(remote, models=["large"]),
        )
        whole, streamed = run_calls(settings, call("/chat"), call("/chat/stream"))

    steps = {step["title"]: step for step in whole.json["context"]["thoughts"]}
    assert steps["Prompt"]["props"] == {"model": "large"}
    assert steps["What was used instead"]["description"] == [
        "far was asked instead of near (Unavailable)."
    ]
    assert streamed.lines[0]["context"]["thoughts"][3]["props"] == {"model": "large"}


@pytest.mark.parametrize("stream", [False, True])
def test_overrides_select_the_policy_and_the_model(stream: bool) -> None:
    with run_gateways("openai", "openai") as (local, remote):
        settings = provider_settings(
            near(local, models=["small", "middle"]),
            far(remote, models=["large"]),
        )
        got = run_calls(
            settings,
            chat_call(stream, hybrid_policy="always_remote"),
            chat_call(stream, model="middle"),
            chat_call(stream, model="large"),
            chat_call(stream, model="unknown"),
            chat_call(stream, hybrid_policy="never"),
        )

    assert [one.body["model"] for one in remote.requests] == ["large", "large"]
    assert [one.body["model"] for one in local.requests] == ["middle"]
    assert (got[3].status, got[3].json) == (404, {"error": "There is no model 'unknown'."})
    assert got[4].status == 400
    assert "context.overrides.hybrid_policy" in got[4].json["error"]


def test_a_failed_rewrite_falls_back_for_the_answer_too() -> None:
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Yes."}]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}
    with run_gateways("openai", "openai") as (local, remote):
        local.plan = [stream_response([SOME, dies])]
        settings = provider_settings(near(local), far(remote))
        (got,) = run_calls(settings, call("/chat", body))

    assert got.json["message"]["content"] == "Remote [a.md]."
    assert (len(local.requests), len(remote.requests)) == (1, 2)


def test_a_rewrite_that_fails_twice_leaves_the_question_unchanged() -> None:
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Yes."}]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}
    with run_gateways("openai", "openai") as (local, remote):
        local.plan = [stream_response([SOME, dies])]
        remote.plan = [error_response(400)]
        settings = provider_settings(near(local), far(remote))
        (got,) = run_calls(settings, call("/chat", body))

    steps = {step["title"]: step for step in got.json["context"]["thoughts"]}
    assert got.json["message"]["content"] == "Remote [a.md]."
    assert (len(local.requests), len(remote.requests)) == (1, 2)
    assert steps["Generated search query"]["description"] == "And two?"
    assert steps["What was used instead"]["description"] == [
        "far was asked instead of near (Unavailable).",
        "The question was searched for as it was asked: the model could not rewrite it "
        "(BadRequest).",
    ]


def test_a_failure_caused_by_a_request_does_not_affect_other_requests() -> None:
    """A name that its server does not know, a parameter that it refuses."""
    for refusal in (
        json_response({"error": "no such model"}, 404),
        error_response(400, param="max_tokens"),
    ):
        with run_gateways("openai", "openai") as (local, remote):
            local.plan = [refusal]
            settings = provider_settings(near(local, models=[]), far(remote, models=[]))
            run_calls(settings, chat_call(model="mine"), chat_call(), chat_call())

        assert (len(local.requests), len(remote.requests)) == (3, 1)
