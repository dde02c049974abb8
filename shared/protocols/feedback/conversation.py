"""The feedback on the answers of a stored conversation, which its owner reads back."""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationError

from shared.domain.errors import BadRequest
from shared.http.body import validate
from shared.http.call import Json, Reply
from shared.memory.base import PageRequest
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Route
from shared.protocols.feedback.copies import describe_copy
from shared.protocols.feedback.rating import NO_STORE, RatedAnswer, parse_feedback
from shared.protocols.feedback.request import FeedbackFields, is_answer_id
from shared.protocols.openapi.operation import Operation

PAGE_SIZE = 100  # turns


class FeedbackPaging(BaseModel):
    """The query parameters of the list."""

    start: str = Field(
        default="0",
        pattern="^[0-9]{1,9}$",
        description="The turn to start with: `next` of the page before.",
    )


async def list_feedback(exchange: Exchange) -> Reply:
    """Describe the answers of a conversation that can be rated, the oldest first.

    Raises ChatErrors.
    """
    memory, start = exchange.app.memory, validate(FeedbackPaging, exchange.call.query).start
    if memory is None:
        raise BadRequest(NO_STORE)
    owner = exchange.app.access.get_owner(exchange.call.headers)
    page = PageRequest(int(start), PAGE_SIZE)
    listing = memory.interactions.list(owner, exchange.call.path, page, newest_first=False)
    turns = [RatedAnswer(memory, owner, each) for each in await exchange.wait_for(listing)]
    answers = [
        await exchange.wait_for(_describe(exchange, each))
        for each in turns
        if is_answer_id(each.interaction.turn.request)
    ]
    more = {"next": page.start + page.size} if len(turns) == page.size else {}
    return exchange.json_reply({"answers": answers, **more})


async def _describe(exchange: Exchange, answer: RatedAnswer) -> Json:
    """Describe an answer by its ids and its feedback. Raises ChatErrors."""
    return {
        "message_id": answer.interaction.id,
        "request_id": answer.interaction.turn.request,
        "feedback": await _describe_feedback(exchange, answer),
    }


async def _describe_feedback(exchange: Exchange, answer: RatedAnswer) -> Json | None:
    """Describe the feedback on an answer; None if there is none. Raises ChatErrors."""
    stored = {**parse_feedback(answer.interaction), "request_id": answer.interaction.turn.request}
    try:
        fields = FeedbackFields.model_validate(stored)
    except ValidationError:  # none, or of another version
        return None
    given = fields.model_dump(include={"rating", "reasons", "comment"})
    return {**given, **await describe_copy(exchange, answer)}


CONVERSATION_ROUTE = Route(
    path="/feedback/conversations/{id}",
    methods=READ,
    handler=list_feedback,
    errors=context_json.ERRORS,
    operations={
        "GET": Operation(
            tag="App",
            summary="List the answers of a stored conversation with their feedback",
            description="Those that can be rated, the oldest first: up to 100, and the position "
            "of the `next` ones.",
            query=FeedbackPaging.model_json_schema()["properties"],
            errors=(400, 404, 429),
            error=context_json.ERROR_SCHEMA,
        )
    },
    usage="GET /feedback/conversations/{id}",
)
