"""The memory API: conversations and their interactions, under the names of 2.11 and of 2.12.

"Conversation memory" of the document; the later names are those of OpenSearch's own clients.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from pydantic import BaseModel, Field
from pydantic_core import from_json

from shared.domain.errors import BadRequest, Unsupported
from shared.domain.messages import NOT_JSON_SAFE, is_json_safe
from shared.http.body import validate
from shared.http.call import Json
from shared.memory.base import Conversation, Interaction, Memory, PageRequest, Turn
from shared.protocols.exchange import Exchange

NO_MEMORY = (
    "This deployment keeps no conversations: set AZURE_COSMOS_ENDPOINT, or MEMORY_FILE on one "
    "machine."
)
MAX_PAGE = 100  # entries
MAX_NAME_LENGTH = 1000  # characters of a conversation's name
# Characters of all texts of an interaction: a body over 1 MB holds up every other request
# while it is sent to Cosmos DB, and its SDK writes an emoji in 12 bytes.
MAX_TURN_LENGTH = 80_000
MAX_CONTAINERS = 2000  # of additional information: a page of 100 is read at once
FIELDS = ("input", "prompt_template", "response", "origin", "additional_info")  # of a Turn
TURN_FIELDS = ", ".join(FIELDS)


def get_memory(exchange: Exchange) -> Memory:
    """Return the memory. Raises Unsupported if there is none."""
    if exchange.app.memory is None:
        raise Unsupported(NO_MEMORY)
    return exchange.app.memory


def get_owner_and_memory(exchange: Exchange) -> tuple[str, Memory]:
    """Return whose conversations a call is about, and the memory.

    Raises Unsupported, Unauthorized.
    """
    memory = get_memory(exchange)
    return exchange.app.access.get_owner(exchange.call.headers), memory


class MemoryBody(BaseModel, strict=True):
    """The body of a request; other keys are ignored."""

    name: str | None = Field(default=None, max_length=MAX_NAME_LENGTH)
    input: str | None = None
    prompt_template: str | None = None
    response: str | None = None
    origin: str | None = None
    additional_info: str | None = None


class ObjectInfoBody(MemoryBody):
    """The same, where the additional information may be an object."""

    additional_info: str | dict[str, Any] | None = None  # type: ignore[assignment]


class Paging(BaseModel):
    """The query parameters of a list."""

    max_results: int = Field(default=10, ge=1, le=MAX_PAGE)
    next_token: int = Field(default=0, ge=0, lt=2**31)


@dataclass(frozen=True, slots=True)
class MemoryApi:
    """A version of the API: the keys of its JSON, and the handlers of its routes."""

    conversation_id: str
    interaction_id: str
    conversations: str
    interactions: str
    newest_first: bool = False  # the order of the interactions of a conversation
    object_info: bool = False  # whether additional information may be an object

    async def create_conversation(self, exchange: Exchange) -> Json:
        """Create a conversation; without a name it is empty."""
        owner, memory = get_owner_and_memory(exchange)
        name = validate(MemoryBody, exchange.body).name or ""
        return {self.conversation_id: (await memory.conversations.create(owner, name)).id}

    async def list_conversations(self, exchange: Exchange) -> Json:
        """List a page of the conversations, the newest first."""
        owner, memory = get_owner_and_memory(exchange)
        page = _parse_page(exchange.call.query)
        conversations = await memory.conversations.list(owner, page)
        entries = [self._format_conversation(each) for each in conversations]
        return _format_page(self.conversations, entries, page)

    async def get_conversation(self, exchange: Exchange) -> Json:
        """Return a conversation."""
        owner, memory = get_owner_and_memory(exchange)
        return self._format_conversation(await memory.conversations.get(owner, exchange.call.path))

    async def add_interaction(self, exchange: Exchange) -> Json:
        """Add an interaction to a conversation."""
        owner, memory = get_owner_and_memory(exchange)
        turn = self._parse_turn(exchange.body)
        interaction = await memory.interactions.add(owner, exchange.call.path, turn)
        return {self.interaction_id: interaction.id}

    async def list_interactions(self, exchange: Exchange) -> Json:
        """List a page of the interactions of a conversation."""
        owner, memory = get_owner_and_memory(exchange)
        page, conversation = _parse_page(exchange.call.query), exchange.call.path
        interactions = await memory.interactions.list(owner, conversation, page, self.newest_first)
        entries = [self._format_interaction(each) for each in interactions]
        return _format_page(self.interactions, entries, page)

    async def get_interaction(self, exchange: Exchange) -> Json:
        """Return an interaction."""
        owner, memory = get_owner_and_memory(exchange)
        return self._format_interaction(await memory.interactions.get(owner, exchange.call.path))

    def _parse_turn(self, body: Json) -> Turn:
        """Parse the turn of an interaction. Raises BadRequest, also for an empty one."""
        parsed = validate(ObjectInfoBody if self.object_info else MemoryBody, body)
        texts = parsed.model_dump(exclude={"name", "additional_info"}, exclude_none=True)
        turn = Turn(**texts, additional_info=_encode_info(parsed.additional_info))
        length = sum(map(len, astuple(turn)))
        if not length:
            raise BadRequest(f"at least one of {TURN_FIELDS} must not be empty")
        if length > MAX_TURN_LENGTH:
            raise BadRequest(f"{TURN_FIELDS}: {MAX_TURN_LENGTH} characters at most, together")
        return turn

    def _format_conversation(self, entry: Conversation) -> Json:
        return {self.conversation_id: entry.id, "name": entry.name, "create_time": entry.created}

    def _format_interaction(self, entry: Interaction) -> Json:
        info: Any = entry.turn.additional_info
        return {
            self.interaction_id: entry.id,
            self.conversation_id: entry.conversation,
            "create_time": entry.created,
            **{name: getattr(entry.turn, name) for name in FIELDS},
            "additional_info": _decode_info(info) if self.object_info else info,
        }


V2_11 = MemoryApi(
    "conversation_id", "interaction_id", "conversations", "interactions", newest_first=True
)
V2_12 = MemoryApi("memory_id", "message_id", "memories", "messages", object_info=True)


async def rename_conversation(exchange: Exchange) -> Json:
    """Rename a conversation."""
    owner, memory = get_owner_and_memory(exchange)
    name = validate(MemoryBody, exchange.body).name
    if name is None:
        raise BadRequest("name: is required: nothing else can be changed")
    await memory.conversations.rename(owner, exchange.call.path, name)
    return _format_update("meta", exchange.call.path)


async def delete_conversation(exchange: Exchange) -> Json:
    """Delete a conversation with its interactions."""
    owner, memory = get_owner_and_memory(exchange)
    await memory.conversations.delete(owner, exchange.call.path)
    return {"success": True}


async def annotate_interaction(exchange: Exchange) -> Json:
    """Replace the additional information of an interaction."""
    owner, memory = get_owner_and_memory(exchange)
    info = validate(ObjectInfoBody, exchange.body).additional_info
    if info is None:
        raise BadRequest("additional_info: is required: nothing else can be changed")
    text = _encode_info(info)
    if len(text) > MAX_TURN_LENGTH:
        raise BadRequest(f"additional_info: must have {MAX_TURN_LENGTH} characters at most")
    await memory.interactions.annotate(owner, exchange.call.path, text)
    return _format_update("message", exchange.call.path)


def _parse_page(query: Mapping[str, str]) -> PageRequest:
    """Parse the query parameters of a list. Raises BadRequest."""
    for key in Paging.model_fields:
        if not re.fullmatch(r"-?[0-9]{1,20}", query.get(key, "0")):
            raise BadRequest(f"{key}: must be a whole number")
    paging = validate(Paging, query)
    return PageRequest(paging.next_token, paging.max_results)


def _encode_info(info: str | Mapping[str, Any] | None) -> str:
    """Return additional information as it is stored: an object as JSON, an empty one as ""."""
    if isinstance(info, str):
        return info
    if not info:
        return ""
    if not is_json_safe(info):
        raise BadRequest(f"additional_info: {NOT_JSON_SAFE}")
    text = json.dumps(info, ensure_ascii=False)
    if _count_containers(text) > MAX_CONTAINERS:
        raise BadRequest(f"additional_info: must have {MAX_CONTAINERS} lists and objects at most")
    return text


def _decode_info(text: str) -> Any:
    """Return the object that additional information was sent as; other text is unchanged."""
    if _count_containers(text) > MAX_CONTAINERS:
        return text
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return parsed if isinstance(parsed, dict) and is_json_safe(parsed) else text


def _count_containers(text: str) -> int:
    """Count the lists and objects of a JSON text, brackets in strings included."""
    return text.count("[") + text.count("{")


def _format_page(key: str, entries: Sequence[Json], page: PageRequest) -> Json:
    """Format a page of a list. Only a full one has the position of the next."""
    more = {"next_token": page.start + page.size} if len(entries) == page.size else {}
    return {key: list(entries), **more}


def _format_update(kind: str, document_id: str) -> Json:
    """Format the answer to a change, as OpenSearch does for a document."""
    return {"_index": f".plugins-ml-memory-{kind}", "_id": document_id, "result": "updated"}
