"""A local and a remote model, either of them in trouble: who is asked, what the client sees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shared import errors
from shared.bootstrap import build
from shared.chat import Delta, Done
from shared.models import Model
from shared.models.provider import is_local
from shared.models.router import Provider, Router, Wish
from shared.overrides import UNSET
from shared.rag import Rag
from shared.service import Service
from shared.settings import read
from tests.calls import QUESTION, Got, ask, call
from tests.fakes import WORDS, FakeModel, FakeRetriever


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def named(name: str, model: FakeModel) -> FakeModel:
    model.name = name
    return model


def pair(local: Sequence[Any], clock: Clock | None = None) -> tuple[FakeModel, FakeModel, Service]:
    """A local model with a script, and a remote one that answers."""
    near = named("near", FakeModel(local))
    far = named("far", FakeModel([Delta("far"), Done()]))

    def made(model: Model) -> Any:
        return lambda _name: model

    providers = (
        Provider("near", "local", made(near), models=("near",)),
        Provider("far", "remote", made(far), models=("far",)),
    )
    router = Router(providers, seconds=0.2, now=clock or Clock())
    return near, far, Service(Rag(FakeRetriever(), router, WORDS, UNSET))


def said(got: Got) -> str:
    return str(got.json["message"]["content"])


def test_what_is_down_is_left_alone_for_a_while_and_then_tried_by_one() -> None:
    clock = Clock()
    near, far, service = pair([errors.Unavailable()], clock)

    assert [said(ask(call("/chat"), service)) for _ in range(3)] == ["far"] * 3
    assert len(near.told) == 1
    clock.at += 31
    assert said(ask(call("/chat"), service)) == "far"
    assert len(near.told) == 2
    clock.at += 31
    near.script = [Delta("near"), Done()]
    assert [said(ask(call("/chat"), service)) for _ in range(2)] == ["near"] * 2
    assert len(far.told) == 4


def test_while_one_request_tries_it_the_others_do_not_wait() -> None:
    clock, held = Clock(), asyncio.Event()
    near, _, service = pair([errors.Unavailable()], clock)
    ask(call("/chat"), service)
    clock.at += 31
    near.script = [held, Delta("near"), Done()]
    near.told.clear()

    async def go() -> list[str]:
        replies = await asyncio.gather(*(service.reply(call("/chat")) for _ in range(5)))
        return [str(reply.body) for reply in replies]

    got = asyncio.run(go())

    assert len(near.told) == 1
    assert all("far" in each for each in got)


def test_a_wait_that_a_server_asks_for_is_kept_to() -> None:
    clock = Clock()
    near, _, service = pair([errors.TooManyRequests(retry_after=120)], clock)
    ask(call("/chat"), service)
    clock.at += 100
    ask(call("/chat"), service)

    assert len(near.told) == 1
    clock.at += 21
    ask(call("/chat"), service)
    assert len(near.told) == 2


def test_a_model_that_only_refuses_a_question_is_not_down() -> None:
    near, far, service = pair([errors.TooLong()])

    assert [said(ask(call("/chat"), service)) for _ in range(2)] == ["far"] * 2
    assert (len(near.told), len(far.told)) == (2, 2)


def test_what_a_content_filter_flags_is_not_handed_on() -> None:
    for script in ([errors.ContentFiltered()], [Done("content_filter")]):
        _, far, service = pair(script)

        assert ask(call("/chat"), service).status == 400
        assert far.told == []


def test_a_bug_is_not_hidden_behind_the_other_model() -> None:
    _, far, service = pair([RuntimeError("x")])

    assert ask(call("/chat"), service).status == 500
    assert far.told == []


def test_a_local_model_that_was_late_is_left_with_nothing_open() -> None:
    near, _, service = pair([asyncio.Event()])

    assert said(ask(call("/chat"), service)) == "far"
    assert near.open_streams == 0


def test_the_first_event_of_a_local_model_is_not_lost() -> None:
    for script in ([Delta("a"), Delta("b"), Done()], [Delta("ab"), Done()]):
        _, _, service = pair(script)

        assert said(ask(call("/chat"), service)) == "ab"
    _, _, service = pair([Done()])
    assert said(ask(call("/chat"), service)) == ""


def test_an_always_local_request_waits_as_long_as_the_model_may_take() -> None:
    near, _, service = pair([Delta("near"), Done()])
    body = {**QUESTION, "context": {"overrides": {"hybrid_policy": "always_local"}}}
    first = pair([errors.Unavailable()])[2]
    ask(call("/chat"), first)

    assert said(ask(call("/chat", body), service)) == "near"
    assert ask(call("/chat", body), first).status == 503
    assert near.open_streams == 0


def provider(name: str, side: Any, **more: Any) -> Provider:
    def made(asked: str | None) -> Any:
        return named(f"{name}/{asked}", FakeModel())

    return Provider(name, side, made, **more)


def test_a_named_model_is_looked_for_in_every_provider_that_may_answer() -> None:
    router = Router(
        [
            provider("a", "local", models=("small",)),
            provider("b", "local", models=("other",)),
            provider("c", "remote", models=("large", "small")),
            provider("off", "remote", models=("dear",), available=False),
        ]
    )

    def chosen(model: str | None, **more: Any) -> str:
        return router.choice(Wish(model=model, **more)).model.name

    assert chosen(None) == "a/small"
    assert chosen("other") == "b/other"
    assert chosen("large") == "c/large"
    assert chosen("small", policy="always_remote") == "c/small"
    assert router.choice(Wish(model="other")).instead is None
    assert router.choice(Wish(model="small")).instead is not None
    with pytest.raises(errors.NoSuchModel):
        chosen("dear")
    with pytest.raises(errors.NoSuchModel):
        chosen("large", policy="always_local")
    with pytest.raises(errors.NoSuchModel):
        chosen("other", policy="always_remote", remote="c")
    with pytest.raises(errors.NoProvider):
        chosen(None, policy="always_remote", remote="off")


def test_a_provider_without_a_list_has_every_model_that_is_asked_for() -> None:
    router = Router([provider("a", "local"), provider("b", "remote", models=("m",), selects=False)])

    assert router.choice(Wish(model="any")).model.name == "a/any"
    assert router.choice(Wish()).model.name == "a/None"
    far = router.choice(Wish(policy="always_remote", model="any"))
    assert far.model.name == "b/m"


def test_azure_openai_is_remote_and_a_server_beside_it_local() -> None:
    settings = {
        "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt",
        "OPENAI_BASE_URL": "http://192.168.1.7:11434/v1",
        "OPENAI_CHAT_MODEL": "llama3",
    }
    for policy, name in {"": "llama3", "always_local": "llama3", "always_remote": "gpt"}.items():
        engine = build(read({**settings, "HYBRID_POLICY": policy})).engine

        assert engine is not None
        assert engine.model.name == name


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
def test_what_is_local_is_told_by_the_address(url: str, local: bool) -> None:
    assert is_local(url) == local
