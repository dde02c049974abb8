"""A chat that continues a stored conversation: its history, and a filter that stores an answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

from shared.chat.errors import ChatError
from shared.chat.events import Context, Delta, Done, Events
from shared.chat.messages import Message
from shared.chat.request import ChatRequest
from shared.memory.base import Interaction, Memory, PageRequest, TooManyConversations, Turn

MAX_TURNS = 10  # of a conversation, the newest: OpenSearch's own default
EMPTY_ANSWER = "The answer is empty: it was not stored."
MAX_NAME_LENGTH = 100  # characters of the question that a new conversation is named by
ORIGIN = "chat"
NOT_CREATED = "The conversation could not be begun: the answer was not stored."
NOT_STORED = "The answer could not be stored in the conversation."

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class ChatHistory:
    """Where one chat is kept: whose it is, and which conversation, None for one to begin.

    A chat that `streams` has told its conversation's id before the answer, any other at its end.
    """

    memory: Memory
    owner: str
    conversation: str | None
    streams: bool

    async def with_history(self, asked: ChatRequest) -> ChatRequest:
        """The request with what was said before, where it brings no history of its own.

        Raises ChatErrors: NotFound where the conversation is missing, or another's.
        """
        if self.conversation is None:
            return asked
        if len([message for message in asked.messages if message.role != "system"]) > 1:
            await self.memory.conversations.get(self.owner, self.conversation)
            return asked
        interactions, page = self.memory.interactions, PageRequest(0, MAX_TURNS)
        newest = await interactions.list(self.owner, self.conversation, page)
        return replace(asked, messages=(*to_messages(newest[::-1]), *asked.messages))

    async def store_answer(self, asked: ChatRequest, events: Events) -> Events:
        """The same events; the answer is stored before its last one.

        A memory that fails costs no answer: a warning in the last event says so.
        """
        context, parts = Context((), (), ""), []
        async with aclosing(events):
            async for event in events:
                match event:
                    case Context():
                        event = context = (
                            await self._create_conversation(asked, event) if self.streams else event
                        )
                    case Delta(content):
                        parts.append(content)
                    case Done():
                        text = "".join(parts)
                        if not self.streams and text.strip():
                            context = await self._create_conversation(asked, context)
                        warnings = (*event.warnings, *await self._store(asked, context, text))
                        conversation = context.conversation
                        event = replace(event, conversation=conversation, warnings=warnings)
                yield event

    async def _create_conversation(self, asked: ChatRequest, context: Context) -> Context:
        """The context with the id of a new conversation, where one was to begin and could."""
        if self.conversation is not None:
            return context
        name = replace_surrogates(asked.question[:MAX_NAME_LENGTH])
        try:
            made = await self.memory.conversations.create(self.owner, name)
        except ChatError as failure:
            _log_failure(asked.metadata.id, failure)
            return replace(context, not_stored_reason=_not_stored_reason(failure))
        return replace(context, conversation=made.id)

    async def _store(self, asked: ChatRequest, context: Context, text: str) -> tuple[str, ...]:
        """Store the answer; what there is to warn of."""
        conversation = self.conversation or context.conversation
        if conversation is None:
            return (context.not_stored_reason if text.strip() else EMPTY_ANSWER,)
        said = _make_turn(asked, context, text)
        _, warning = await store_turn(
            self.memory, self.owner, conversation, said, asked.metadata.id
        )
        return (warning,) if warning else ()


async def store_turn(
    memory: Memory, owner: str, conversation: str, said: Turn, request: str
) -> tuple[str | None, str | None]:
    """Store an answer; its id, or else a sentence that says why it has none.

    A memory that fails costs no answer: the log has the cause, by the id of the `request`.
    """
    if not said.response.strip():
        return None, EMPTY_ANSWER
    try:
        clean = replace(said, response=replace_surrogates(said.response))
        return (await memory.interactions.add(owner, conversation, clean)).id, None
    except ChatError as failure:
        _log_failure(request, failure)
        return None, NOT_STORED


def to_messages(interactions: Iterable[Interaction]) -> tuple[Message, ...]:
    """What was asked and answered, as the messages of a chat: half of that is no turn."""
    said = (
        (Message("user", each.turn.input), Message("assistant", each.turn.response))
        for each in interactions
        if each.turn.input.strip() and each.turn.response.strip()
    )
    return tuple(message for turn in said for message in turn)


def _not_stored_reason(failure: ChatError) -> str:
    full = isinstance(failure, TooManyConversations)
    return f"{failure.message} The answer was not stored." if full else NOT_CREATED


def _make_turn(asked: ChatRequest, context: Context, text: str) -> Turn:
    lines = [source.prompt_line(context.captions) for source in context.sources]
    told = json.dumps(lines, ensure_ascii=False)
    return Turn(asked.question, context.instructions, text, ORIGIN, told)


def replace_surrogates(text: str) -> str:
    """What a store can hold of a text: a model may cut a character into lone surrogates."""
    return text.encode(errors="replace").decode()


def _log_failure(request: str, failure: ChatError) -> None:
    name, cause = type(failure).__name__, failure.cause or ""
    log.warning("request id=%s memory: not stored: %s: %s", request, name, cause)
