"""Stores the answers of a page in the conversation that its requests name."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise

from shared.domain.errors import ChatError
from shared.domain.events import Context, Events
from shared.domain.request import ChatRequest
from shared.memory.base import PageRequest
from shared.memory.chat_history import ChatHistory, is_replaced, log_failure, mark_replaced
from shared.protocols.exchange import Exchange

MAX_REPLACED = 100  # turns that one edited question replaces


@dataclass(frozen=True, slots=True)
class PageHistory:
    """The conversation of a page that sends its messages with each question."""

    chat: ChatHistory
    replaces: bool  # whether a question was edited, or its answer is requested again

    async def with_history(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the stored turns, unless it has some or replaces them.

        Raises ChatErrors: NotFound if the conversation is missing, or another owner's.
        """
        if not self.replaces or self.chat.conversation is None:
            return await self.chat.with_history(request)
        await self.chat.memory.conversations.get(self.chat.owner, self.chat.conversation)
        return request

    async def store_answer(self, request: ChatRequest, events: Events) -> Events:
        """Pass on the events of an answer, and store it before the last one.

        The turns that it replaces are marked when a model has accepted the question.
        """
        async with aclosing(self.chat.store_answer(request, events)) as stored:
            async for event in stored:
                if isinstance(event, Context) and self.replaces:
                    await self._mark_replaced(request)
                yield event

    async def _mark_replaced(self, request: ChatRequest) -> None:
        """Mark the newest turns, down to the first that the page still has."""
        owner, conversation = self.chat.owner, self.chat.conversation
        if conversation is None:
            return
        texts = [message.content for message in request.history]
        kept = {*pairwise(texts)}  # each question with its answer, among others
        interactions = self.chat.memory.interactions
        try:
            page = PageRequest(0, MAX_REPLACED)
            for item in await interactions.list(owner, conversation, page):
                if (item.turn.input, item.turn.response) in kept:
                    return
                if not is_replaced(item.turn):
                    await interactions.annotate(owner, item.id, mark_replaced(item.turn))
        except ChatError as failure:
            log_failure(request.metadata.id, failure)


def find_history(exchange: Exchange, request: ChatRequest) -> PageHistory | None:
    """Return the conversation to store a chat in; None if it names none, or nothing is stored.

    Raises Unauthorized.
    """
    memory, state = exchange.app.memory, request.state
    if memory is None or state is None:
        return None
    owner = exchange.app.access.get_owner(exchange.call.headers)
    return PageHistory(ChatHistory(memory, owner, state.conversation, True), state.replaces)
