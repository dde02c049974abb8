"""AOG's chat service with bodies near enough to right ones, to every flavor: never a 500."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.settings import read_settings as read_settings
from tests.support.aog_calls import aog_call
from tests.support.calls import PNG, PNG_URL, WEATHER, close_models, read
from tests.support.flavors.aog import AOG_FLAVOR
from tests.support.flavors.ollama import OLLAMA_FLAVOR
from tests.support.fuzz import EXAMPLES, FUZZ, TIMEOUT, junk, nearly_right, words
from tests.support.model_requests import SHIRT_CONVERSATION
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways

parts = st.one_of(
    words,
    words.map(lambda text: {"type": "text", "text": text}),
    words.map(lambda text: {"type": "text", "text": {"value": text, "annotations": ["a"]}}),
    st.just({"type": "image", "image": PNG}),
    st.just({"type": "image_url", "image_url": {"url": PNG_URL}}),
)
contents = st.one_of(words, parts, st.lists(parts, min_size=1, max_size=3))
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": contents},
    optional={"name": words, "images": st.just([PNG])},
)
messages = st.lists(st.one_of(message, st.sampled_from(SHIRT_CONVERSATION)), max_size=4).map(
    lambda around: [*around, {"role": "user", "content": "Hello?"}, *around[:1]]
)
bodies = st.fixed_dictionaries(
    {"messages": messages},
    optional={
        "stream": st.booleans(),
        "retrieval": st.booleans(),
        "model": st.just("m") | st.just({"chat": "m"}),
        "hybrid_policy": st.sampled_from(["default", "always_local", "always_remote"]),
        "remote_service_provider": st.sampled_from(["openai", "aog"]),
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "seed": st.integers(0, 99),
        "max_tokens": st.integers(1, 99),
        "stop": words | st.lists(words, max_size=3),
        "keep_alive": st.just("5m") | st.integers(0, 9),
        "tools": st.just([WEATHER]),
        "unheard_of": junk,
    },
)


def test_hundreds_of_requests_near_the_right_ones_never_end_in_a_500() -> None:
    statuses: Counter[int] = Counter()

    async def answered(data: bytes) -> int:
        service = build(read_settings(providers))
        try:
            async with asyncio.timeout(TIMEOUT):
                return (await read(await handle_call(service, aog_call(data)))).status
        finally:
            await close_models(service)

    @FUZZ
    @given(nearly_right(bodies))
    def each(data: bytes) -> None:
        status = asyncio.run(answered(data))
        statuses[status] += 1

        assert status in (200, 400, 403, 404), (status, data)

    with run_gateways(OLLAMA_FLAVOR, "openai", AOG_FLAVOR) as (local, first, second):
        providers = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local),
            provider_entry("openai", first, **REMOTE),
            provider_entry(AOG_FLAVOR, second, **REMOTE),
        )
        each()

    assert statuses.total() >= EXAMPLES
    assert statuses[200] >= statuses.total() / 3, statuses
    assert statuses[400] >= statuses.total() / 10, statuses
