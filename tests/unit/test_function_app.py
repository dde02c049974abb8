"""Streaming responses: the model's stream is closed whatever the client does."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import function_app
from shared.app import handle_call
from shared.http.call import Limits
from shared.protocols.exchange import App
from tests.support.asgi import SCOPE, block, drop, receive_disconnect
from tests.support.calls import call
from tests.support.fakes import FakeModel, make_rag


async def receive_nothing() -> MutableMapping[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


def open_streams_after(receive: Any, send: Any, late: float = 0) -> int:
    """Send a response; return the number of the model's streams that remain open."""

    async def go() -> int:
        model = FakeModel([asyncio.Event()])
        reply = await handle_call(App(make_rag(model)), call("/chat/stream"))
        reply = replace(reply, deadline=reply.deadline - late)
        assert model.open_streams == 1
        await function_app.make_response(reply)(SCOPE, receive, send)
        return model.open_streams

    return asyncio.run(go())


def test_stream_is_closed_if_the_client_left_before_it_began() -> None:
    assert open_streams_after(receive_disconnect, drop) == 0
    assert open_streams_after(receive_disconnect, block) == 0


def test_stream_is_closed_after_the_deadline_if_the_client_stops_reading() -> None:
    assert (
        open_streams_after(
            receive_nothing, block, late=Limits().request_seconds + function_app.GRACE_SECONDS
        )
        == 0
    )
