"""The filters around an answer, in their order: each takes a stream of events and returns one.

Spans are no filter: the flow starts them around searches and models.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TypeVar

from shared.chat.errors import DeadlineExceeded
from shared.chat.events import Events
from shared.chat.request import ChatRequest
from shared.chat.time_limit import TimeLimit
from shared.memory.chat_history import AnswerStore
from shared.rag import flow, followups
from shared.rag.flow import Rag
from shared.telemetry.access_log import AccessLog

T = TypeVar("T")


async def with_deadline(
    deadline: float, events: AsyncGenerator[T, None]
) -> AsyncGenerator[T, None]:
    """Yield the same events until `deadline`, in seconds of the event loop's clock.

    Raises DeadlineExceeded then. The limit is around each wait, not around the stream: the first
    event is read in another task than the rest, where a limit that spans a `yield` never fires.
    """
    with closing(TimeLimit(deadline)) as limit:
        async with aclosing(events):
            while True:
                try:
                    with limit:
                        event = await anext(events, None)
                except TimeoutError:
                    if not limit.expired:  # not this time limit
                        raise
                    raise DeadlineExceeded from None
                if event is None:
                    return
                yield event


@dataclass(frozen=True, slots=True)
class FilterContext:
    """The input of the filters for one request. Deadlines are times of the event loop's clock.

    `history` is where the answer is stored, `protocol_filters` are those of the
    request's protocol.
    """

    request: ChatRequest
    record: AccessLog
    deadline: float
    model_deadline: float
    history: AnswerStore | None = None
    protocol_filters: Sequence[Callable[[Events], Events]] = ()


def extract_followups(context: FilterContext, events: Events) -> Events:
    """Move follow-up questions out of the text, if the request has the option."""
    requested = context.request.overrides.suggest_followup_questions
    return followups.extract_followups(events) if requested else events


def end_model(context: FilterContext, events: Events) -> Events:
    """End the model's part at its deadline: before the request's, if the answer is stored."""
    return with_deadline(context.model_deadline, events)


def store_answer(context: FilterContext, events: Events) -> Events:
    """Store the answer in its conversation."""
    history = context.history
    return history.store_answer(context.request, events) if history else events


def apply_protocol_filters(context: FilterContext, events: Events) -> Events:
    """Apply the filters of the protocol."""
    for apply in context.protocol_filters:
        events = apply(events)
    return events


def end_request(context: FilterContext, events: Events) -> Events:
    """End the storing of an answer when the request's time is over."""
    return with_deadline(context.deadline, events) if context.history else events


def observe(context: FilterContext, events: Events) -> Events:
    """Record the fields of the log line."""
    return context.record.observe(events)


FILTERS: tuple[Callable[[FilterContext, Events], Events], ...] = (
    end_model,  # first, so that the others send what they hold back when the time is over
    extract_followups,  # before storing, so that the stored text has no marked questions
    store_answer,  # before a protocol's filters: the stored text is the same for all protocols
    apply_protocol_filters,  # such as OpenAI's citations by number
    end_request,  # around what can take time beside the model
    observe,  # last: the log records what is sent, when it is sent
)


def answer(rag: Rag, context: FilterContext) -> Events:
    """Answer a request as a stream, through all filters."""
    events = flow.answer(rag, context.request)
    for apply in FILTERS:
        events = apply(context, events)
    return events
