"""The order of the filters around an answer."""

from __future__ import annotations

import asyncio

import pytest

from shared.chat.errors import DeadlineExceeded
from shared.chat.events import Delta
from shared.chat.messages import Message
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest
from shared.rag import filters
from shared.rag.citation_numbers import number_citations
from shared.rag.filters import FilterContext
from shared.telemetry.access_log import AccessLog
from tests.support.fakes import FakeModel, engine


def test_the_filters_stand_in_this_order() -> None:
    names = [each.__name__ for each in filters.FILTERS]

    assert names == [
        "end_model",
        "extract_followups",
        "store_answer",
        "apply_protocol_filters",
        "end_request",
        "observe",
    ]


@pytest.mark.parametrize("text", ["The limit is x <", "The limit is in [doc"])
def test_text_that_a_filter_holds_back_is_sent_when_the_time_is_over(text: str) -> None:
    async def go() -> str:
        deadline = asyncio.get_running_loop().time() + 0.5
        overrides = Overrides(suggest_followup_questions=True)
        request = ChatRequest((Message("user", "What is it?"),), overrides)
        record = AccessLog("call-1", "POST", "/chat")
        protocol_filters = [number_citations]
        context = FilterContext(request, record, deadline, deadline, None, protocol_filters)
        model, sent = FakeModel([Delta(text), asyncio.Event()]), ""
        with pytest.raises(DeadlineExceeded):
            async for event in filters.answer(engine(model), context):
                sent += event.content if isinstance(event, Delta) else ""
        return sent

    assert asyncio.run(go()) == text
