"""The developer's sign-in to Azure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential

from shared.azure.identity import SEARCH_SCOPE, DeveloperCredential

SECONDS = 10.0  # only a hang takes them


class SlowCli(AsyncTokenCredential):
    """A CLI whose process runs until `answer` is set."""

    def __init__(self) -> None:
        self.started, self.answer, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.started.set()
        await self.answer.wait()
        self.ended.set()
        return AccessToken("token", 4070908800)

    async def close(self) -> None:
        """Close nothing."""

    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""


def test_client_that_leaves_does_not_cancel_the_request_of_a_cli() -> None:
    async def leave() -> None:
        cli = SlowCli()
        request = asyncio.create_task(DeveloperCredential(cli).get_token(SEARCH_SCOPE))
        await cli.started.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        cli.answer.set()
        async with asyncio.timeout(SECONDS):
            await cli.ended.wait()

    asyncio.run(leave())
