"""POST /feedback: whether an answer helped, and why not, in the log. Nothing is stored."""

from __future__ import annotations

import logging
import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator

from shared.http.body import read_body, require_object, validate
from shared.http.call import JSON, Reply
from shared.protocols import context_json
from shared.protocols.exchange import Exchange, Route
from shared.protocols.openapi.operation import WITH_BODY, Operation

ID = "[A-Za-z0-9_-]{1,64}"
Reason = Literal["incorrect", "incomplete", "irrelevant", "unsupported"]

log = logging.getLogger("chat")


def _check_id(value: str) -> str:
    """Check an id that is logged: it can have no other characters."""
    if not re.fullmatch(ID, value):
        raise ValueError("must be the x-request-id of an answer")
    return value


class _FeedbackFields(BaseModel, strict=True):
    request_id: Annotated[
        str,
        AfterValidator(_check_id),
        Field(
            description="The `x-request-id` of the answer.",
            json_schema_extra={"pattern": f"^{ID}$"},
        ),
    ]
    rating: Literal["up", "down"]
    reasons: Annotated[
        list[Reason],
        Field(
            max_length=len(get_args(Reason)),
            description="What was wrong; `unsupported`: the passages do not say it.",
        ),
    ] = []

    @field_validator("reasons")
    @classmethod
    def _check_reasons(cls, value: list[Reason], info: ValidationInfo) -> list[Reason]:
        if value and info.data.get("rating") == "up":
            raise ValueError("are for the rating down")
        return list(dict.fromkeys(value))


async def feedback(exchange: Exchange) -> Reply:
    """Log the rating of an answer, named by its `x-request-id`, and its reasons.

    Each reason has a line, so that a query counts them. Raises ChatErrors.
    """
    call = exchange.call
    body = await read_body(call, exchange.app.limits, forms=False)
    fields = validate(_FeedbackFields, require_object(body.json))
    log.info("feedback id=%s request=%s rating=%s", call.id, fields.request_id, fields.rating)
    for reason in fields.reasons:
        log.info("feedback reason=%s request=%s", reason, fields.request_id)
    return Reply(204, JSON, b"", exchange.headers)


ROUTES = (
    Route(
        path="/feedback",
        methods=("POST",),
        handler=feedback,
        errors=context_json.ERRORS,
        operations={
            "POST": Operation(
                tag="App",
                summary="Say whether an answer helped",
                request=_FeedbackFields,
                statuses={204: "It is in the log."},
                media_types=(),
                errors=WITH_BODY,
                error=context_json.ERROR_SCHEMA,
            )
        },
        usage='POST /feedback with a body such as {"request_id": "...", "rating": "up"}',
    ),
)
