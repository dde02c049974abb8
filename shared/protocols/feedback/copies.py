"""Copies of rated questions and answers, kept with the user's consent. They name nobody.

The stored answer remembers the id of its copy, so that feedback without consent deletes it. The id
is written before the copy, and removed after it: a crash leaves no copy without an id.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from shared.domain.errors import NotFound, Unsupported
from shared.http.call import JSON, Json, Reply
from shared.memory.copies import AnswerCopies, AnswerCopy
from shared.protocols import context_json
from shared.protocols.exchange import Exchange, Route
from shared.protocols.feedback.rating import StoredAnswer, find_answer
from shared.protocols.feedback.request import FeedbackFields
from shared.protocols.openapi.operation import Operation

NO_COPIES = "This deployment keeps no copies of answers (FEEDBACK_COPIES)."


@dataclass(frozen=True, slots=True)
class CopiesConfig:
    """Where the deployment keeps copies."""

    copies: AnswerCopies | None = None  # None: it keeps none


def describe_copies(exchange: Exchange) -> Json:
    """Describe whether copies are kept, and for how many days: None is no limit."""
    copies = exchange.app.config(CopiesConfig).copies
    return {"copies": copies is not None, "copy_days": copies.days if copies else None}


def _get_copies(exchange: Exchange) -> AnswerCopies:
    """Return the store of copies. Raises Unsupported."""
    copies = exchange.app.config(CopiesConfig).copies
    if copies is None:
        raise Unsupported(NO_COPIES)
    return copies


async def update_copy(exchange: Exchange, fields: FeedbackFields) -> str | None:
    """Store or delete the copy of a rated answer. Returns the id of the copy. Raises ChatErrors."""
    if not fields.keep_copy and exchange.app.config(CopiesConfig).copies is None:
        return None
    copies = _get_copies(exchange)
    answer = await find_answer(exchange, fields)
    if answer is None:
        return None
    if fields.keep_copy:
        return await _store_copy(copies, answer, fields)
    if id := answer.feedback.get("copy"):
        await copies.delete(id)
        await answer.rate({**answer.feedback, "copy": ""})
    return None


async def _store_copy(copies: AnswerCopies, answer: StoredAnswer, fields: FeedbackFields) -> str:
    id, turn = answer.feedback.get("copy") or secrets.token_hex(16), answer.interaction.turn
    await answer.rate({**answer.feedback, "copy": id})
    await copies.put(
        AnswerCopy(
            id=id,
            day=datetime.now(UTC).date().isoformat(),
            question=turn.input,
            answer=turn.response,
            rating=fields.rating,
            reasons=tuple(fields.reasons),
            comment=fields.comment,
        )
    )
    return id


async def delete_copy(exchange: Exchange) -> Reply:
    """Delete a copy by its id, which only its user has seen. Raises ChatErrors."""
    id, copies = exchange.call.path, _get_copies(exchange)
    if not re.fullmatch("[0-9a-f]{32}", id) or not await exchange.wait_for(copies.delete(id)):
        raise NotFound("There is no copy of an answer with this id.")
    return Reply(204, JSON, b"", exchange.headers)


COPY_ROUTE = Route(
    path="/feedback/copies/{id}",
    methods=("DELETE",),
    handler=delete_copy,
    errors=context_json.ERRORS,
    operations={
        "DELETE": Operation(
            tag="App",
            summary="Delete the copy of an answer",
            description="POST /feedback has returned its id.",
            statuses={204: "It is deleted."},
            media_types=(),
            errors=(404, 429, 501),
            error=context_json.ERROR_SCHEMA,
        )
    },
    usage="DELETE /feedback/copies/{id}",
)
