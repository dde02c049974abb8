"""A chat that continues a stored conversation: its history, and a filter that stores an answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

from shared.chat import ChatRequest, Context, Delta, Done, Events, Message
from shared.errors import ChatError, DeadlineExceeded
from shared.memory import Interaction, Memory, Page, Said

TURNS = 10  # of a conversation, the newest: OpenSearch's own default
LONGEST_NAME = 100  # characters of the question that a new conversation is named by
ORIGIN = "chat"
NOT_BEGUN = "The conversation could not be begun: the answer was not stored."
NOT_STORED = "The answer could not be stored in the conversation."

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class Keeper:
    """Where one chat is kept: whose it is, and which conversation, None for one to begin.

    `seconds` is how long one call of the memory may take.
    """

    memory: Memory
    owner: str
    conversation: str | None
    seconds: float

    async def remembering(self, asked: ChatRequest) -> ChatRequest:
        """The request with what was said before, where it brings no history of its own.

        Raises ChatErrors: NotFound where the conversation is missing, or another's.
        """
        if self.conversation is None:
            return asked
        own = [message for message in asked.messages if message.role != "system"]
        try:
            async with asyncio.timeout(self.seconds):
                if len(own) > 1:
                    await self.memory.conversations.get(self.owner, self.conversation)
                    return asked
                newest = await self.memory.interactions.list(
                    self.owner, self.conversation, Page(0, TURNS)
                )
        except TimeoutError:
            raise DeadlineExceeded(cause="memory: no answer in time") from None
        return replace(asked, messages=(*turns(newest[::-1]), *asked.messages))

    async def kept(self, asked: ChatRequest, events: Events) -> Events:
        """The same events; the answer is stored before its last one.

        A memory that fails costs no answer: a warning in the last event says so.
        """
        conversation, context, text = self.conversation, Context((), (), ""), []
        async with aclosing(events):
            async for event in events:
                match event:
                    case Context():
                        context = event
                        if conversation is None:
                            conversation = await self._begun(asked)
                            event = replace(event, conversation=conversation)
                    case Delta(content):
                        text.append(content)
                    case Done():
                        said = _said(asked, context, "".join(text))
                        warning = await self._stored(asked, conversation, said)
                        event = replace(event, warnings=(*event.warnings, *warning))
                yield event

    async def _begun(self, asked: ChatRequest) -> str | None:
        """The id of a new conversation; None where it could not be begun."""
        name = whole(asked.question[:LONGEST_NAME])
        try:
            async with asyncio.timeout(self.seconds):
                return (await self.memory.conversations.create(self.owner, name)).id
        except (ChatError, TimeoutError) as failure:
            _log(asked, failure)
            return None

    async def _stored(
        self, asked: ChatRequest, conversation: str | None, said: Said
    ) -> tuple[str, ...]:
        """What there is to warn of."""
        if conversation is None:
            return (NOT_BEGUN,)
        if not said.response.strip():
            return ()
        try:
            async with asyncio.timeout(self.seconds):
                await self.memory.interactions.add(self.owner, conversation, said)
        except (ChatError, TimeoutError) as failure:
            _log(asked, failure)
            return (NOT_STORED,)
        return ()


def turns(interactions: Iterable[Interaction]) -> tuple[Message, ...]:
    """What was said, as the messages of a chat."""
    said = (
        (Message("user", each.said.input), Message("assistant", each.said.response))
        for each in interactions
    )
    return tuple(message for turn in said for message in turn)


def _said(asked: ChatRequest, context: Context, text: str) -> Said:
    lines = [source.line(context.captions) for source in context.sources]
    told = json.dumps(lines, ensure_ascii=False)
    return clean(Said(asked.question, context.instructions, text, ORIGIN, told))


def clean(said: Said) -> Said:
    """What a store can hold: a model may cut a character into lone surrogates."""
    return replace(said, response=whole(said.response))


def whole(text: str) -> str:
    """A text without halves of characters."""
    return text.encode(errors="replace").decode()


def _log(asked: ChatRequest, failure: Exception) -> None:
    cause = getattr(failure, "cause", None) or ""
    name = type(failure).__name__
    log.warning("request id=%s memory: not stored: %s: %s", asked.id, name, cause)
