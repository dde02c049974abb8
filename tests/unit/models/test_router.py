"""Routing between a local and a remote model by their failures, and by what a request names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from shared.app import handle_call
from shared.domain import errors
from shared.domain.events import Delta, Done, collect
from shared.domain.messages import Message
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import ChatRequest
from shared.models.base import Model
from shared.models.router import ModelSelection, Provider, Router
from shared.protocols.exchange import App
from shared.rag.flow import answer
from shared.rag.inputs import Rag
from shared.rag.search import search_by_query
from tests.support.calls import QUESTION, BufferedReply, ask, call
from tests.support.fakes import PLUS, PROMPTS, FakeModel, FakeRetriever


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
    return near, far, App(Rag(FakeRetriever(), router, PROMPTS, UNSET, search_step=search_by_query))


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
    service = App(Rag(FakeRetriever(), router, PROMPTS, UNSET, search_step=search_by_query))
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Yes."}]
    body = {"messages": [*turns, {"role": "user", "content": "And two?"}]}

    assert text(ask(call("/chat", body), service)) == "near"
    assert near.calls == far.calls == []


@pytest.mark.parametrize("remote", ["nobody", {"url": "nonsense"}, "far"])
def test_without_a_remote_model_the_local_failure_is_reported(remote: Any) -> None:
    near, far, service = pair([errors.Unavailable()])
    question = (Message("user", "Hello."),)
    request = ChatRequest(question, Overrides(model="near"), grounding="none", remote=remote)
    assert service.rag is not None
    for _ in range(2):
        with pytest.raises(errors.Unavailable):
            asyncio.run(collect(answer(service.rag, request)))

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
        rag = Rag(
            FakeRetriever([picture]), Router(providers), PROMPTS, UNSET, search_step=search_by_query
        )
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
    return App(
        Rag(
            FakeRetriever(),
            Router(providers, seconds=0.2),
            PROMPTS,
            UNSET,
            search_step=search_by_query,
        )
    )


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
