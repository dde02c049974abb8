"""Requests of the AI SDK near enough to right ones, hundreds of them: never a 500."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.settings import read_settings
from tests.support.calls import PNG_URL, BufferedReply, call, read
from tests.support.fuzz import EXAMPLES, FUZZ, TIMEOUT, junk, nearly_right, words
from tests.support.servers import LAPTOP, SAMPLES

text_part = st.fixed_dictionaries(
    {"type": st.just("text"), "text": words}, optional={"state": st.just("done") | junk}
)
user_part = text_part | st.sampled_from(
    [
        {"type": "file", "mediaType": "image/png", "url": PNG_URL, "filename": "dot.png"},
        {"type": "file", "mediaType": "image", "url": "https://example.com/dot.png"},
    ]
)
ignored_part = st.fixed_dictionaries(
    {"type": st.sampled_from(["step-start", "reasoning", "source-url", "tool-f", "data-x"])},
    optional={"text": junk, "data": junk, "url": junk},
)
message = st.one_of(
    st.fixed_dictionaries(
        {"role": st.just("user"), "parts": st.lists(user_part, max_size=3)}, optional={"id": words}
    ),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "parts": st.lists(text_part | ignored_part, max_size=3),
        },
        optional={"metadata": junk},
    ),
)
question: Any = {"role": "user", "parts": [{"type": "text", "text": "What is in Health Plus?"}]}
overrides = junk | st.fixed_dictionaries(
    {}, optional={"top": st.integers(1, 50), "temperature": st.floats(0, 2), "seed": st.none()}
)
bodies = st.fixed_dictionaries(
    {"messages": st.lists(message, max_size=3).map(lambda before: [*before, question])},
    optional={"id": words, "trigger": junk, "messageId": junk, "overrides": overrides, "x": junk},
)


def test_hundreds_of_requests_near_the_right_ones_never_end_in_a_500() -> None:
    service = build(read_settings({**LAPTOP, **SAMPLES}))
    statuses: Counter[int] = Counter()

    async def answer(data: bytes) -> BufferedReply:
        async with asyncio.timeout(TIMEOUT):
            return await read(await handle_call(service, call("/api/chat", data)))

    @FUZZ
    @given(nearly_right(bodies))
    def each(data: bytes) -> None:
        reply = asyncio.run(answer(data))
        statuses[reply.status] += 1

        assert reply.status in (200, 400), (reply.status, data)
        if reply.status == 200:
            *events, last = reply.data.decode().removesuffix("\n\n").split("\n\n")
            kinds = [json.loads(event.removeprefix("data: "))["type"] for event in events]
            assert (kinds[0], kinds[-1], last) == ("start", "finish", "data: [DONE]"), data

    each()

    assert statuses.total() >= EXAMPLES
    assert statuses[200] >= statuses.total() / 3, statuses
    assert statuses[400] >= statuses.total() / 10, statuses
