"""Adds the history of a stored conversation to a chat, and stores its answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from shared.domain.errors import ChatError, NotFound
from shared.domain.events import Context, Delta, Done, Events
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.memory.base import Interaction, LimitReached, Memory, PageRequest, Turn

MAX_TURNS = 10  # the newest of a conversation; OpenSearch's default
EMPTY_ANSWER = "The answer is empty: it was not stored."
MAX_NAME_LENGTH = 100  # characters of the question that become the name of a conversation
ORIGIN = "chat"
REPLACED = "replaced"  # the mark of a turn whose question was edited or repeated
NOT_CREATED = "The conversation could not be begun: the answer was not stored."
NOT_STORED = "The answer could not be stored in the conversation."

log = logging.getLogger("chat")


class AnswerStore(Protocol):
    """Where the answer of one request is stored."""

    def store_answer(self, request: ChatRequest, events: Events) -> Events:
        """Pass on the events of an answer, and store it before the last one.

        If the store fails, the last event has a warning.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatHistory:
    """The conversation of one chat request."""

    memory: Memory
    owner: str
    conversation: str | None  # None creates one
    streams: bool  # whether the id of a new conversation comes before the answer, or behind it

    async def with_history(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the history of its conversation, unless it brings its own.

        Raises ChatErrors: NotFound if the conversation is missing, or another owner's.
        """
        if self.conversation is None:
            return request
        if has_own_history(request):
            await self.memory.conversations.get(self.owner, self.conversation)
            return request
        interactions, page = self.memory.interactions, PageRequest(0, MAX_TURNS)
        newest = await interactions.list(self.owner, self.conversation, page)
        return replace(request, messages=(*to_messages(newest[::-1]), *request.messages))

    async def store_answer(self, request: ChatRequest, events: Events) -> Events:
        """Pass on the events of an answer, and store it before the last one.

        If the store fails, the last event has a warning.
        """
        context, parts = Context((), (), ""), []
        async with aclosing(events):
            async for event in events:
                match event:
                    case Context():
                        if self.streams:
                            event = await self._create_conversation(request, event)
                        context = event
                    case Delta(content):
                        parts.append(content)
                    case Done():
                        text = "".join(parts)
                        if not self.streams and text.strip():
                            context = await self._create_conversation(request, context)
                        warnings = (*event.warnings, *await self._store(request, context, text))
                        conversation = context.conversation
                        event = replace(event, conversation=conversation, warnings=warnings)
                yield event

    async def _create_conversation(self, request: ChatRequest, context: Context) -> Context:
        """Return the context with the id of a new conversation, or why there is none."""
        if self.conversation is not None:
            return context
        try:
            conversation = await create_conversation(self.memory, self.owner, request)
        except ChatError as failure:
            log_failure(request.metadata.id, failure)
            return replace(context, not_stored_reason=not_stored_reason(failure, NOT_CREATED))
        return replace(context, conversation=conversation)

    async def _store(self, request: ChatRequest, context: Context, text: str) -> tuple[str, ...]:
        """Store the answer. Returns the warnings."""
        conversation = self.conversation or context.conversation
        if conversation is None:
            return (context.not_stored_reason if text.strip() else EMPTY_ANSWER,)
        turn = make_turn(request, context, text)
        _, warning = await store_turn(self.memory, self.owner, conversation, turn)
        return (warning,) if warning else ()


def has_own_history(request: ChatRequest) -> bool:
    """Return whether a request has messages before its question; instructions are none."""
    return sum(message.role != "system" for message in request.messages) > 1


async def create_conversation(memory: Memory, owner: str, request: ChatRequest) -> str:
    """Create a conversation, named by the question of a request. Returns its id.

    Raises ChatErrors.
    """
    name = make_conversation_name(request.question)
    return (await memory.conversations.create(owner, name)).id


def make_conversation_name(question: str) -> str:
    """Return the name of a conversation that begins with a question."""
    return replace_surrogates(question[:MAX_NAME_LENGTH])


async def delete_turn(memory: Memory, owner: str, interaction: Interaction) -> None:
    """Delete a turn, its conversation with its last one, and its question as the name of that.

    If it fails, it can be repeated. Raises ChatErrors: NotFound if the turn is missing.
    """
    names = {make_conversation_name(interaction.turn.input)}
    if await _rename(memory, owner, interaction, names):
        await memory.interactions.delete(owner, interaction.id)
        with suppress(NotFound):  # other turns may be deleted at the same time
            await _rename(memory, owner, interaction, names)


async def _rename(memory: Memory, owner: str, deleted: Interaction, names: set[str]) -> bool:
    """Give a conversation that has one of `names` that of its first turn but the deleted one.

    `names` gets the new one, whose turn may be deleted meanwhile. Returns False if there is no
    other turn: then the conversation is deleted.
    """
    id, oldest = deleted.conversation, PageRequest(0, 2)
    while True:
        turns = await memory.interactions.list(owner, id, oldest, newest_first=False)
        others = [each for each in turns if each.id != deleted.id]
        if not others:
            await memory.conversations.delete(owner, id)
            return False
        name = make_conversation_name(others[0].turn.input)
        if (await memory.conversations.get(owner, id)).name not in names - {name}:
            return True
        await memory.conversations.rename(owner, id, name)
        names.add(name)


async def store_turn(
    memory: Memory, owner: str, conversation: str, turn: Turn
) -> tuple[str | None, str | None]:
    """Store a turn. Returns the id of the interaction, or a warning.

    If the store fails, the cause is logged with the id of the request.
    """
    if not turn.response.strip():
        return None, EMPTY_ANSWER
    try:
        turn = replace(turn, response=replace_surrogates(turn.response))
        return (await memory.interactions.add(owner, conversation, turn)).id, None
    except ChatError as failure:
        log_failure(turn.request, failure)
        return None, not_stored_reason(failure)


def to_messages(interactions: Iterable[Interaction]) -> tuple[Message, ...]:
    """Convert interactions to the messages of a chat.

    Those that lack one side, or that a client has replaced by another turn, are left out.
    """
    turns = (item.turn for item in interactions)
    return tuple(
        message
        for turn in turns
        if turn.input.strip() and turn.response.strip() and not is_replaced(turn)
        for message in (Message("user", turn.input), Message("assistant", turn.response))
    )


def is_replaced(turn: Turn) -> bool:
    """Return whether the additional information says that another turn replaces this one."""
    info = turn.additional_info
    if not info.startswith("{"):
        return info == REPLACED
    try:
        return bool(json.loads(info).get(REPLACED))
    except (ValueError, RecursionError):
        return False  # of another client


def mark_replaced(turn: Turn) -> str:
    """Return the additional information of a turn with the mark that another one replaces it."""
    try:
        value = json.loads(turn.additional_info)
    except (ValueError, RecursionError):
        value = None  # of another client
    details = value if isinstance(value, dict) else {"sources": value or []}
    return json.dumps({**details, REPLACED: True}, ensure_ascii=False)


def not_stored_reason(failure: ChatError, reason: str = NOT_STORED) -> str:
    """Return the warning for a failure of the store: `reason`, or what the owner can do."""
    full = isinstance(failure, LimitReached)
    return f"{failure.message} The answer was not stored." if full else reason


def make_turn(request: ChatRequest, context: Context, text: str) -> Turn:
    """Return the turn of a question and its answer. Images are counted, not stored."""
    info: object = [source.prompt_line(context.captions) for source in context.sources]
    if images := len(request.messages[-1].images):
        info = {"sources": info, "images": images}
    details = json.dumps(info, ensure_ascii=False)
    return Turn(
        request.question, context.instructions, text, ORIGIN, details, request=request.metadata.id
    )


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which stores reject: a model may cut a character in two."""
    return text.encode(errors="replace").decode()


def log_failure(request: str, failure: ChatError) -> None:
    """Log why an answer was not stored, with the id of its request."""
    name, cause = type(failure).__name__, failure.cause or ""
    log.warning("request id=%s memory: not stored: %s: %s", request, name, cause)
