"""POST /feedback: whether an answer helped, as a line of the log. Nothing is stored."""

from __future__ import annotations

import logging
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel

from shared.http.body import read_body, require_object, validate
from shared.http.call import Reply
from shared.protocols import context_json
from shared.protocols.exchange import JSON, Exchange, Route

log = logging.getLogger("chat")


def _check_id(value: str) -> str:
    """Check an id that is logged: it can have no other characters."""
    if not re.fullmatch(r"[\w-]{1,64}", value, re.ASCII):
        raise ValueError("must be the x-request-id of an answer")
    return value


class _Fields(BaseModel, strict=True):
    request_id: Annotated[str, AfterValidator(_check_id)]
    rating: Literal["up", "down"]


async def feedback(exchange: Exchange) -> Reply:
    """Log the rating of an answer, named by its `x-request-id`. Raises ChatErrors."""
    call = exchange.call
    body = await read_body(call, exchange.app.limits, forms=False)
    fields = validate(_Fields, require_object(body.json))
    log.info("feedback id=%s request=%s rating=%s", call.id, fields.request_id, fields.rating)
    return Reply(204, JSON, b"", exchange.headers)


ROUTES = (
    Route(
        path="/feedback",
        methods=("POST",),
        handler=feedback,
        errors=context_json.ERRORS,
        usage='POST /feedback with a body such as {"request_id": "...", "rating": "up"}',
    ),
)
