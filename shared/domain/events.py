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
    """A passage that can be cited as `[sourcepage]`."""

    id: str
    content: str
    sourcepage: str
    sourcefile: str
    category: str | None = None
    oids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    captions: tuple[str, ...] = ()
    score: float | None = None  # the search engine's: higher is better
    reranker_score: float | None = None  # a semantic ranker's
    image: str | None = None  # a data URL, only set if images were requested
    title: str | None = None  # of a foreign index
    url: str | None = None  # of a foreign index: without it, this app serves the file
    # The headings above the text, with which `content` begins; only the embedded index has them.
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
    """Token counts, as the model reports them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0  # of the prompt; 0 if unknown
    reasoning_tokens: int = 0  # of the answer; 0 if unknown

    @property
    def total_tokens(self) -> int:
        """The sum of prompt and answer."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Context:
    """The first event: the sources of the answer. The model has accepted the prompt."""

    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    model: str
    captions: bool = False
    images: tuple[str, ...] = ()  # the URLs of those in the prompt
    instructions: str = ""  # the system message
    conversation: str | None = None  # the id of a new one
    not_stored_reason: str = ""  # why there is no new conversation
    single_chunk: bool = False  # whether the model sends its answer in one chunk
    notes: tuple[str, ...] = ()  # on what replaced options that are not available
    excluded: tuple[ExcludedSource, ...] = ()  # results that may not be cited
    shows_steps: bool = True  # whether the client gets the steps
    search_tokens: Mapping[str, int] = field(default_factory=dict)  # of the search, by their kind


@dataclass(frozen=True, slots=True)
class Delta:
    """A chunk of the answer, as the model sent it: text or parts of tool calls."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    extra: Extra = field(default_factory=dict)  # other fields of the model's response
    message_extra: Extra = field(default_factory=dict)  # of its message, such as reasoning
    model: str | None = None  # its name
    # The next event has arrived with this one, so that both may be sent at once. A transform that
    # removes this event keeps the last one of them, with an empty text.
    more: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The last event."""

    finish_reason: str = "stop"
    followups: tuple[str, ...] | None = None  # None if not requested
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None  # the model's, as the two filter results
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: Sequence[Any] | None = None
    warnings: tuple[str, ...] = ()  # of failures that did not prevent the answer
    extra: Extra = field(default_factory=dict)
    conversation: str | None = None  # the id of a new one, of an answer without streaming


Event = Context | Delta | Done
Events = AsyncGenerator[Event, None]
ByteStream = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A collected stream: its context, text, tool calls and last event."""

    context: Context
    content: str
    done: Done
    tool_calls: tuple[ToolCall, ...] = ()
    # Its texts and tool calls in the order in which the model began them.
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
