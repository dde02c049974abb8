"""The order of the filters around an answer, and that none of them loses text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.chat.errors import ChatError, Unavailable
from shared.chat.events import Context, Delta, Events
from shared.chat.messages import Message
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest
from shared.protocols.openai.routes import add_notices
from shared.rag import filters
from shared.rag.citation_numbers import number_citations
from shared.rag.filters import FilterContext
from shared.telemetry.access_log import AccessLog
from tests.support.fakes import PLUS, play

REQUEST = ChatRequest((Message("user", "?"),), Overrides(suggest_followup_questions=True))
PROTOCOL_FILTERS = (number_citations, partial(add_notices, {}))
FILTERS: Sequence[Callable[[FilterContext, Events], Events]] = (
    *filters.FILTERS,
    *(lambda _, events, apply=each: apply(events) for each in PROTOCOL_FILTERS),
)


async def text_until_failure(
    apply: Callable[[FilterContext, Events], Events], events: Events
) -> str:
    """The text that a filter yields until the stream fails."""
    text = []
    deadline = asyncio.get_running_loop().time() + 60
    record = AccessLog("1", "POST", "/chat")
    context = FilterContext(REQUEST, record, deadline, deadline, None, PROTOCOL_FILTERS)
    with pytest.raises((ChatError, RuntimeError)):
        async for event in apply(context, events):
            if isinstance(event, Delta):
                text.append(event.content)
    return "".join(text)


async def failing(pieces: Sequence[str], failure: Exception) -> Events:
    yield Context((PLUS,), (), "m")
    async for event in play([*map(Delta, pieces), failure]):
        yield event


@pytest.mark.parametrize("apply", FILTERS)
@given(
    st.lists(st.sampled_from(["a", "<", "<<", "- ", "1", ". ", "\n", " ", "[", "plans/", "?"])),
    st.sampled_from([Unavailable(), RuntimeError()]),
)
def test_filter_passes_all_of_the_text_on_before_a_failure(
    apply: Callable[[FilterContext, Events], Events], pieces: list[str], failure: Exception
) -> None:
    assert asyncio.run(text_until_failure(apply, failing(pieces, failure))) == "".join(pieces)
