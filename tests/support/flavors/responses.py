"""The Responses API, as a provider has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tests.support.responses_upstream import (
    ResponsesUpstream,
    call_events,
    completed,
    event,
    text_delta,
)
from tests.support.upstream import WORDS, Step, stream_response

RESPONSES_FLAVOR = "responses"
PATH = "/v1/responses"
HEALTH_PATH = "/v1/models"


class Server(ResponsesUpstream):
    """The Responses API."""

    texts = ("Remote ", "[a.md].")


def _arguments(_: int) -> bytes:
    kind = "response.function_call_arguments.delta"
    return event(kind, output_index=0, item_id="fc_c", delta=WORDS)


ENDLESS: Mapping[str, Callable[[int], bytes]] = {
    "text": lambda _: text_delta(WORDS),
    "arguments": _arguments,
}
"""By what has no end: the event of a number."""


def end(events: Iterable[bytes]) -> list[Step]:
    """A stream of these events that ends as an answer does."""
    return stream_response([call_events(0, "c", "f")[0], *events, completed()])
