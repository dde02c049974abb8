"""Feedback on an answer."""

from __future__ import annotations

from collections.abc import Iterator

from bench.requests.endpoint import Endpoint
from bench.schemas import schema_of
from shared.protocols.feedback.conversation import FeedbackPaging
from shared.protocols.feedback.request import FeedbackFields

OTHER_MODELS = (FeedbackPaging,)  # the parameters of a query


def list_endpoints() -> Iterator[Endpoint]:
    """The feedback on an answer."""
    yield Endpoint("/feedback", schema_of(FeedbackFields))
