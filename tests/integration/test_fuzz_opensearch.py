"""OpenSearch's routes with bodies and parameters near enough to right ones: never a 500."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.http.call import Call
from shared.protocols.opensearch.routes import HANDLERS, MEMORY
from shared.settings import read_settings as read_settings
from tests.support.calls import Client, call, read
from tests.support.fuzz import EXAMPLES, FUZZ, TIMEOUT, junk, words
from tests.support.servers import LAPTOP

NAMES = ["text", "title", "content", "sourcepage", "author", "t*"]
PROCESSOR = "retrieval_augmented_generation"
queries: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.just({"match_all": {}}),
    st.fixed_dictionaries({"match": st.fixed_dictionaries({"text": words})}),
    st.fixed_dictionaries({"query_string": st.fixed_dictionaries({"query": words})}),
    st.fixed_dictionaries({"neural": st.just({"f": {"query_text": "dental", "k": 3}})}),
)
parameters = st.fixed_dictionaries(
    {"llm_question": st.just("What is included in Health Plus?")},
    optional={
        "context_size": st.integers(1, 9),
        "interaction_size": st.integers(0, 9),
        "timeout": st.integers(1, 60),
        "llm_model": st.just("demo"),
    },
)
searches = st.fixed_dictionaries(
    {"ext": st.fixed_dictionaries({"generative_qa_parameters": parameters})},
    optional={
        "query": queries,
        "size": st.integers(0, 50),
        "_source": st.booleans() | st.lists(st.sampled_from(NAMES)),
    },
)
pipelines = st.fixed_dictionaries(
    {
        "description": words,
        "model_id": st.just("demo"),
        "context_field_list": st.lists(st.sampled_from(NAMES), min_size=1),
    },
    optional={"system_prompt": words, "user_instructions": words},
).map(lambda processor: {"response_processors": [{PROCESSOR: processor}]})
turn = st.fixed_dictionaries({"input": words, "name": words, "additional_info": words})
BODIES = {"/_search": searches, "/{index}/_search": searches, "/_search/pipeline/{name}": pipelines}
pages = st.fixed_dictionaries(
    {},
    optional={
        "max_results": st.integers(1, 20).map(str) | st.text(max_size=5),
        "next_token": st.integers(0, 20).map(str) | st.text(max_size=5),
        "size": st.integers(0, 20).map(str) | st.text(max_size=3),
        "_source": st.sampled_from(["true", "text,title", "*", ""]),
    },
)
NEVER = ("traces", "memory/_search", "{id}/_search", "{*path}")  # what is answered with 501
CALLS = [
    (route, method)
    for route, methods in sorted(HANDLERS.items())
    if not route.endswith(NEVER)
    for method in methods
    if method != "DELETE" or "pipeline" in route
]


@st.composite
def nearly_right(draw: st.DrawFn, ids: Mapping[str, str]) -> Call:
    """A call of some route; in three of ten a value of its body is replaced by junk."""
    chance = draw(st.randoms(use_true_random=True))
    route, method = chance.choice(CALLS)
    body: Any = draw(BODIES.get(route, turn))
    if chance.random() < 0.3:
        place, key = body, chance.choice(list(body))
        while isinstance(place[key], dict) and place[key] and chance.random() < 0.7:
            place, key = place[key], chance.choice(list(place[key]))
        place[key] = draw(junk)
    ext = body.get("ext")
    if isinstance(ext, dict) and isinstance(ext.get("generative_qa_parameters"), dict):
        ext["generative_qa_parameters"]["memory_id"] = ids["{id}"]
    named = ids["message"] if "/message/" in route else ids.get(route.rpartition("/")[2], "")
    named = named or ids["{id}"]
    named = "documents" if route == "/{index}/_search" else named
    path = named if chance.random() < 0.8 else draw(words)
    query = draw(pages) if chance.random() < 0.5 else {}
    data = json.dumps(body).encode()
    return call(route, data, method=method, path=path, query=query)


def test_hundreds_of_calls_near_the_right_ones_never_end_in_a_500(tmp_path: Path) -> None:
    file = {"MEMORY_FILE": str(tmp_path / "memory.db"), "INDEX_FILE": "samples"}
    service = build(read_settings({**LAPTOP, **file}))
    seen: Counter[int] = Counter()
    client = Client(service)
    memory = client("POST", MEMORY, {"name": "fuzz"}).json["memory_id"]
    message = client("POST", f"{MEMORY}/{{id}}/messages", {"input": "x"}, memory).json["message_id"]
    ids = {"{id}": memory, "message": message, "{name}": "fuzz"}

    async def answered(request: Call) -> int:
        async with asyncio.timeout(TIMEOUT):
            return (await read(await handle_call(service, request))).status

    @FUZZ
    @given(st.data())
    def each(data: st.DataObject) -> None:
        asked = data.draw(nearly_right(ids))
        status = asyncio.run(answered(asked))
        seen[status] += 1

        assert status in (200, 400, 404), (status, asked.route, asked.method)

    async def close() -> None:
        assert service.memory is not None
        await service.memory.close()

    each()
    asyncio.run(close())

    assert seen.total() >= EXAMPLES
    assert seen[200] >= seen.total() / 3, seen
    assert seen[400] >= seen.total() / 20, seen
