"""An answer as a stream of events, and the sources and steps that it stands on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any, Literal

from shared.chat.messages import Message, ToolCall

Extra = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that can be cited as `[sourcepage]`.

    `score` is the search engine's own (higher is better), `reranker_score` a semantic ranker's.
    `image` is a data URL, there only where images were asked for and the passage has one. `title`
    and `url` are what an index that was made elsewhere has of them; without `url` (None) we serve
    the file.
    """

    id: str
    content: str
    sourcepage: str
    sourcefile: str
    category: str | None = None
    oids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    captions: tuple[str, ...] = ()
    score: float | None = None
    reranker_score: float | None = None
    image: str | None = None
    title: str | None = None
    url: str | None = None

    def prompt_line(self, captions: bool = False) -> str:
        """`sourcepage: content` on one line; captions stand for the content where wanted."""
        text = " . ".join(self.captions) if captions and self.captions else self.content
        return f"{self.sourcepage}: {' '.join(text.split())}"


@dataclass(frozen=True, slots=True)
class ExcludedSource:
    """A passage that was found and is not used: its score, or its place in the ranking, is why."""

    source: Source
    reason: Literal["score", "rerank"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thought: what was done on the way to the answer, for a debug display."""

    title: str
    description: str | tuple[str, ...] | tuple[Source, ...] | tuple[Message, ...]
    props: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the model counts them."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Context:
    """The first event: what the answer will stand on. The model has accepted the prompt.

    `images` are the URLs of those that were shown to the model beside the sources' text,
    `instructions` what it was told to do. `conversation` is the id of the one that was begun,
    `not_stored_reason` a sentence that says why none was.
    `single_chunk`: the model sends its answer in one chunk. `notes` name what replaced options that
    are not available. `excluded` are results that may not be cited.
    """

    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    model: str
    captions: bool = False
    images: tuple[str, ...] = ()
    instructions: str = ""
    conversation: str | None = None
    not_stored_reason: str = ""
    single_chunk: bool = False
    notes: tuple[str, ...] = ()
    excluded: tuple[ExcludedSource, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """Some more of the answer, as the model gave it: of its text, or of its calls of tools.

    `extra` is what the model's service says beside it, under names of its own; `message_extra`
    what it says inside of the message, such as its thoughts. `model` is the one that says it.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    extra: Extra = field(default_factory=dict)
    message_extra: Extra = field(default_factory=dict)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The last event. `followups` is None where none were asked for.

    `warnings` are sentences about what went wrong beside the answer. `fingerprint` and the two
    filter results are the model's own, there only where it sent them. `conversation` is the id of
    a new one: an answer that is not streamed begins it at its end.
    """

    finish_reason: str = "stop"
    followups: tuple[str, ...] | None = None
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: Sequence[Any] | None = None
    warnings: tuple[str, ...] = ()
    extra: Extra = field(default_factory=dict)
    conversation: str | None = None


Event = Context | Delta | Done
Events = AsyncGenerator[Event, None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A stream folded: its context, its whole text, how it ended, the calls of tools in it."""

    context: Context
    content: str
    done: Done
    tool_calls: tuple[ToolCall, ...] = ()
    extra: Extra = field(default_factory=dict)
    message_extra: Extra = field(default_factory=dict)


async def collect(events: Events) -> Answer:
    """Fold a stream of events into one answer. The only other way to answer is to stream.

    A failure in the stream is an exception here.
    """
    context, text, done = Context((), (), ""), [], Done()
    calls: dict[int, list[ToolCall]] = {}
    extra: dict[str, Any] = {}
    beside: dict[str, list[Any]] = {}
    async with aclosing(events):
        async for event in events:
            match event:
                case Context():
                    context = event
                case Delta(content, parts):
                    text.append(content)
                    for part in parts:
                        calls.setdefault(part.index, []).append(part)
                    extra |= event.extra
                    for key, value in event.message_extra.items():
                        beside.setdefault(key, []).append(value)
                case Done():
                    done, extra = event, {**extra, **event.extra}
    done = replace(done, model=done.model or context.model)
    whole = tuple(merge_tool_calls(calls[index]) for index in sorted(calls))
    message_extra = {key: merge_extras(values) for key, values in beside.items()}
    return Answer(context, "".join(text), done, whole, extra, message_extra)


def merge_extras(values: Sequence[Any]) -> Any:
    """What a service says beside a message, of all its parts: texts and lists are joined, any
    other value stands for those before it."""
    last = values[-1]
    alike = list(takewhile(lambda value: isinstance(value, type(last)), reversed(values)))[::-1]
    if isinstance(last, str):
        return "".join(alike)
    return list(chain.from_iterable(alike)) if isinstance(last, list) else last


def merge_tool_calls(parts: Sequence[ToolCall]) -> ToolCall:
    """A call of all its parts."""
    id = next((part.id for part in parts if part.id), None)
    name = next((part.name for part in parts if part.name), None)
    return ToolCall(parts[0].index, id, name, "".join(part.arguments for part in parts))
