"""The spans around models and searches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from shared.domain.errors import TooManyRequests, Unavailable
from shared.domain.events import Delta, Done
from shared.models.base import Prompt
from shared.models.selected_model import FallbackOptions, SelectedModel
from shared.rag.model_stream import open_stream
from shared.telemetry.access_log import Attributes, child_span
from tests.support.fakes import ANSWER, USAGE, FakeModel


@dataclass
class RecordedSpan:
    """A span that keeps what it is told, and its children."""

    name: str = "request"
    attributes: dict[str, object] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    children: list[RecordedSpan] = field(default_factory=list)

    def start_child(self, name: str) -> RecordedSpan:
        self.children.append(RecordedSpan(name))
        return self.children[-1]

    def set_attributes(self, attributes: Attributes) -> None:
        self.attributes |= attributes

    def add_event(self, name: str) -> None:
        self.events.append(name)

    def end(self, error: str = "") -> None:
        self.errors.append(error)


PROMPT = Prompt("answer", (), 0.3)


def consume(selected: SelectedModel, parent: RecordedSpan) -> None:
    """Read an answer to its end."""

    async def read() -> None:
        async with open_stream(selected, PROMPT, parent) as events:
            async for _ in events:
                pass

    asyncio.run(read())


def test_model_call_is_a_span_with_its_tokens() -> None:
    parent = RecordedSpan()
    consume(SelectedModel(FakeModel(ANSWER)), parent)

    (span,) = parent.children
    assert span.name == "answer"
    assert span.events == ["accepted", "first token"]
    assert span.errors == [""]
    assert span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fake",
        "gen_ai.response.finish_reason": "stop",
        "gen_ai.usage.input_tokens": USAGE.prompt_tokens,
        "gen_ai.usage.output_tokens": USAGE.completion_tokens,
    }


def test_usage_is_left_out_where_the_model_names_none() -> None:
    parent = RecordedSpan()
    model = FakeModel([Delta("a"), Done("stop")])
    consume(SelectedModel(model), parent)

    assert not {name for name in parent.children[0].attributes if "usage" in name}


def test_failure_ends_the_span_with_its_name() -> None:
    parent = RecordedSpan()
    with pytest.raises(TooManyRequests):
        consume(SelectedModel(FakeModel([TooManyRequests()])), parent)

    assert parent.children[0].errors == ["TooManyRequests"]


def test_cancellation_is_no_failure() -> None:
    parent = RecordedSpan()
    with pytest.raises(asyncio.CancelledError), child_span(parent, "search", {}):
        raise asyncio.CancelledError

    (span,) = parent.children
    assert (span.name, span.errors) == ("search", [""])
    assert span.attributes == {"chat.outcome": "broken off"}


def test_fallback_is_traced_too() -> None:
    parent, other = RecordedSpan(), FakeModel()
    options = FallbackOptions(other, 9, lambda _: None, lambda: None, ("a", "b"))
    selected = SelectedModel(FakeModel(), options)
    consume(selected, parent)
    selected.fall_back(TooManyRequests())
    consume(selected, parent)

    assert len(other.calls) == 1
    assert [span.events for span in parent.children] == [["accepted", "first token"]] * 2


def test_model_that_accepts_and_then_breaks_off_has_accepted() -> None:
    parent = RecordedSpan()
    options = FallbackOptions(FakeModel(), 9, lambda _: None, lambda: None, ("a", "b"))
    with pytest.raises(Unavailable):
        consume(SelectedModel(FakeModel([]), options), parent)

    (span,) = parent.children
    assert span.events == ["accepted"]
    assert span.errors == ["Unavailable"]
