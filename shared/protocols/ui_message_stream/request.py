"""Parses the requests of `useChat`: the messages of a page, each in parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from shared.domain.errors import BadRequest
from shared.domain.messages import MAX_MESSAGES, Message, check_image_url
from shared.domain.overrides import Overrides, OverridesJson
from shared.domain.request import ChatRequest
from shared.http.body import Body, InvalidField, join_messages, require_object, validate
from shared.protocols.context_json import CONVERSATION
from shared.protocols.message_json import FAST, format_text, join_texts
from shared.protocols.ui_message_stream.file_parts import is_document, parse_document

READ = ("text", "file")
# Parts that come back with an earlier answer: what the model was to read of them is its text.
IGNORED = re.compile(
    r"(source|tool|data)-.*|dynamic-tool|reasoning(-file)?|step-start|custom|steering-message",
    re.DOTALL,
)
NOT_PARTS = "; messages with `content` in place of `parts` go to POST /chat"


def _drop_ignored(part: Any) -> Any:
    """Keep only the type of a part that is not read: its other fields may have any form."""
    if isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] not in READ:
        return {"type": part["type"]}
    return part


class _Part(BaseModel, strict=True):
    type: str
    text: str | None = None
    url: str | None = None
    mediaType: str | None = None  # of a file; may be just `image`
    filename: str | None = None


OPTIONAL = {"type": ["string", "null"]}
# The fields of a part that is not read may have any form.
PART = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "type": {"enum": READ},
                **dict.fromkeys(("text", "url", "mediaType", "filename"), OPTIONAL),
            },
            "required": ["type"],
        },
        {
            "type": "object",
            "properties": {"type": {"type": "string", "pattern": f"^({IGNORED.pattern})$"}},
            "required": ["type"],
        },
    ]
}


class _Message(BaseModel, strict=True):
    role: Literal["system", "user", "assistant"]
    parts: Annotated[
        list[
            Annotated[
                _Part,
                BeforeValidator(_drop_ignored),
                WithJsonSchema(PART),
            ]
        ],
        FAST,
    ]


class _Fields(BaseModel, strict=True):
    """The keys that are read. Others are the page's own, and ignored."""

    messages: Annotated[
        list[_Message] | None, Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    ] = None
    message: _Message | None = None  # the question alone, of a stored conversation
    overrides: OverridesJson | None = None
    conversation_id: str | None = None  # null asks for a new one
    trigger: str | None = None
    messageId: str | None = None  # of the question that was edited, or the answer to repeat


@dataclass(frozen=True, slots=True)
class PageState:
    """The conversation that a request names."""

    conversation: str | None  # None creates one
    replaces: bool  # whether a question was edited, or its answer is requested again


def parse(body: Body) -> ChatRequest:
    """Parse a request. Raises BadRequest that names each key at fault."""
    fields = validate(_Fields, require_object(body.json), fail=_fail)
    overrides = validate(Overrides, fields.overrides or {}, "overrides")
    replaces = fields.trigger == "regenerate-message" or fields.messageId is not None
    state = PageState(fields.conversation_id, replaces) if CONVERSATION in body.json else None
    paths, given = zip(*_list_messages(fields, state), strict=True)
    messages = tuple(map(_parse_message, paths, given))
    _check_question(paths[-1], messages[-1])
    # An answer that was stopped before its first word has no text.
    read = tuple(each for each in messages if each.content or each.images or each.files)
    return ChatRequest(read, overrides, state)


def _list_messages(fields: _Fields, state: PageState | None) -> Iterator[tuple[str, _Message]]:
    """Yield each message with its path. Raises BadRequest without any."""
    if fields.messages is not None:
        yield from ((f"messages[{place}]", each) for place, each in enumerate(fields.messages))
    elif fields.message is None or state is None or state.replaces:
        raise BadRequest("is required", field="messages")
    else:
        yield "message", fields.message


def _fail(fields: Sequence[InvalidField]) -> BadRequest:
    error = join_messages(fields)
    if any(each.kind == "missing" and each.path.endswith(".parts") for each in fields):
        return BadRequest(f"{error.message}{NOT_PARTS}")
    return error


def _parse_message(path: str, message: _Message) -> Message:
    """Return a message with its text, and a user's images and documents. Raises BadRequest."""
    texts, images = [], []
    files = []
    for place, part in enumerate(message.parts):
        where = f"{path}.parts[{place}]"
        if part.type == "text":
            texts.append(format_text(_require(f"{where}.text", part.text)))
        elif part.type == "file" and message.role == "user" and is_document(part.mediaType):
            files.append(parse_document(where, part.url, part.filename))
        elif part.type == "file" and message.role == "user":
            images.append(_parse_image(where, part))
        elif part.type != "file" and not IGNORED.fullmatch(part.type):
            raise BadRequest("must be text or file", field=f"{where}.type")
    return Message(message.role, join_texts(texts), tuple(images), files=tuple(files))


def _require(path: str, value: str | None) -> str:
    if value is None:
        raise BadRequest("is required", field=path)
    return value


def _parse_image(path: str, part: _Part) -> str:
    """Return the URL of an image. Raises BadRequest for another file, and a private address."""
    if not _require(f"{path}.mediaType", part.mediaType).startswith("image"):
        raise BadRequest("must be that of an image", field=f"{path}.mediaType")
    try:
        return check_image_url(_require(f"{path}.url", part.url))
    except ValueError as error:
        raise BadRequest(str(error), field=f"{path}.url") from None


def _check_question(path: str, message: Message) -> None:
    """Raise BadRequest unless the last message is a question of the user's."""
    if message.role != "user":
        raise BadRequest("the last message must be the user's", field=f"{path}.role")
    if not message.content.strip():
        raise BadRequest("must have a text", field=f"{path}.parts")
