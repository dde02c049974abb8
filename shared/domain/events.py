"""The events of an answer's stream, with its sources and steps, and the paths that it cites."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile, zip_longest
from typing import Any, Literal
from urllib.parse import quote, unquote

from shared.domain.messages import Message, ToolCall

Extra = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that can be cited as `[sourcepage]`.

    `score` is the search engine's (higher is better), `reranker_score` a semantic ranker's.
    `image` is a data URL, only set if images were requested. `title` and `url` come from a foreign
    index; without `url` this app serves the file. `heading` are the headings above the text, with
    which `content` begins; the embedded index alone has them apart.
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
    heading: str = ""

    def prompt_line(self, captions: bool = False) -> str:
        """Format the line `sourcepage: content`, with `captions` in place of the content.

        A colon separates the headings of a passage from its text.
        """
        text = " . ".join(self.captions) if captions and self.captions else self.content
        if self.heading and text.startswith(f"{self.heading}\n\n"):
            text = text.replace("\n\n", ": ", 1)
        return f"{self.sourcepage}: {' '.join(text.split())}"


@dataclass(frozen=True, slots=True)
class ExcludedSource:
    """A search result that is not used, because of its score or its rank."""

    source: Source
    reason: Literal["score", "rerank"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step on the way to the answer, for a debug display (a "thought" of the protocol)."""

    title: str
    description: str | tuple[str, ...] | tuple[Source, ...] | tuple[Message, ...]
    props: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, as the model reports them.

    Of the prompt some were cached, of the answer some are reasoning; 0 if unknown.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of prompt and answer."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Context:
    """The first event: the sources of the answer. The model has accepted the prompt.

    `images` are the URLs of the images in the prompt, `instructions` its system message.
    `conversation` is the id of a new conversation, `not_stored_reason` says why none was stored.
    `single_chunk`: the model sends its answer in one chunk. `notes` name what replaced options that
    are not available. `excluded` are results that may not be cited. `shows_steps` is whether the
    client gets the steps.
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
    shows_steps: bool = True


@dataclass(frozen=True, slots=True)
class Delta:
    """A chunk of the answer, as the model sent it: text or parts of tool calls.

    `extra` holds the additional fields of the model's response, `message_extra` those of its
    message, such as reasoning. `model` is the name of the model. `more`: the next event has arrived
    with this one, so that both may be sent at once; a transform that removes this event keeps the
    last one of them, with an empty text.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    extra: Extra = field(default_factory=dict)
    message_extra: Extra = field(default_factory=dict)
    model: str | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The last event. `followups` is None if not requested.

    `warnings` are messages about failures that did not prevent the answer. `fingerprint` and the
    two filter results are the model's, if it sent them. `conversation` is the id of a new
    conversation that an answer without streaming has started.
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
ByteStream = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A collected stream: its context, text, tool calls and last event.

    `parts` are its texts and tool calls in the order in which the model began them.
    """

    context: Context
    content: str
    done: Done
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[str | ToolCall, ...] = ()
    extra: Extra = field(default_factory=dict)
    message_extra: Extra = field(default_factory=dict)


async def collect(events: Events) -> Answer:
    """Collect a stream of events into one answer. Raises the errors of the stream."""
    context, done = Context((), (), ""), Done()
    texts: dict[int, list[str]] = {}  # by the number of calls that began before
    calls: dict[int, list[ToolCall]] = {}
    extra: dict[str, Any] = {}
    message_extras: dict[str, list[Any]] = {}
    async with aclosing(events):
        async for event in events:
            match event:
                case Context():
                    context = event
                case Delta(content, parts):
                    texts.setdefault(len(calls), []).append(content)
                    for part in parts:
                        calls.setdefault(part.index, []).append(part)
                    extra |= event.extra
                    for key, value in event.message_extra.items():
                        message_extras.setdefault(key, []).append(value)
                case Done():
                    done, extra = event, {**extra, **event.extra}
    done = replace(done, model=done.model or context.model)
    merged = [merge_tool_calls(parts) for parts in calls.values()]
    pieces = ["".join(texts.get(place, ())) for place in range(len(merged) + 1)]
    answer_parts = chain.from_iterable(zip_longest(pieces, merged))
    message_extra = {key: merge_extras(values) for key, values in message_extras.items()}
    return Answer(
        context,
        "".join(pieces),
        done,
        tuple(sorted(merged, key=lambda call: call.index)),
        tuple(part for part in answer_parts if part),
        extra,
        message_extra,
    )


def merge_extras(values: Sequence[Any]) -> Any:
    """Merge the values of a field over all chunks: strings and lists are joined, else the last."""
    last = values[-1]
    same_type = list(takewhile(lambda value: isinstance(value, type(last)), reversed(values)))[::-1]
    if isinstance(last, str):
        return "".join(same_type)
    return list(chain.from_iterable(same_type)) if isinstance(last, list) else last


def merge_tool_calls(parts: Sequence[ToolCall]) -> ToolCall:
    """Merge the parts of a tool call."""
    id = next((part.id for part in parts if part.id), None)
    name = next((part.name for part in parts if part.name), None)
    return ToolCall(parts[0].index, id, name, "".join(part.arguments for part in parts))


MAX_PATH_LENGTH = 1024
"""The maximum length of a citable path in characters, as in Blob storage."""

# Delimiters of a citation `[path#page=3]`, of its link, and of the line `path: text` in a prompt,
# including all line separators.
_RESERVED = re.compile(r"[\[\]#%?:\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
# The characters that break a citation, also in page names of foreign indexes.
_UNSAFE = re.compile(r"[\[\]\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENCODED = re.compile(r"%(?:5B|5D|23|25|3F|3A|5C|[01][0-9A-F]|7F)|%C2%[89][0-9A-F]|%E2%80%A[89]")


def encode_path(name: str) -> str:
    """Percent-encode `[]#%?:`, backslashes and control characters of a path."""
    return _RESERVED.sub(lambda match: quote(match[0], safe=""), name)


def escape_citation(page: str) -> str:
    """Percent-encode brackets and line separators of a page name from a foreign index."""
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), page)


def decode_path(sourcefile: str) -> str:
    """Decode what `encode_path` encoded."""
    return _ENCODED.sub(lambda match: unquote(match[0]), sourcefile)
