"""An app whose users give feedback on stored answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from shared.http.auth import AccessPolicy
from shared.http.call import Call
from shared.memory.base import Interaction, Memory, PageRequest
from shared.protocols.exchange import App
from tests.support.calls import ANNA, BufferedReply, ask, call, local_service
from tests.support.fakes import make_rag

MESSAGES = [{"role": "user", "content": "What is in Plus?"}]
STORED = {"messages": MESSAGES, "sessionState": {"conversation_id": None}}


@dataclass
class Desk:
    """An app with a store of conversations, and its users."""

    memory: Memory
    app: App

    def answer(self, number: int, headers: Any = ANNA) -> str:
        """Ask a question, whose answer is stored. Returns the id of the request."""
        id = f"request-{number}"
        assert self.send(call("/chat", STORED, headers, id=id)).status == 200
        return id

    def rate(self, id: str, headers: Any = ANNA, **fields: Any) -> BufferedReply:
        body = {"request_id": id, "rating": "down", **fields}
        return self.send(call("/feedback", body, headers))

    def send(self, request: Call) -> BufferedReply:
        return ask(request, self.app)

    def stored(self, owner: str = "anna") -> list[Any]:
        """The feedback of each of an owner's answers; None without."""
        texts = [each.turn.feedback for each in self.interactions(owner)]
        return [json.loads(text) if text else None for text in texts]

    def interactions(self, owner: str) -> list[Interaction]:
        async def read() -> list[Interaction]:
            page, found = PageRequest(0, 100), list[Interaction]()
            for each in await self.memory.conversations.list(owner, page):
                found += await self.memory.interactions.list(owner, each.id, page)
            return found[::-1]

        return asyncio.run(read())


def make_desk(memory: Memory, **parts: Any) -> Desk:
    """An app with sign-in over fakes."""
    access = AccessPolicy(sign_in=True)
    return Desk(memory, local_service(make_rag(), access, memory=memory, **parts))
