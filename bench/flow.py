"""The rows of requests: each list of each route, and a service over fakes that answers it.

Its model takes prompts of any length, so that nothing is left out of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.requests import ENDPOINTS, PROTOCOLS
from bench.requests.endpoint import CHAIN, CONVERSATION, INTERACTION, Chain, Endpoint
from bench.rows import Row
from bench.schemas import Place
from shared.http.auth import LOCAL_OWNER
from shared.http.body import MAX_CONTAINERS
from shared.http.call import Limits, dumps
from shared.memory.base import Interaction, Memory, Turn
from shared.protocols.exchange import App
from tests.support.calls import ask, call, local_service
from tests.support.fakes import FakeModel, make_rag
from tests.support.stores import sqlite_memory

CONFIGS = tuple(config for protocol in PROTOCOLS for config in getattr(protocol, "CONFIGS", ()))
LARGEST_BODY = Limits().json_bytes
PROBE = 1000  # entries by which the size of one is known


@dataclass(frozen=True)
class Flow:
    """Answers requests of one user, with stored conversations."""

    memory: Memory
    interaction: Interaction
    chains: Chain

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
        for endpoint, kind, refer in self.chains:
            yield Row(endpoint.name, kind, refer, partial(self.answer, endpoint), CHAIN)

    def answer(self, endpoint: Endpoint, body: bytes) -> int:
        """Return the status of the answer to a body, when all of it is read."""
        paths = {CONVERSATION: self.interaction.conversation, INTERACTION: self.interaction.id}
        path = paths.get(endpoint.path, endpoint.path)
        request = call(endpoint.route, body, method=endpoint.method, path=path)
        return ask(request, self._service()).status

    def _service(self) -> App:
        model = FakeModel(max_prompt_tokens=10**9)
        rag = make_rag(model, client_prompts=True)
        return local_service(rag, memory=self.memory, configs=CONFIGS)


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
    """Store a conversation and the chains of the protocols, until the block ends."""
    with TemporaryDirectory() as folder, sqlite_memory(Path(folder)) as memory:
        chains = [
            request
            for protocol in PROTOCOLS
            if (store_chain := getattr(protocol, "store_chain", None))
            for request in store_chain(memory)
        ]
        yield Flow(memory, asyncio.run(_store_turn(memory)), chains)


async def _store_turn(memory: Memory) -> Interaction:
    conversation = await memory.conversations.create(LOCAL_OWNER, "a")
    return await memory.interactions.add(LOCAL_OWNER, conversation.id, Turn("a", response="a"))
