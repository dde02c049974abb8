"""Requests near enough to right ones, hundreds of them: never a 500, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.domain.overrides import Overrides
from shared.settings import read_settings
from tests.support.calls import call, read
from tests.support.fuzz import EXAMPLES, FUZZ, TIMEOUT, junk, words

messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": words}),
    max_size=3,
).map(lambda before: [*before, {"role": "user", "content": "What is included in Health Plus?"}])
right = {
    "temperature": st.floats(0, 2),
    "top": st.integers(1, 50),
    "seed": st.integers(0, 99),
    "retrieval_mode": st.sampled_from(["text", "vectors", "hybrid"]),
    "suggest_followup_questions": st.booleans(),
    "semantic_captions": st.booleans(),
    "use_whole_documents": st.booleans(),
    "include_category": words,
    "prompt_template": st.text(max_size=20),
    "minimum_search_score": st.floats(-1, 5),
}
overrides = st.fixed_dictionaries({}, optional=right)
bodies = st.fixed_dictionaries(
    {"messages": messages, "context": st.fixed_dictionaries({"overrides": overrides})},
    optional={"session_state": junk, "sessionState": junk, "stream": st.booleans()},
)
text_parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "output_text", "text"]), "text": words},
    optional={"annotations": junk, "refusal": st.none() | words},
)
image_part = {"type": "input_image", "image_url": "https://example.com/picture.png"}
user_contents = st.lists(text_parts | st.just(image_part), max_size=2)
PATHS: list[list[Any]] = [
    ["messages"],
    ["messages", 0],
    ["messages", 0, "role"],
    ["messages", 0, "content"],
    ["messages", -1, "content"],
    ["context"],
    ["context", "overrides"],
    ["stream"],
    ["session_state"],
    ["unknown"],
    *(["context", "overrides", name] for name in Overrides.model_fields),
]


PART_PATHS: list[list[Any]] = [
    ["input", 0, "type"],
    ["input", -1, "content", -1],
    ["input", -1, "content", -1, "type"],
    ["input", -1, "content", -1, "text"],
    ["input", -1, "content", -1, "image_url"],
]


def input_of(draw: st.DrawFn, messages: list[Any]) -> list[Any]:
    """The same messages as `input`, in parts; some of the user's have images."""
    return [
        {
            "role": message["role"],
            "content": [
                *(draw(user_contents) if message["role"] == "user" else ()),
                draw(text_parts) | {"text": message["content"]},
            ],
        }
        for message in messages
    ]


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A right body; in four of ten one value is replaced by junk, one in twenty is cut short."""
    body: Any = draw(bodies)
    chance = draw(st.randoms(use_true_random=True))  # hypothesis' own likes the first choice best
    has_input = chance.random() < 0.3
    if has_input:
        body["input"] = input_of(draw, body.pop("messages"))
    if chance.random() < 0.4:
        path = chance.choice(PATHS + PART_PATHS if has_input else PATHS)
        path = ["input" if has_input and step == "messages" else step for step in path]
        place = body
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = draw(junk)
    data = json.dumps(body).encode()
    return data[: chance.randrange(len(data))] if chance.random() < 0.05 else data


def test_hundreds_of_requests_near_the_right_ones_never_end_in_a_500() -> None:
    service = build(read_settings({"INDEX_FILE": "samples"}))
    statuses: Counter[int] = Counter()

    async def answered(route: str, data: bytes, kind: str) -> int:
        request = call(route, data, headers={"content-type": kind})
        async with asyncio.timeout(TIMEOUT):
            return (await read(await handle_call(service, request))).status

    @FUZZ
    @given(
        st.sampled_from(["/chat", "/chat/stream", "/ask"]),
        nearly_right(),
        st.sampled_from(["application/json"] * 19 + ["multipart/form-data; boundary=x"]),
    )
    def each(route: str, data: bytes, kind: str) -> None:
        status = asyncio.run(answered(route, data, kind))
        statuses[status] += 1

        assert status in (200, 400), (status, data)

    each()

    assert statuses.total() >= EXAMPLES
    assert statuses[200] >= statuses.total() / 3, statuses
    assert statuses[400] >= statuses.total() / 10, statuses
