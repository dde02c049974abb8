"""Stored responses: turns of the app's conversations, each with the one that it continues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.errors import ChatError, NotFound
from shared.domain.events import Answer, Context, Delta, Done, Events, collect
from shared.domain.messages import FileReference, Message, ToolCall
from shared.domain.request import ChatRequest
from shared.http.call import Json
from shared.memory.base import GeneratedId, Interaction, Memory, PageRequest
from shared.memory.chat_history import (
    MAX_TURNS,
    create_conversation,
    delete_turn,
    log_failure,
    make_turn,
    not_stored_reason,
    replace_surrogates,
)
from shared.protocols.exchange import Exchange
from shared.protocols.message_json import format_text, join_texts
from shared.protocols.openai.responses import response as responses
from shared.protocols.openai.responses.errors import (
    ItemNotFound,
    PreviousResponseNotFound,
    ResponseNotFound,
)
from shared.protocols.openai.responses.items import (
    Item,
    Reference,
    call_message,
    text_message,
)
from shared.protocols.openai.responses.request import ResponseState

ORIGIN = "responses"
PREFIX = "resp_"
PAGE = PageRequest(0, 50)  # the newest turns of a conversation, among which its parents are read
SEND_ITEMS = "Send the earlier items in input."
NO_MEMORY = (
    "this deployment stores no responses: MEMORY_FILE and AZURE_COSMOS_ENDPOINT are not set. "
    f"{SEND_ITEMS}"
)
NO_OWNER = f"responses are stored for signed-in users only. {SEND_ITEMS}"
UNKNOWN = (
    "there is no response with the id {id!r:.100}: it was not stored, or it has been deleted. "
    f"{SEND_ITEMS}"
)
MAX_DETAILS = 80_000  # characters: a larger item would hold up other requests on its way
TOO_LARGE = (
    f"The answer was not stored: with its input it has more than {MAX_DETAILS:,} characters."
)


@dataclass(frozen=True, slots=True)
class ResponseStore:
    """The responses of one owner in the app's memory."""

    memory: Memory
    owner: str

    async def get(self, id: str) -> Interaction:
        """Return the turn of a response. Raises ResponseNotFound."""
        try:
            interaction = await self.memory.interactions.get(self.owner, id.removeprefix(PREFIX))
        except NotFound:
            raise ResponseNotFound(id) from None
        turn = interaction.turn  # another protocol's client can name any origin, but no details
        if turn.origin != ORIGIN or not turn.details or not id.startswith(PREFIX):
            raise ResponseNotFound(id)
        return interaction

    async def delete(self, id: str) -> None:
        """Delete a response, and its conversation with the last turn. Raises ResponseNotFound."""
        interaction = await self.get(id)
        try:
            await delete_turn(self.memory, self.owner, interaction)
        except NotFound:
            raise ResponseNotFound(id) from None

    async def turns(self, last: Interaction) -> list[Interaction]:
        """Return the turns that lead to a response, and the response: the newest ones, in order."""
        interactions = self.memory.interactions
        page = await interactions.list(self.owner, last.conversation, PAGE)
        known, turns = {each.id: each for each in page}, [last]
        while (parent := turns[-1].turn.parent) and len(turns) < MAX_TURNS:
            try:
                turns.append(known.get(parent) or await interactions.get(self.owner, parent))
            except NotFound:  # it was deleted
                break
        return turns[::-1]

    async def resolve(
        self, reference: Reference, outputs: dict[str, Mapping[str, Json]]
    ) -> Message | None:
        """Return the message of a referenced item; None for that of a search.

        `outputs` are the items of the responses that have been read. Raises ItemNotFound.
        """
        id = PREFIX + reference.id.partition("_")[2].partition("_")[0]
        if id not in outputs:
            outputs[id] = await self._read_output(id)
        if reference.id not in outputs[id]:
            raise ItemNotFound(reference.id)
        return _item_message(outputs[id][reference.id])

    async def _read_output(self, id: str) -> Mapping[str, Json]:
        """Return the items of a response by their ids; none if there is no such response."""
        try:
            interaction = await self.get(id)
        except ResponseNotFound:
            return {}
        return {item["id"]: item for item in read_response(interaction)["output"]}


def find_store(exchange: Exchange) -> ResponseStore | None:
    """Return the store of the caller's responses; None without a memory or an owner."""
    app = exchange.app
    owner = app.access.find_owner(exchange.call.headers)
    return ResponseStore(app.memory, owner) if app.memory and owner else None


def require_store(exchange: Exchange) -> ResponseStore:
    """Return the store of the caller's responses. Raises ResponseNotFound."""
    if (store := find_store(exchange)) is None:
        raise ResponseNotFound(exchange.call.path)
    return store


