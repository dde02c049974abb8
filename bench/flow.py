"""The rows of requests: each list of each route, and a service over fakes that answers it.

Its model takes prompts of any length, so that nothing is left out of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.requests import CONVERSATION, ENDPOINTS, INTERACTION, RESPONSES, Endpoint
from bench.rows import Row
from bench.schemas import TEXT, TEXTS, Place, sample
from shared.http.auth import LOCAL_OWNER
from shared.http.body import MAX_CONTAINERS
from shared.http.call import Limits, dumps
from shared.memory.base import Memory
from shared.protocols.exchange import App
from shared.protocols.openai.data_sources import SearchScope
from tests.support.calls import ask, call, local_service
from tests.support.fakes import FakeModel, make_rag
from tests.support.stores import sqlite_memory

LARGEST_BODY = Limits().json_bytes
PROBE = 1000  # entries by which the size of one is known
CHAIN = 4096  # stored turns, each behind the one before


@dataclass(frozen=True)
class Flow:
    """Answers requests of one user, with stored conversations."""

    memory: Memory
    conversation: str
    turns: list[str]

    def rows(self) -> Iterator[Row]:
        """Yield each list of each route."""
        for endpoint in ENDPOINTS:
            for place in endpoint.places():
                make = partial(_encode, endpoint, place)
                yield Row(
                    endpoint.name,
                    place.path,
                    make,
                    partial(self.answer, endpoint),
                    count_largest(make),
                    place.valid,
                )
        read = partial(self.answer, Endpoint(RESPONSES, {}))
        yield Row(RESPONSES, ".previous_response_id, its turns", self._continue, read, CHAIN)
        yield Row(RESPONSES, ".input[item_reference]", self._refer, read, CHAIN)

    def answer(self, endpoint: Endpoint, body: bytes) -> int:
        """Return the status of the answer to a body, when all of it is read."""
        paths = {CONVERSATION: self.conversation, INTERACTION: self.turns[0]}
        path = paths.get(endpoint.path, endpoint.path)
        request = call(endpoint.route, body, method=endpoint.method, path=path)
        return ask(request, self._service()).status

    def _service(self) -> App:
        model = FakeModel(max_prompt_tokens=10**9)
        scope = SearchScope(TEXTS["endpoint"], sample(TEXT), filters=True)
        rag = make_rag(model, client_prompts=True)
        return local_service(rag, memory=self.memory, configs=(scope,))

    def _continue(self, count: int) -> bytes:
        return dumps({"input": "a", "previous_response_id": f"resp_{self.turns[count - 1]}"})

    def _refer(self, count: int) -> bytes:
        items = [{"type": "item_reference", "id": f"msg_{id}"} for id in self.turns[:count]]
        return dumps({"input": [*items, {"role": "user", "content": "a"}]})


def _encode(endpoint: Endpoint, place: Place, count: int) -> bytes:
    return dumps(endpoint.complete(place.make(count)))


def count_largest(make: Callable[[int], bytes]) -> int:
    """Return how many entries the largest body has."""
    one, more = make(1), make(1 + PROBE)
    size = (len(more) - len(one)) / PROBE
    containers = (_count_containers(more) - _count_containers(one)) / PROBE
    most_containers = (MAX_CONTAINERS - _count_containers(one)) / (containers or 1)
    return int(min((LARGEST_BODY - len(one)) / size, most_containers))


def _count_containers(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


@contextmanager
def open_flow() -> Iterator[Flow]:
    """Store a chain of responses, until the block ends."""
    with TemporaryDirectory() as folder, sqlite_memory(Path(folder)) as memory:
        service = local_service(make_rag(), memory=memory)
        reply = ask(call(RESPONSES, {"input": "a"}), service)
        yield asyncio.run(_store_chain(memory, reply.json["id"].removeprefix("resp_")))


async def _store_chain(memory: Memory, first: str) -> Flow:
    """Store the turn of a response again and again, each time behind the one before."""
    interaction = await memory.interactions.get(LOCAL_OWNER, first)
    conversation, turns = interaction.conversation, [first]
    while len(turns) < CHAIN:
        new = memory.new_id()
        details = interaction.turn.details.replace(first, new.id)
        turn = replace(interaction.turn, parent=turns[-1], details=details)
        await memory.interactions.add(LOCAL_OWNER, conversation, turn, new)
        turns.append(new.id)
    return Flow(memory, conversation, turns)
