"""Routing between a local and a remote model: fallback, policies, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from shared.app import handle_call
from shared.domain import errors
from shared.domain.events import Delta, Done
from shared.domain.overrides import UNSET
from shared.models.base import Model
from shared.models.router import ModelSelection, Provider, Router
from shared.protocols.exchange import App
from shared.rag.flow import Rag
from tests.support.aog_calls import aog_call, read_text
from tests.support.calls import QUESTION, BufferedReply, ask, call, read_events, run_calls
from tests.support.fakes import PLUS, PROMPTS, FakeModel, FakeRetriever
from tests.support.flavors.ollama import message, ollama_line, ollama_stream
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.servers import free_port
from tests.support.upstream import Exchange, Server, Step, error_response, json_response

QUICK = {
    "MODEL_ACCEPT_SECONDS": "1.5",
    "MODEL_FIRST_TOKEN_SECONDS": "1.5",
    "LOCAL_FIRST_TOKEN_SECONDS": "1",
}
HELLO = {"messages": [{"role": "user", "content": "Hello."}], "retrieval": False}
SOME = ollama_line(**message("Half"))

# Trouble before the first token: what a server does each time that it is asked.
BEFORE: list[Any] = [
    pytest.param([error_response(500)], id="a 500"),
    pytest.param([error_response(503, {"Retry-After": "60"})], id="a 503 that asks to wait"),
    pytest.param([error_response(429)], id="a 429"),
    pytest.param([error_response(401)], id="a wrong key"),
    pytest.param([json_response({"error": "model not found"}, 404)], id="no such model there"),
    pytest.param([json_response({"error": "no tools"}, 400)], id="a 400"),
    pytest.param([[Exchange.reset]], id="a reset"),
    pytest.param([[Exchange.stall]], id="a stall before the headers"),
    pytest.param([ollama_stream(Exchange.stall)], id="a stall before the first token"),
    pytest.param([ollama_stream(Exchange.reset)], id="a reset before the first token"),
    pytest.param(
        [ollama_stream(ollama_line(error="crashed"))], id="an error in the place of the first token"
    ),
    pytest.param([ollama_stream()], id="an end before the first token"),
    pytest.param(
        [ollama_stream(ollama_line(**message(thinking="")), Exchange.stall)],
        id="an empty first token",
    ),
    pytest.param([ollama_stream(b"<html>\n")], id="a page in the place of the first token"),
]


def troubled(server: Server, steps: list[list[Step]]) -> None:
    """Let every request meet the same trouble."""
    server.plan = steps * 4


@pytest.mark.parametrize("steps", BEFORE)
@pytest.mark.parametrize("stream", [False, True])
def test_a_local_failure_before_the_first_token_falls_back(
    steps: list[list[Step]], stream: bool
) -> None:
    body = {**HELLO, "stream": stream}
    with run_gateways("ollama", "openai") as (local, remote):
        troubled(local, steps)
        settings = provider_settings(
            provider_entry("ollama", local), provider_entry("openai", remote, **REMOTE), **QUICK
        )
        (default,) = run_calls(settings, aog_call(body))
        order = [server is remote for server in remote.order]
        (alone,) = run_calls(settings, aog_call({**body, "hybrid_policy": "always_local"}))

    assert read_text(default) == "Remote [a.md]."
    assert "gpt-4o" in default.data.decode()
    assert order == [False] * (len(order) - 1) + [True]
    assert alone.status in (400, 502) or read_events(alone)[-1]["business_code"] == 40017
    assert len(remote.requests) == 1


@pytest.mark.parametrize("steps", BEFORE)
def test_a_remote_failure_does_not_fall_back(steps: list[list[Step]]) -> None:
    with run_gateways("openai", "ollama") as (local, remote):
        troubled(remote, steps)
        settings = provider_settings(
            provider_entry("openai", local), provider_entry("ollama", remote, **REMOTE), **QUICK
        )
        (got,) = run_calls(settings, aog_call({**HELLO, "hybrid_policy": "always_remote"}))

    code = 40003 if b"no tools" in b"".join(s for s in steps[0] if isinstance(s, bytes)) else 40017
    assert got.json["business_code"] == code
    assert got.status == (400 if code == 40003 else 502)
    assert local.requests == []


async def dies(going: Exchange) -> None:
    """A reset, when what was sent before it has been read."""
    await asyncio.sleep(0.3)
    going.reset()


@pytest.mark.parametrize("policy", ["default", "always_local"])
@pytest.mark.parametrize("end", [dies, Exchange.stall, ollama_line(error="x"), b"no JSON\n"])
def test_a_failure_after_the_first_token_does_not_fall_back(policy: str, end: Step) -> None:
    body = {**HELLO, "hybrid_policy": policy}
    with run_gateways("ollama", "openai") as (local, remote):
        troubled(local, [ollama_stream(SOME, end)])
        settings = provider_settings(
            provider_entry("ollama", local),
            provider_entry("openai", remote, **REMOTE),
            **QUICK,
            MODEL_GAP_SECONDS="0.5",
        )
        streamed, folded = run_calls(settings, aog_call({**body, "stream": True}), aog_call(body))

    *events, last = read_events(streamed)
    assert [each["message"]["content"] for each in events] == ["Half"]
    assert (last["business_code"], last["finished"]) == (40017, True)
    assert (folded.status, folded.json["business_code"]) == (502, 40017)
    assert remote.requests == []


def test_an_unreachable_server_falls_back() -> None:
    with run_gateways("openai") as (remote,):
        nobody = Server(url=f"http://127.0.0.1:{free_port()}")
        settings = provider_settings(
            provider_entry("ollama", nobody), provider_entry("openai", remote, **REMOTE)
        )
        aog, current = run_calls(settings, aog_call(HELLO), call("/chat", QUESTION))

    assert read_text(aog) == "Remote [a.md]."
    assert current.json["message"]["content"] == "Remote [a.md]."
    assert len(remote.requests) == 2


def test_the_thoughts_name_the_model_and_the_fallback() -> None:
    with run_gateways("ollama", "openai") as (local, remote):
        troubled(local, [error_response(500)])
        settings = provider_settings(
            provider_entry("ollama", local, models=["small"]),
            provider_entry("openai", remote, models=["large"], **REMOTE),
        )
        whole, streamed = run_calls(settings, call("/chat"), call("/chat/stream"))

    steps = {step["title"]: step for step in whole.json["context"]["thoughts"]}
    assert steps["Prompt"]["props"] == {"model": "large"}
    assert steps["What was used instead"]["description"] == [
        "openai was asked instead of ollama (Unavailable)."
    ]
    assert streamed.lines[0]["context"]["thoughts"][3]["props"] == {"model": "large"}


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_overrides_select_the_policy_and_the_model(route: str) -> None:
    def chat_call(**overrides: Any) -> Any:
        return call(route, {**QUESTION, "context": {"overrides": overrides}})

    with run_gateways("ollama", "openai") as (local, remote):
        settings = provider_settings(
            provider_entry("ollama", local, models=["small", "middle"]),
            provider_entry("openai", remote, models=["large"], **REMOTE),
        )
        got = run_calls(
            settings,
            chat_call(hybrid_policy="always_remote"),
            chat_call(model="middle"),
            chat_call(model="large"),
            chat_call(model="unknown"),
            chat_call(hybrid_policy="never"),
        )

    assert [one.body["model"] for one in remote.requests] == ["large", "large"]
    assert [one.body["model"] for one in local.requests] == ["middle"]
    assert (got[3].status, got[3].json) == (404, {"error": "There is no model 'unknown'."})
    assert got[4].status == 400
    assert "context.overrides.hybrid_policy" in got[4].json["error"]


def test_a_failed_rewrite_falls_back_for_the_answer_too() -> None:
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Yes."}]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}
    with run_gateways("ollama", "openai") as (local, remote):
        local.plan = [ollama_stream(SOME, dies)]
        settings = provider_settings(
            provider_entry("ollama", local), provider_entry("openai", remote, **REMOTE)
        )
        (got,) = run_calls(settings, call("/chat", body))

    assert got.json["message"]["content"] == "Remote [a.md]."
    assert (len(local.requests), len(remote.requests)) == (1, 2)


def test_a_rewrite_that_fails_twice_leaves_the_question_unchanged() -> None:
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Yes."}]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}
    with run_gateways("ollama", "openai") as (local, remote):
        local.plan = [ollama_stream(SOME, dies)]
        remote.plan = [error_response(400)]
        settings = provider_settings(
            provider_entry("ollama", local), provider_entry("openai", remote, **REMOTE)
        )
        (got,) = run_calls(settings, call("/chat", body))

    steps = {step["title"]: step for step in got.json["context"]["thoughts"]}
    assert got.json["message"]["content"] == "Remote [a.md]."
    assert (len(local.requests), len(remote.requests)) == (1, 2)
    assert steps["Generated search query"]["description"] == "And two?"
    assert steps["What was used instead"]["description"] == [
        "openai was asked instead of ollama (Unavailable).",
        "The question was searched for as it was asked: the model could not rewrite it "
        "(BadRequest).",
    ]


# From here on in one process: models that play a script.


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def named(name: str, model: FakeModel) -> FakeModel:
    model.name = name
    return model


def pair(local: Sequence[Any], clock: Clock | None = None) -> tuple[FakeModel, FakeModel, App]:
    """A local model with a script, and a remote one that answers."""
    near = named("near", FakeModel(local))
    far = named("far", FakeModel([Delta("far"), Done()]))

    def factory(model: Model) -> Any:
        return lambda _name: model

    providers = (
        Provider("near", "local", factory(near), models=("near",)),
        Provider("far", "remote", factory(far), models=("far",)),
    )
    router = Router(providers, seconds=0.2, now=clock or Clock())
    return near, far, App(Rag(FakeRetriever(), router, PROMPTS, UNSET))


def text(got: BufferedReply) -> str:
    return str(got.json["message"]["content"])


def test_a_failed_model_is_skipped_and_then_tried_by_one_request() -> None:
    clock = Clock()
    near, far, service = pair([errors.Unavailable()], clock)

    assert [text(ask(call("/chat"), service)) for _ in range(3)] == ["far"] * 3
    assert len(near.calls) == 1
    clock.at += 31
    assert text(ask(call("/chat"), service)) == "far"
    assert len(near.calls) == 2
    clock.at += 31
    near.script = [Delta("near"), Done()]
    assert [text(ask(call("/chat"), service)) for _ in range(2)] == ["near"] * 2
    assert len(far.calls) == 4


@pytest.mark.parametrize("history", [(), ("One?", "Yes.")])
def test_other_requests_do_not_wait_for_the_trial_request(history: tuple[str, ...]) -> None:
    clock, held = Clock(), asyncio.Event()
    near, _, service = pair([errors.Unavailable()], clock)
    turns = [
        {"role": r, "content": c} for r, c in zip(("user", "assistant"), history, strict=False)
    ]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}
    ask(call("/chat", body), service)
    clock.at += 31
    near.script, near.query = [held, Delta("near"), Done()], held
    near.calls.clear()

    async def go() -> list[str]:
        first = asyncio.ensure_future(handle_call(service, call("/chat", body)))
        while not near.open_streams:
            await asyncio.sleep(0)
        rest = [str((await handle_call(service, call("/chat", body))).body) for _ in range(5)]
        return [str((await first).body), *rest]

    got = asyncio.run(go())

    assert len(near.calls) == 1
    assert all("far" in each for each in got)


def test_retry_after_of_a_server_is_respected() -> None:
    clock = Clock()
    near, _, service = pair([errors.TooManyRequests(retry_after=120)], clock)
    ask(call("/chat"), service)
    clock.at += 100
    ask(call("/chat"), service)

    assert len(near.calls) == 1
    clock.at += 21
    ask(call("/chat"), service)
    assert len(near.calls) == 2


def test_a_long_retry_after_of_a_server_is_limited() -> None:
    clock = Clock()
    near, _, service = pair([errors.TooManyRequests(retry_after=7200)], clock)
    ask(call("/chat"), service)
    clock.at += 301
    ask(call("/chat"), service)

    assert len(near.calls) == 2


def test_a_model_that_only_refuses_a_question_is_not_down() -> None:
    near, far, service = pair([errors.TooLong()])

    assert [text(ask(call("/chat"), service)) for _ in range(2)] == ["far"] * 2
    assert (len(near.calls), len(far.calls)) == (2, 2)


def test_a_failure_caused_by_a_request_does_not_affect_other_requests() -> None:
    """A name that its server does not know, a parameter that it refuses."""
    for refusal in (
        json_response({"error": "no such model"}, 404),
        error_response(400, param="max_tokens"),
    ):
        with run_gateways("openai", "openai") as (local, remote):
            local.plan = [refusal]
            settings = provider_settings(
                provider_entry("openai", local, provider_name="near", models=[]),
                provider_entry("openai", remote, provider_name="far", models=[], **REMOTE),
            )
            run_calls(
                settings, aog_call({**HELLO, "model": "mine"}), aog_call(HELLO), aog_call(HELLO)
            )

        assert (len(local.requests), len(remote.requests)) == (3, 1)


def test_a_note_says_that_the_local_model_was_skipped() -> None:
    _, _, service = pair([errors.Unavailable()])
    notes = []
    for _ in range(2):
        steps = ask(call("/chat"), service).json["context"]["thoughts"]
        notes += [step["description"] for step in steps if step["title"] == "What was used instead"]

    assert notes == [
        ["far was asked instead of near (Unavailable)."],
        ["far was asked: near did not answer a short while ago."],
    ]


def test_a_slow_rewrite_that_has_begun_is_not_interrupted() -> None:
    near, far, service = pair([Delta("near"), Done()])

    async def words() -> Any:
        for _ in range(6):
            yield Delta("dental ")
            await asyncio.sleep(0.1)
        yield Done()

    class Slow(FakeModel):
        def open(self, prompt: Any) -> Any:
            return slow_stream() if prompt.task == "rewrite" else super().open(prompt)

    @asynccontextmanager
    async def slow_stream() -> Any:
        yield words()

    slow = named("near", Slow([Delta("near"), Done()]))
    router = Router(
        (
            Provider("near", "local", lambda _: slow, models=("near",)),
            Provider("far", "remote", lambda _: far, models=("far",)),
        ),
        seconds=0.2,
    )
    service = App(Rag(FakeRetriever(), router, PROMPTS, UNSET))
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Yes."}]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}

    assert text(ask(call("/chat", body), service)) == "near"
    assert near.calls == far.calls == []


@pytest.mark.parametrize("remote", ["nobody", {"url": "nonsense"}, "far"])
def test_without_a_remote_model_the_local_failure_is_reported(remote: Any) -> None:
    near, far, service = pair([errors.Unavailable()])
    body = {**HELLO, "remote_service_provider": remote, "model": "near"}
    got = [ask(aog_call(body), service).json["business_code"] for _ in range(2)]

    assert got == [40017, 40017]
    assert (len(near.calls), far.calls) == (2, [])


def test_notes_on_images_are_about_the_model_that_answers() -> None:
    picture = replace(PLUS, image="data:image/png;base64,AA==")
    body = {**QUESTION, "context": {"overrides": {"use_gpt4v": True}}}
    blind = {"images": "The images were left out: it is blind."}
    note = "use_gpt4v was left out: {} is not known to see images; text was used."

    def notes(near_limits: Any, far_limits: Any) -> list[str]:
        near = named("near", FakeModel([errors.Unavailable()], limits=near_limits))
        far = named("far", FakeModel(limits=far_limits, max_prompt_tokens=9000))
        providers = (
            Provider("near", "local", lambda _: near, models=("near",)),
            Provider("far", "remote", lambda _: far, models=("far",)),
        )
        rag = Rag(FakeRetriever([picture]), Router(providers), PROMPTS, UNSET)
        steps = ask(call("/chat", body), App(rag)).json["context"]["thoughts"]
        return [note for note in steps[4]["description"] if "instead of" not in note]

    assert notes({}, blind) == [note.format("far")]
    assert notes(blind, {}) == [note.format("near")]


def test_a_question_flagged_by_a_content_filter_does_not_fall_back() -> None:
    for script in ([errors.ContentFiltered()], [Done("content_filter")]):
        _, far, service = pair(script)

        assert ask(call("/chat"), service).status == 400
        assert far.calls == []


def test_an_unexpected_exception_does_not_fall_back() -> None:
    _, far, service = pair([RuntimeError("x")])

    assert ask(call("/chat"), service).status == 500
    assert far.calls == []


def test_the_stream_of_a_late_local_model_is_closed() -> None:
    near, _, service = pair([asyncio.Event()])

    assert text(ask(call("/chat"), service)) == "far"
    assert near.open_streams == 0


def test_the_first_event_of_a_local_model_is_returned() -> None:
    for script in ([Delta("a"), Delta("b"), Done()], [Delta("ab"), Done()]):
        _, _, service = pair(script)

        assert text(ask(call("/chat"), service)) == "ab"
    _, _, service = pair([Done()])
    assert text(ask(call("/chat"), service)) == ""


def slowly(*events: Any) -> Any:
    """A model that takes longer to its first token than a local one may."""

    class Slow(FakeModel):
        @asynccontextmanager
        async def open(self, prompt: Any) -> Any:
            await asyncio.sleep(0.5)
            async with FakeModel.open(self, prompt) as stream:
                yield stream

    return Slow(events)


def duo(near: FakeModel, far: FakeModel) -> App:
    providers = (
        Provider("near", "local", lambda _: near, models=("near",)),
        Provider("far", "remote", lambda _: far, models=("far",)),
    )
    return App(Rag(FakeRetriever(), Router(providers, seconds=0.2), PROMPTS, UNSET))


def test_a_local_model_without_a_fallback_has_no_time_limit() -> None:
    far = FakeModel([Delta("far"), Done()])
    body = {**QUESTION, "context": {"overrides": {"hybrid_policy": "always_local"}}}

    assert text(ask(call("/chat", body), duo(slowly(Delta("near"), Done()), far))) == "near"
    assert text(ask(call("/chat"), duo(slowly(Delta("near"), Done()), far))) == "far"
    _, _, service = pair([errors.Unavailable()])
    ask(call("/chat"), service)
    assert ask(call("/chat", body), service).status == 503


def test_a_local_model_without_streaming_has_no_first_token_limit() -> None:
    near = slowly(Delta("near"), Done())
    near.limits = {"streaming": "It answers in one piece."}

    assert text(ask(call("/chat"), duo(near, FakeModel([Delta("far"), Done()])))) == "near"


def test_a_request_that_did_not_reach_a_model_does_not_mark_it_as_available() -> None:
    clock = Clock()
    near, _, service = pair([errors.Unavailable()], clock)
    ask(call("/chat"), service)
    clock.at += 31
    near.max_prompt_tokens = 1  # so that every question is too long, before it is asked
    ask(call("/chat"), service)
    near.max_prompt_tokens = 1000
    ask(call("/chat"), service)

    assert len(near.calls) == 1


def provider(name: str, side: Any, **more: Any) -> Provider:
    def create(model: str | None) -> Any:
        return named(f"{name}/{model}", FakeModel())

    return Provider(name, side, create, **more)


def test_a_named_model_is_searched_in_every_allowed_provider() -> None:
    router = Router(
        [
            provider("a", "local", models=("small",)),
            provider("b", "local", models=("other",)),
            provider("c", "remote", models=("large", "small")),
            provider("off", "remote", models=("dear",), available=False),
        ]
    )

    def chosen(model: str | None, **more: Any) -> str:
        return router.select(ModelSelection(model=model, **more)).model.name

    assert chosen(None) == "a/small"
    assert chosen("other") == "b/other"
    assert chosen("large") == "c/large"
    assert chosen("small", policy="always_remote") == "c/small"
    assert router.select(ModelSelection(model="other")).fallback is None
    assert router.select(ModelSelection(model="small")).fallback is not None
    with pytest.raises(errors.NoSuchModel):
        chosen("dear")
    with pytest.raises(errors.NoSuchModel):
        chosen("large", policy="always_local")
    with pytest.raises(errors.NoSuchModel):
        chosen("other", policy="always_remote", remote="c")
    with pytest.raises(errors.NoProvider):
        chosen(None, policy="always_remote", remote="off")


@pytest.mark.parametrize(
    ("policy", "known"),
    [
        ("default", ["small", "large"]),
        ("always_local", ["small"]),
        ("always_remote", ["large"]),
    ],
)
def test_known_models_are_those_that_a_request_may_name(policy: Any, known: list[str]) -> None:
    providers = [
        provider("a", "local", models=("small",)),
        provider("b", "remote", models=("large",)),
        provider("off", "remote", models=("dear",), available=False),
    ]
    router = Router(providers, policy)

    assert [name for name in ("small", "large", "dear") if router.has_model(name)] == known
    assert all(router.select(ModelSelection(model=name)) for name in known)


def test_a_provider_without_a_list_of_models_has_every_model() -> None:
    router = Router(
        [provider("a", "local"), provider("b", "remote", models=("m",), allows_selection=False)]
    )

    assert router.select(ModelSelection(model="any")).model.name == "a/any"
    assert router.select(ModelSelection()).model.name == "a/None"
    far = router.select(ModelSelection(policy="always_remote", model="any"))
    assert far.model.name == "b/m"
