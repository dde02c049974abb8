"""POST /feedback: whether an answer helped, and why not: in the log, and with the stored answer."""

from __future__ import annotations

import logging

from shared.http.body import read_body, require_object, validate
from shared.http.call import JSON, Reply
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Route
from shared.protocols.feedback.conversation import CONVERSATION_ROUTE
from shared.protocols.feedback.copies import (
    COPY_ROUTE,
    COPY_STORED,
    check_consent,
    delete_earlier_copy,
    describe_copies,
    store_copy,
)
from shared.protocols.feedback.rating import find_answer, store_feedback, stores_comments
from shared.protocols.feedback.request import FeedbackFields
from shared.protocols.openapi.operation import WITH_BODY, Operation

log = logging.getLogger("chat")


async def feedback(exchange: Exchange) -> Reply:
    """Take the feedback on an answer, or say what is kept of it. Raises ChatErrors."""
    if exchange.call.method in READ:
        return exchange.json_reply(
            {"comments": stores_comments(exchange), **describe_copies(exchange)}
        )
    body = await read_body(exchange.call, exchange.app.limits, forms=False)
    fields = validate(FeedbackFields, require_object(body.json))
    check_consent(exchange, fields)
    log_feedback(exchange, fields)
    reply = Reply(204, JSON, b"", exchange.headers)
    answer = await exchange.wait_for(find_answer(exchange, fields))
    # First: a failure leaves the stored consent, and the client repeats the request.
    await exchange.wait_for(delete_earlier_copy(exchange, answer, fields))
    await exchange.wait_for(store_feedback(answer, fields))
    # Again: consent that was sent at the same time may have stored one meanwhile.
    await exchange.wait_for(delete_earlier_copy(exchange, answer, fields))
    if copy := await exchange.wait_for(store_copy(exchange, answer, fields)):
        reply = exchange.json_reply({"copy_id": copy})
    return reply


def log_feedback(exchange: Exchange, fields: FeedbackFields) -> None:
    """Log the rating of an answer, named by its `x-request-id`, and its reasons.

    Each reason has a line, so that a query counts them. A comment is not logged.
    """
    id, request = exchange.call.id, fields.request_id
    log.info("feedback id=%s request=%s rating=%s", id, request, fields.rating)
    for reason in fields.reasons:
        log.info("feedback reason=%s request=%s", reason, request)


ROUTES = (
    Route(
        path="/feedback",
        methods=(*READ, "POST"),
        handler=feedback,
        errors=context_json.ERRORS,
        operations={
            "GET": Operation(
                tag="App",
                summary="Say what is kept of feedback",
                description="`comments`: whether they are stored.",
                error=context_json.ERROR_SCHEMA,
            ),
            "POST": Operation(
                tag="App",
                summary="Say whether an answer helped",
                request=FeedbackFields,
                statuses={
                    200: COPY_STORED,
                    204: "It is in the log, and stored if the answer is.",
                },
                errors=(*WITH_BODY, 404, 429),
                error=context_json.ERROR_SCHEMA,
            ),
        },
        usage='POST /feedback with a body such as {"request_id": "...", "rating": "up"}',
    ),
    COPY_ROUTE,
    CONVERSATION_ROUTE,
)