async def load_previous(exchange: Exchange, id: str) -> tuple[Interaction, tuple[Message, ...]]:
    """Return the turn of a previous response, and the messages that lead to its end.

    Raises PreviousResponseNotFound.
    """
    if exchange.app.memory is None:
        raise PreviousResponseNotFound(NO_MEMORY)
    if (store := find_store(exchange)) is None:
        raise PreviousResponseNotFound(NO_OWNER)
    try:
        previous = await store.get(id)
        return previous, tuple(history(await store.turns(previous)))
    except NotFound:
        raise PreviousResponseNotFound(UNKNOWN.format(id=id)) from None


def read_response(interaction: Interaction) -> Json:
    """Return a response as it was."""
    value: Json = json.loads(interaction.turn.details)["response"]
    return value


def read_input(interaction: Interaction) -> Json:
    """Return the items of the input of a response: its question, as one message."""
    item = {
        "id": f"in_{interaction.id}",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": interaction.turn.input}],
    }
    ids = {"first_id": item["id"], "last_id": item["id"], "has_more": False}
    return {"object": "list", "data": [item], **ids}


def history(turns: Sequence[Interaction]) -> Iterator[Message]:
    """Yield the messages of turns: what each request sent, and its answer."""
    for interaction in turns:
        details = json.loads(interaction.turn.details)
        yield from map(_restore, details["messages"])
        for item in details["response"]["output"]:
            if message := _item_message(item):
                yield message


def _item_message(item: Mapping[str, Any]) -> Message | None:
    """Return the message of an output item; None for that of a search."""
    if item["type"] == "message":
        return text_message("assistant", item["content"][0]["text"])
    if item["type"] == "function_call":
        return call_message([ToolCall(0, item["call_id"], item["name"], item["arguments"])])
    return None


def _restore(raw: Mapping[str, Any]) -> Message:
    """Return the message of a request that was stored in the form of chat completions."""
    files = tuple(FileReference(id, "previous_response_id") for id in raw.get("files") or ())
    raw = {key: value for key, value in raw.items() if key != "files"}
    content = raw["content"]
    parts = [format_text(content)] if isinstance(content, str) else content or []
    calls = tuple(
        ToolCall(index, call["id"], call["function"]["name"], call["function"]["arguments"])
        for index, call in enumerate(raw.get("tool_calls") or ())
    )
    text = join_texts(parts)
    return Message(
        raw["role"],
        text,
        files=files,
        tool_calls=calls,
        tool_call_id=raw.get("tool_call_id"),
        raw=raw,
    )


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer of a request, which is stored."""

    store: ResponseStore
    new: GeneratedId  # of the answer
    messages: tuple[Message, ...]  # that the request itself sent, without instructions
    previous: Interaction | None = None  # that the answer continues

    async def store_answer(self, request: ChatRequest, events: Events) -> Events:
        """Pass on the events of an answer, and store it before the last one."""
        past: list[Context | Delta] = []
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Done):
                    answer = await collect(_replay([*past, event]))
                    if warning := await self._store(request, answer):
                        event = replace(event, warnings=(*event.warnings, warning))
                else:
                    past.append(event)
                yield event

    async def _store(self, request: ChatRequest, answer: Answer) -> str | None:
        """Store the answer. Returns a warning if that fails."""
        response = responses.write_answer(request, answer) | {"instructions": None, "tools": []}
        details = {"messages": [*map(_storable, self.messages)], "response": response}
        text = replace_surrogates(json.dumps(details, ensure_ascii=False))
        if len(text) > MAX_DETAILS:
            return TOO_LARGE
        turn = replace(
            make_turn(request, answer.context, replace_surrogates(answer.content)),
            origin=ORIGIN,
            parent=self.previous.id if self.previous else "",
            details=text,
        )
        memory, owner = self.store.memory, self.store.owner
        try:
            if self.previous is None:
                conversation = await create_conversation(memory, owner, request)
            else:
                conversation = self.previous.conversation
            await memory.interactions.add(owner, conversation, turn, self.new)
        except ChatError as failure:
            log_failure(request.metadata.id, failure)
            return not_stored_reason(failure)
        return None


def _storable(message: Message) -> Mapping[str, Any]:
    """Return a message in the form of chat completions, without its images."""
    raw = message.raw or {}
    if message.files:
        raw = {**raw, "files": [each.id for each in message.files]}
    return {**raw, "content": message.content} if message.images else raw


async def _replay(events: Sequence[Context | Delta | Done]) -> Events:
    for event in events:
        yield event


async def resolve_items(
    store: ResponseStore | None, items: Sequence[Item | Reference]
) -> tuple[Item, ...]:
    """Return the items with the messages of references. Raises ItemNotFound."""
    resolved: list[Item] = []
    outputs: dict[str, Mapping[str, Json]] = {}
    for item in items:
        if isinstance(item, Item):
            resolved.append(item)
        elif store is None:
            raise ItemNotFound(item.id)
        elif message := await store.resolve(item, outputs):
            resolved.append(Item(item.path, message))
    return tuple(resolved)


def with_id(request: ChatRequest, id: str, stored: bool) -> ChatRequest:
    """Return the request with the id of its response, and whether it is stored."""
    state: ResponseState = request.state
    return replace(request, state=replace(state, id=id, store=stored))
