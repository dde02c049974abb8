"""The nouns of a chat: what was asked, the passages found, and an answer as a stream of events.

Everything else in `shared/` speaks in these words; none of them knows HTTP, a wire or a service.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any, Literal

from shared.overrides import UNSET, Overrides

Role = Literal["system", "user", "assistant", "tool"]
Extra = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool that it was offered, or a part of one: `index` says of which.

    `arguments` is text as the model wrote it, JSON or not; a stream's parts add up to it. `id`
    and `name` come with the first part.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said. `images` are URLs, data URLs for what a client uploaded.

    A tool's message says in `tool_call_id` which of the assistant's `tool_calls` it answers.
    `given` is the message as its client wrote it, for a model that takes it as it is.
    """

    role: Role
    content: str
    images: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    given: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as the platform's sign-in says; nobody in particular without it."""

    oid: str | None = None
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    @property
    def signed_in(self) -> bool:
        """Whether it is somebody."""
        return self.oid is not None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What was asked, whatever protocol it came by. The last words of the user are the question.

    An earlier message without content is an answer that was broken off: it is kept in its place
    and counts for nothing. `state` is any JSON value; it goes back unchanged. `created` is in
    Unix seconds.

    `tools` are offered to the model, each as OpenAI's chat completions describe a tool. `options`
    are for a model that takes them, by the names of its client's protocol. `remote` is the remote
    provider to ask where one is asked: its name, or a description of one. `verbatim`: the messages
    are the model's as they are, behind our instructions. Without `retrieval` nothing is searched.
    `data_source` is where it asks to search. Not `in_scope`: the model may know more than the
    sources. `lenient`: instructions of a client's that may not act are left out, and a note says
    so. `notes` are sentences about what was left out by now. `links` is what links to documents
    begin with.
    """

    messages: tuple[Message, ...]
    overrides: Overrides = UNSET
    state: Any = None
    user: User = User()
    id: str = ""
    created: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    remote: str | Mapping[str, Any] | None = None
    verbatim: bool = False
    retrieval: bool = True
    data_source: DataSource | None = None
    in_scope: bool = True
    lenient: bool = False
    notes: tuple[str, ...] = ()
    links: str = ""

    @property
    def place(self) -> int:
        """Where the question stands: behind it there are tools' results, or nothing."""
        said = (
            index
            for index, message in enumerate(self.messages)
            if message.role == "user" and message.content.strip()
        )
        return max(said, default=len(self.messages) - 1)

    @property
    def question(self) -> str:
        """The last words of the user."""
        return self.messages[self.place].content

    @property
    def history(self) -> tuple[Message, ...]:
        """Everything said before the question, the client's own instructions left out."""
        said = (m for m in self.messages[: self.place] if m.role != "system")
        return tuple(m for m in said if m.content.strip() or m.images or m.tool_calls)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The client's own instructions: its `system` messages, in order."""
        return tuple(m.content for m in self.messages if m.role == "system" and m.content.strip())


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

    def line(self, captions: bool = False) -> str:
        """`sourcepage: content` on one line; captions stand for the content where wanted."""
        text = " . ".join(self.captions) if captions and self.captions else self.content
        return f"{self.sourcepage}: {' '.join(text.split())}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A passage that was found and is not used: its score, or its place in the ranking, is why."""

    source: Source
    reason: Literal["score", "rerank"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where a request asks to search, and how, as far as the deployment has a say in that.

    `strictness` is 1, for passages that fit badly too, to 5. `filter` is OData, as its client wrote
    it.
    """

    endpoint: str
    index: str
    strictness: int
    filter: str | None = None


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
    `whole`: the model gives its answer in one piece. `notes` say what was used instead of what was
    asked for. `left_out` was found, too, and may not be cited.
    """

    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    model: str
    captions: bool = False
    images: tuple[str, ...] = ()
    instructions: str = ""
    conversation: str | None = None
    not_stored_reason: str = ""
    whole: bool = False
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


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
    whole = tuple(joined(calls[index]) for index in sorted(calls))
    message_extra = {key: added(values) for key, values in beside.items()}
    return Answer(context, "".join(text), done, whole, extra, message_extra)


def added(values: Sequence[Any]) -> Any:
    """What a service says beside a message, of all its parts: texts and lists are joined, any
    other value stands for those before it."""
    last = values[-1]
    alike = list(takewhile(lambda value: isinstance(value, type(last)), reversed(values)))[::-1]
    if isinstance(last, str):
        return "".join(alike)
    return list(chain.from_iterable(alike)) if isinstance(last, list) else last


def joined(parts: Sequence[ToolCall]) -> ToolCall:
    """A call of all its parts."""
    id = next((part.id for part in parts if part.id), None)
    name = next((part.name for part in parts if part.name), None)
    return ToolCall(parts[0].index, id, name, "".join(part.arguments for part in parts))
