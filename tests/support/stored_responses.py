"""A service that stores responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from shared.app import handle_call
from shared.domain.events import Delta, Done
from shared.http.auth import AccessPolicy
from shared.memory.base import Memory
from shared.protocols.exchange import App
from tests.support.calls import JSON, BufferedReply, call, local_service, read
from tests.support.fakes import FakeModel, make_rag
from tests.support.stores import OpenStore

ROUTE = "/v1/responses"
SIGN_IN = AccessPolicy(sign_in=True)


@dataclass
class FakeApp:
    """A service with a memory, and the model that answers there."""

    service: App
    model: FakeModel
    memory: Memory

    async def send(
        self, method: str, path: str = "", body: Any = None, headers: dict[str, str] = JSON
    ) -> BufferedReply:
        """The reply to a request below the route, such as `{id}/input_items`."""
        id, _, rest = path.partition("/")
        route = f"{ROUTE}/{{id}}" if path else ROUTE
        route += f"/{rest}" if rest else ""
        request = call(route, body or [b""], headers, method=method, path=id)
        return await read(await handle_call(self.service, request))

    async def create(
        self, input: Any = "Hello?", headers: dict[str, str] = JSON, **body: Any
    ) -> BufferedReply:
        return await self.send("POST", body={"input": input, **body}, headers=headers)

    async def answer(self, input: Any = "Hello?", **body: Any) -> str:
        """The id of a new response."""
        reply = await self.create(input, **body)
        assert reply.status == 200, reply.data
        return str(reply.json["id"])

    @property
    def texts(self) -> list[str]:
        """The messages of the client that the model got last."""
        return [message.content for message in self.model.calls[-1].messages[1:]]


def run(
    opened: OpenStore,
    work: Callable[[FakeApp], Awaitable[Any]],
    access: AccessPolicy | None = None,
    model: FakeModel | None = None,
    **parts: Any,
) -> Any:
    """The result of some work with an app over a store."""

    async def go() -> Any:
        async with opened() as memory:
            used = model or FakeModel((Delta("Yes."), Done()), max_prompt_tokens=100_000)
            service = local_service(
                make_rag(used), access or AccessPolicy(single_user=True), memory=memory, **parts
            )
            return await work(FakeApp(service, used, memory))

    return asyncio.run(go())
