"""OpenSearch's conversation memory: its requests and answers, in the names of 2.11 and of 2.12.

"Conversation memory" of the document; the later names are those of OpenSearch's own clients.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from shared.chat.errors import BadRequest, describe_errors
from shared.chat.messages import NOT_JSON_SAFE, is_json_safe
from shared.http.json_encoding import Json
from shared.memory.base import Conversation, Interaction, PageRequest, Turn

M = TypeVar("M", bound=BaseModel)
SUCCESS: Json = {"success": True}
ACKNOWLEDGED: Json = {"acknowledged": True}
MOST = 100  # entries of a page
LONGEST_NAME = 1000  # characters of a conversation's
# Characters of all that is said in an interaction: a body over 1 MB holds up every other request
# while it is sent to Cosmos DB, and its SDK writes an emoji in 12 bytes.
LONGEST = 80_000
MAX_CONTAINERS = 2000  # of additional information: a page of 100 is read at once


@dataclass(frozen=True, slots=True)
class MemoryNames:
    """What an age calls things.

    `newest_first` is the order inside of a conversation; `objects` is whether the additional
    information may be an object.
    """

    conversation: str
    interaction: str
    conversations: str
    interactions: str
    newest_first: bool = False
    objects: bool = False


OLD = MemoryNames(
    "conversation_id", "interaction_id", "conversations", "interactions", newest_first=True
)
NEW = MemoryNames("memory_id", "message_id", "memories", "messages", objects=True)


class MemoryBody(BaseModel):
    """What a request may bring; other keys are ignored."""

    model_config = ConfigDict(strict=True)
    name: str | None = Field(default=None, max_length=LONGEST_NAME)
    input: str | None = None
    prompt_template: str | None = None
    response: str | None = None
    origin: str | None = None
    additional_info: str | None = None


class LaterBody(MemoryBody):
    """The same, where the additional information may be an object."""

    additional_info: str | dict[str, Any] | None = None  # type: ignore[assignment]


class Paging(BaseModel):
    """Which part of a list, as query parameters say it."""

    max_results: int = Field(default=10, ge=1, le=MOST)
    next_token: int = Field(default=0, ge=0, lt=2**31)


def read(model: type[M], value: Any, prefix: str = "") -> M:
    """A body, a part of one, or query parameters. Raises BadRequest that names what is wrong."""
    if not isinstance(value, Mapping):
        raise BadRequest(f"{prefix.rstrip('.')} must be an object")
    try:
        return model.model_validate(value)
    except ValidationError as failure:
        raise BadRequest(describe_errors(failure, lambda path: f"{prefix}{path}")) from None


def page(query: Mapping[str, str]) -> PageRequest:
    """The part of a list that is asked for. Raises BadRequest."""
    for key in ("max_results", "next_token"):
        if not re.fullmatch(r"-?[0-9]{1,20}", query.get(key, "0")):
            raise BadRequest(f"{key}: must be a whole number")
    paging = read(Paging, query)
    return PageRequest(paging.next_token, paging.max_results)


def name(body: Any) -> str:
    """The name of a new conversation: empty without one. Raises BadRequest."""
    return read(MemoryBody, body).name or ""


def new_name(body: Any) -> str:
    """The name that a conversation is to have. Raises BadRequest."""
    new = read(MemoryBody, body).name
    if new is None:
        raise BadRequest("name: is required: nothing else can be changed")
    return new


def turn(names: MemoryNames, body: Any) -> Turn:
    """The turn of an interaction. Raises BadRequest, also for an empty one."""
    fields = read(LaterBody if names.objects else MemoryBody, body)
    texts = {field: getattr(fields, field) or "" for field in _FIELDS}
    result = Turn(**texts | {"additional_info": _text(fields.additional_info)})
    length = sum(map(len, astuple(result)))
    if not length:
        raise BadRequest(f"at least one of {', '.join(_FIELDS)} must not be empty")
    if length > LONGEST:
        raise BadRequest(f"{', '.join(_FIELDS)}: {LONGEST} characters at most, together")
    return result


def annotation(body: Any) -> str:
    """The additional information that is to stand instead. Raises BadRequest."""
    info = read(LaterBody, body).additional_info
    if info is None:
        raise BadRequest("additional_info: is required: nothing else can be changed")
    text = _text(info)
    if len(text) > LONGEST:
        raise BadRequest(f"additional_info: must have {LONGEST} characters at most")
    return text


_FIELDS = tuple(field.name for field in fields(Turn))


def _text(info: str | Mapping[str, Any] | None) -> str:
    """What is stored of additional information: an object as JSON, an empty one as nothing."""
    if isinstance(info, str):
        return info
    if not info:
        return ""
    if not is_json_safe(info):
        raise BadRequest(f"additional_info: {NOT_JSON_SAFE}")
    text = json.dumps(info, ensure_ascii=False)
    if _containers(text) > MAX_CONTAINERS:
        raise BadRequest(f"additional_info: must have {MAX_CONTAINERS} lists and objects at most")
    return text


def _containers(text: str) -> int:
    """The lists and objects of a JSON text, brackets in its texts included."""
    return text.count("[") + text.count("{")


def created(names: MemoryNames, conversation: Conversation) -> Json:
    """A conversation that was created."""
    return {names.conversation: conversation.id}


def added(names: MemoryNames, interaction: Interaction) -> Json:
    """Something that was added to a conversation."""
    return {names.interaction: interaction.id}


def conversation(names: MemoryNames, entry: Conversation) -> Json:
    """One of the conversations."""
    fields = {"name": entry.name, "create_time": entry.created}
    return {names.conversation: entry.id, **fields}


def interaction(names: MemoryNames, entry: Interaction) -> Json:
    """One of the interactions."""
    info = entry.turn.additional_info
    fields = {**asdict(entry.turn), "additional_info": _object(info) if names.objects else info}
    ids = {names.interaction: entry.id, names.conversation: entry.conversation}
    return {**ids, "create_time": entry.created, **fields}


def _object(info: str) -> Any:
    """The object that additional information was given as; a text stays one."""
    if _containers(info) > MAX_CONTAINERS:
        return info
    try:
        parsed = from_json(info, allow_inf_nan=False)
    except ValueError:
        return info
    return parsed if isinstance(parsed, dict) and is_json_safe(parsed) else info


def listed(key: str, entries: Sequence[Json], page: PageRequest) -> Json:
    """A page of a list. Its end tells the next position only where the page is full."""
    more = {"next_token": page.start + page.size} if len(entries) == page.size else {}
    return {key: list(entries), **more}


def renamed(conversation: str) -> Json:
    """That a conversation was changed, as OpenSearch says it of a document."""
    return _updated("meta", conversation)


def annotated(interaction: str) -> Json:
    """That an interaction was changed."""
    return _updated("message", interaction)


def _updated(kind: str, changed: str) -> Json:
    return {"_index": f".plugins-ml-memory-{kind}", "_id": changed, "result": "updated"}
