"""The client's side of an ASGI connection."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

SCOPE: dict[str, Any] = {"type": "http", "asgi": {"spec_version": "2.3"}}


async def receive_disconnect() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}


async def drop(_message: MutableMapping[str, Any]) -> None:
    """A client that reads everything."""


async def block(_message: MutableMapping[str, Any]) -> None:
    """A client that has stopped reading."""
    await asyncio.Event().wait()
