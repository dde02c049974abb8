"""Stores feedback with its answer: only the answer's owner rates it, and deletes it with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shared.domain.errors import BadRequest, NotFound
from shared.memory.base import Interaction, LimitReached, Memory
from shared.protocols.exchange import Exchange
from shared.protocols.feedback.request import FeedbackFields

STORED_FIELDS = {"rating", "reasons", "comment", "keep_copy"}
NO_STORE = "This deployment stores no conversations, and so no comments: only ratings and reasons."


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """The stored answer that feedback is about, with its store."""

    memory: Memory
    owner: str
    interaction: Interaction


def stores_comments(exchange: Exchange) -> bool:
    """Return whether comments of this caller are stored. Raises BadRequest."""
    app, headers = exchange.app, exchange.call.headers
    return app.memory is not None and app.access.find_owner(headers) is not None


def parse_feedback(interaction: Interaction) -> dict[str, Any]:
    """Parse the stored feedback; empty if there is none."""
    try:
        value = json.loads(interaction.turn.feedback)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


async def find_answer(exchange: Exchange, fields: FeedbackFields) -> RatedAnswer | None:
    """Return the caller's stored answer, or None: a rating is logged without one.

    Raises BadRequest, Unauthorized, NotFound if the feedback is more than a rating.
    """
    app, headers = exchange.app, exchange.call.headers
    memory, owner = app.memory, app.access.find_owner(headers)
    if memory is None or owner is None:
        if fields.needs_store:
            if memory is None:
                raise BadRequest(NO_STORE)
            app.access.get_owner(headers)  # raises Unauthorized
        return None
    try:
        interaction = await memory.interactions.find(owner, fields.request_id)
    except NotFound:
        if fields.needs_store:
            raise
        return None
    return RatedAnswer(memory, owner, interaction)


async def store_feedback(answer: RatedAnswer | None, fields: FeedbackFields) -> None:
    """Store feedback with its answer, in place of the earlier one. Raises ChatErrors."""
    if answer is None:
        return
    text = json.dumps(fields.model_dump(include=STORED_FIELDS), ensure_ascii=False)
    try:
        await answer.memory.interactions.rate(answer.owner, answer.interaction.id, text)
    except (NotFound, LimitReached):  # deleted meanwhile; or the owner's store is full
        if fields.needs_store:
            raise
