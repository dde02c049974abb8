"""Copies of rated questions and answers, kept with the user's consent. They name nobody.

The id of a copy follows from that of its answer, so that later or concurrent feedback finds it,
also after a crash. The switch decides on new copies; earlier ones can be deleted without it.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from shared.domain.errors import BadRequest, Misconfigured, NotFound
from shared.http.call import JSON, Json, Reply
from shared.memory.copies import AnswerCopies, AnswerCopy
from shared.protocols import context_json
from shared.protocols.exchange import Exchange, Route
from shared.protocols.feedback.earlier_turns import read_earlier_turns
from shared.protocols.feedback.rating import RatedAnswer, parse_feedback
from shared.protocols.feedback.request import FeedbackFields
from shared.protocols.openapi.operation import Operation

COPY_STORED = "It is in the log and stored. `copy_id` is the id of the copy."
NO_COPIES = "this deployment keeps no copies of answers (FEEDBACK_COPIES)"

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class CopiesConfig:
    """Where the deployment keeps copies."""

    copies: AnswerCopies | None = None  # None: it has no store
    accepts_new: bool = False

    @property
    def open(self) -> AnswerCopies | None:
        """The store, if it takes new copies."""
        return self.copies if self.accepts_new else None

    async def delete(self, id: str) -> bool:
        """Delete a copy. Returns whether it existed. Raises ChatErrors."""
        if self.copies is None:
            return False
        try:
            return await self.copies.delete(id)
        except Misconfigured as error:
            if self.accepts_new:
                raise
            # The container was never made, or is deleted.
            log.warning("feedback: the store of copies cannot be used: %s", error.cause)
            return False


def describe_copies(exchange: Exchange) -> Json:
    """Describe whether copies are kept, and for how many days: None is no limit."""
    copies = exchange.app.config(CopiesConfig).open
    return {"copies": copies is not None, "copy_days": copies.days if copies else None}


async def describe_copy(exchange: Exchange, answer: RatedAnswer) -> Json:
    """Describe the copy of an answer: none if it has expired or was deleted. Raises ChatErrors.

    Its id alone can have deleted it, which leaves the consent in the feedback.
    """
    copies, id = exchange.app.config(CopiesConfig).open, copy_id(answer)
    consents = parse_feedback(answer.interaction).get("keep_copy") is True
    exists = consents and copies is not None and await copies.exists(id)
    return {"keep_copy": exists, "copy_id": id if exists else ""}


def copy_id(answer: RatedAnswer) -> str:
    """Return the id of the answer's copy: nobody guesses it, since both ids have random digits."""
    ids = f"{answer.owner}\0{answer.interaction.conversation}\0{answer.interaction.id}"
    return sha256(f"copy\0{ids}".encode()).hexdigest()[:32]


async def delete_earlier_copy(
    exchange: Exchange, answer: RatedAnswer | None, fields: FeedbackFields
) -> None:
    """Delete the copy of an answer whose feedback has no consent. Raises ChatErrors."""
    config = exchange.app.config(CopiesConfig)
    if answer is None or fields.keep_copy:
        return
    if config.accepts_new or parse_feedback(answer.interaction).get("keep_copy"):
        await config.delete(copy_id(answer))


def check_consent(exchange: Exchange, fields: FeedbackFields) -> None:
    """Raise BadRequest if a copy is wanted and none are kept."""
    if fields.keep_copy and exchange.app.config(CopiesConfig).open is None:
        raise BadRequest(NO_COPIES, field="keep_copy")


async def store_copy(
    exchange: Exchange, answer: RatedAnswer | None, fields: FeedbackFields
) -> str | None:
    """Store the copy of an answer whose feedback has consent. Returns its id. Raises ChatErrors."""
    copies = exchange.app.config(CopiesConfig).open
    if answer is None or not fields.keep_copy or copies is None:
        return None
    turn, id = answer.interaction.turn, copy_id(answer)
    await copies.put(
        AnswerCopy(
            id=id,
            day=datetime.now(UTC).date().isoformat(),
            question=turn.input,
            answer=turn.response,
            rating=fields.rating,
            reasons=tuple(fields.reasons),
            comment=fields.comment,
            earlier=await read_earlier_turns(answer),
        )
    )
    with suppress(NotFound):  # its conversation is deleted: the copy stays
        interactions = answer.memory.interactions
        newest = await interactions.get(answer.owner, answer.interaction.id)
        if not parse_feedback(newest).get("keep_copy"):  # withdrawn at the same time
            await copies.delete(id)
    return id


async def delete_copy(exchange: Exchange) -> Reply:
    """Delete a copy by its id, which nobody can guess. Raises ChatErrors."""
    id, config = exchange.call.path, exchange.app.config(CopiesConfig)
    if not re.fullmatch("[0-9a-f]{32}", id) or not await exchange.wait_for(config.delete(id)):
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
            errors=(404, 429),
            error=context_json.ERROR_SCHEMA,
        )
    },
    usage="DELETE /feedback/copies/{id}",
)
