"""Chat completions with bodies near enough to right ones: never a 500."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.protocols.openai.data_sources import SEARCHES, SearchScope
from shared.settings import read_settings as read_settings
from tests.support.calls import PNG_URL, WEATHER, ask, call, close_models, local_service, read
from tests.support.fakes import make_rag
from tests.support.flavors import FLAVORS
from tests.support.fuzz import EXAMPLES, FUZZ, TIMEOUT, junk, nearly_right, words
from tests.support.providers import provider_entry, provider_settings, run_gateways
from tests.support.servers import LAPTOP

ENDPOINT = "https://mine.search.windows.net"
parts = st.one_of(
    words.map(lambda text: {"type": "text", "text": text}),
    st.just({"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}),
)
called = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
message = st.one_of(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "developer", "user", "assistant"]),
            "content": words | st.lists(parts, min_size=1, max_size=3),
        },
        optional={"name": words, "images": junk},
    ),
    st.just({"role": "assistant", "content": None, "tool_calls": [called]}),
    st.just({"role": "tool", "tool_call_id": "1", "content": "found"}),
)
messages = st.lists(message, max_size=4).map(
    lambda before: [*before, {"role": "user", "content": "Hello?"}]
)
bodies = st.fixed_dictionaries(
    {"messages": messages},
    optional={
        "model": st.sampled_from([*FLAVORS, None]),
        "stream": st.booleans() | st.none(),
        "stream_options": st.just({"include_usage": True}) | st.none(),
        "temperature": st.floats(0, 2) | st.none(),
        "top_p": st.floats(0, 1) | st.none(),
        "max_tokens": st.integers(1, 99) | st.none(),
        "stop": words | st.lists(words, max_size=3) | st.none(),
        "seed": st.integers(0, 99),
        "tools": st.just([WEATHER]) | st.none(),
        "tool_choice": st.sampled_from(["auto", "none", None]) | junk,
        "response_format": st.just({"type": "json_object"}) | junk,
        "n": st.just(1) | st.none(),
        "user": words,
        "unheard_of": junk,
    },
)


conditions = st.sampled_from(["category eq 'a'", "x) or (true", "a eq 'b", " ", "tags/any()"])
parameters = st.fixed_dictionaries(
    {"endpoint": st.just(ENDPOINT), "index_name": st.just("docs")},
    optional={
        "query_type": st.sampled_from([*SEARCHES]),
        "top_n_documents": st.integers(1, 50),
        "strictness": st.integers(1, 5) | st.none(),
        "in_scope": st.booleans(),
        "role_information": words,
        "filter": conditions | st.none(),
        "include_contexts": st.lists(st.sampled_from(["citations", "all_retrieved_documents"])),
        "authentication": junk,
        "fields_mapping": junk,
        "unheard_of": junk,
    },
)
searching = st.fixed_dictionaries(
    {
        "messages": st.just([{"role": "user", "content": "Hello?"}]),
        "data_sources": parameters.map(lambda it: [{"type": "azure_search", "parameters": it}]),
    },
    optional={"stream": st.booleans()},
)


def test_hundreds_of_data_sources_near_the_right_ones_never_end_in_a_500() -> None:
    statuses: Counter[int] = Counter()
    searched = SearchScope(ENDPOINT, "docs", True, ("oids", "groups"), (0, 1, 2, 3, 4))
    service = local_service(make_rag(), configs=(searched,))

    @FUZZ
    @given(nearly_right(searching))
    def each(data: bytes) -> None:
        status = ask(call("/v1/chat/completions", data), service).status
        statuses[status] += 1

        assert status in (200, 400), (status, data)

    each()

    assert statuses.total() >= EXAMPLES
    assert statuses[200] >= statuses.total() / 4, statuses
    assert statuses[400] >= statuses.total() / 10, statuses


def test_hundreds_of_requests_near_the_right_ones_never_end_in_a_500() -> None:
    statuses: Counter[int] = Counter()

    async def answered(data: bytes) -> int:
        service = build(read_settings({**LAPTOP, **providers}))
        try:
            async with asyncio.timeout(TIMEOUT):
                request = call("/v1/chat/completions", data)
                return (await read(await handle_call(service, request))).status
        finally:
            await close_models(service)

    @FUZZ
    @given(nearly_right(bodies))
    def each(data: bytes) -> None:
        status = asyncio.run(answered(data))
        statuses[status] += 1

        assert status in (200, 400, 404), (status, data)

    with run_gateways(*FLAVORS) as servers:
        flavors = zip(FLAVORS, servers, strict=True)
        each_one = [provider_entry(name, server, models=[name]) for name, server in flavors]
        providers = provider_settings(*each_one)
        each()

    assert statuses.total() >= EXAMPLES
    assert statuses[200] >= statuses.total() / 3, statuses
    assert statuses[400] >= statuses.total() / 10, statuses
