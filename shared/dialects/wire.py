"""What the dialects share: the row itself, the JSON of a request's frame and of an answer's parts.

Names and forms are those of the chat protocol documents ("Example request context", "Example
response context"), in their three ages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.chat import Answer, ChatRequest, Context, Done, Event, Message, Source, Step, Usage
from shared.errors import ChatError
from shared.overrides import Overrides, is_set

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body: its JSON value, and the other parts of a form by their names.

    `size` is that of the JSON, in bytes.
    """

    json: Any
    files: Mapping[str, bytes]
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """How a protocol tells of a failure; `error` is given the body as far as it could be read.

    `status` and `headers` are the failure's own, where the protocol has no others for it.
    """

    name: str
    error: Callable[[ChatError, Any], Json]
    status: Callable[[ChatError, Any], int] = lambda failure, _body: failure.status
    headers: Callable[[ChatError], Mapping[str, str]] = lambda failure: failure.headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Voice):
    """One protocol of a chat: how its requests are read and its answers written.

    `parse` raises BadRequest, which names the key at fault. `chunk` writes one event of a stream,
    given the request and the stream's context: None for one that this protocol has no words for.
    `broken` writes a failure after the first event, where that is not an `error` as any other.
    `pause` is how many seconds there are at least between two events of a stream. `late`: what is
    known before the answer goes out with its first piece, and an answer that comes in one piece is
    one event. `forms`: whether a request may be one, with files. `trailer` is what stands behind
    the last event. `notices`: a header tells what was used instead of what was asked for.
    `numbered`: sources are cited by their place, as `[doc1]`.
    """

    media_type: str
    parse: Callable[[Body], ChatRequest]
    streams: Callable[[str, Any], bool]
    answer: Callable[[ChatRequest, Answer], Json]
    chunk: Callable[[ChatRequest, Context, Event], Json | None]
    frame: Callable[[Json], bytes]
    broken: Callable[[ChatError, Any], Json] | None = None
    pause: float = 0
    late: bool = False
    forms: bool = True
    trailer: Callable[[ChatRequest, Answer], list[bytes]] | None = None
    notices: bool = False
    numbered: bool = False


CONVERSATION = "conversation_id"  # the key of a client's state that asks to be remembered

# What JSON allows in a string and readers of lines take for the end of one.
LINE_ENDS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}


def dumps(value: Any) -> bytes:
    """JSON as UTF-8, on one line for every reader of lines. Raises ValueError for inf and nan."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in LINE_ENDS.items():
        text = text.replace(character, escape)
    return text.encode(errors="replace")  # a model may cut a character into lone surrogates


def json_line(value: Json) -> bytes:
    """One line of a stream; "\\n" after every line, since clients drop an unterminated last one."""
    return dumps(value) + b"\n"


def event(value: Json) -> bytes:
    """One server-sent event, in one write. No other kind of line: some clients know none."""
    return b"data: " + dumps(value) + b"\n\n"


def by_body(_route: str, body: Any) -> bool:
    """The body's `stream` decides whether an answer streams; not where it is missing."""
    return bool(body.get("stream"))


LINES = ("application/jsonl", "application/json-lines", "application/x-ndjson")


def media_type(accept: str, default: str) -> str:
    """The content type of a stream: of lines one that `Accept` names, else the dialect's."""
    if default not in LINES:
        return default
    parts = (re.sub(r"\s", "", part).lower() for part in accept.split(","))
    wanted = (kind for kind in parts if not re.search(r";q=0(?:\.0*)?(?:;|$)", kind))
    asked = (kind.partition(";")[0] for kind in wanted)
    return next((kind for kind in asked if kind in LINES), default)


def override_path(field: str, body: Any, flat: bool) -> str:
    """Where a client wrote an override: in `context.overrides`, or (`flat`) right in `context`."""
    context = (body or {}).get("context") or {}
    name = field.partition("[")[0]
    inside = is_set((context.get("overrides") or {}).get(name))
    straight = flat and name in context and not inside
    return f"context.{field}" if straight else f"context.overrides.{field}"


def error(failure: ChatError, body: Any, flat: bool = False) -> Json:
    """`{"error": "<sentence>"}`, the field at fault named by the path that the client used."""
    if failure.field is None:
        return {"error": failure.message}
    known = failure.field in Overrides.model_fields
    path = override_path(failure.field, body, flat) if known else failure.field
    return {"error": f"{path}: {failure.message}"}


def state(asked: ChatRequest, conversation: str | None) -> Any:
    """The client's state, with the id of the conversation that was begun for it."""
    if conversation is None:
        return asked.state
    return {**asked.state, CONVERSATION: conversation}


def start_of_context(context: Context) -> Json:
    """What is known before the answer: `data_points` and `thoughts`."""
    return {"data_points": data_points(context), "thoughts": [thought(s) for s in context.steps]}


def end_of_context(done: Done) -> Json:
    """What is known after the answer."""
    end: Json = {"finish_reason": done.finish_reason}
    if done.usage is not None:
        end["usage"] = usage(done.usage)
    if done.followups is not None:
        end["followup_questions"] = list(done.followups)
    if done.warnings:
        end["warnings"] = list(done.warnings)
    return end


def usage(used: Usage) -> Json:
    """Tokens, as OpenAI names them."""
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.total_tokens,
    }


def message(content: str) -> Json:
    """A whole answer's message."""
    return {"content": content, "role": "assistant", "function_call": None, "tool_calls": None}


def data_points(context: Context) -> Json:
    """The passages as text, and what may be cited, once each: frontends link only those.

    `images` are there only when images were used.
    """
    pages = dict.fromkeys(source.sourcepage for source in context.sources)
    lines = [source.line(context.captions) for source in context.sources]
    images = [{"detail": "auto", "url": url} for url in context.images]
    return {"text": lines, "citations": list(pages), **({"images": images} if images else {})}


def thought(step: Step) -> Json:
    """One step, for a debug display."""
    said = step.description
    description: Any = said if isinstance(said, str) else [_described(part) for part in said]
    props = None if step.props is None else dict(step.props)
    return {"title": step.title, "description": description, "props": props}


def _described(part: str | Source | Message) -> Any:
    match part:
        case Source():
            return _hit(part)
        case Message():
            return json.dumps(_prompted(part), ensure_ascii=False)
        case _:
            return part


def _prompted(said: Message) -> Json:
    images = {"images": len(said.images)} if said.images else {}
    return {"role": said.role, "content": said.content, **images}


def _hit(source: Source) -> Json:
    return {
        "id": source.id,
        "content": source.content,
        "embedding": None,
        "imageEmbedding": None,
        "category": source.category,
        "sourcepage": source.sourcepage,
        "sourcefile": source.sourcefile,
        "oids": list(source.oids),
        "groups": list(source.groups),
        "captions": list(source.captions),
        "score": source.score,
        "reranker_score": source.reranker_score,
    }
