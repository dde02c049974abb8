"""The cache of the users' tokens for Azure AI Search."""

from __future__ import annotations

import asyncio

import pytest
from azure.core.credentials import AccessToken

from shared.azure import user_token
from shared.azure.user_token import MAX_TOKENS, Registration, UserTokens
from shared.domain.errors import Unavailable
from shared.domain.request import ChatRequest, RequestMetadata, User
from tests.support.fake_entra import CLIENT, TENANT
from tests.support.fake_entra import user_token as make_token

FAR = 4_000_000_000


class Exchange:
    """Returns tokens, and records for which ones."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[Exception] = []

    async def __call__(self, token: str) -> AccessToken:
        self.calls.append(token)
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop()
        return AccessToken(f"for {token}", FAR)


def user(number: int = 0) -> User:
    return User("oid", token=make_token("oid", exp=FAR, jti=str(number)))


def tokens(exchange: Exchange) -> UserTokens:
    return UserTokens(exchange, Registration(TENANT, CLIENT))


def test_token_that_was_not_used_for_longest_is_dropped() -> None:
    exchange = Exchange()
    users = [user(number) for number in range(MAX_TOKENS + 1)]

    async def go() -> list[int]:
        cache = tokens(exchange)
        for each in users[:MAX_TOKENS]:
            await cache.get(each)
        counts = []
        for each in (users[0], users[-1], users[0], users[1]):
            await cache.get(each)
            counts.append(len(exchange.calls))
        return counts

    assert asyncio.run(go()) == [1000, 1001, 1001, 1002]


def test_caller_that_goes_away_does_not_end_the_exchange_of_others() -> None:
    exchange = Exchange()

    async def go() -> str:
        exchange.gate.clear()
        cache, one = tokens(exchange), user()
        first, second = (asyncio.create_task(cache.get(one)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        exchange.gate.set()
        return await second

    assert asyncio.run(go()) == f"for {exchange.calls[0]}"
    assert len(exchange.calls) == 1


def test_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    exchange = Exchange()
    exchange.failures.append(Unavailable())

    async def go() -> None:
        cache, one = tokens(exchange), user()
        results = await asyncio.gather(cache.get(one), cache.get(one), return_exceptions=True)
        assert [type(result) for result in results] == [Unavailable, Unavailable]
        assert await cache.get(one)

    asyncio.run(go())

    assert len(exchange.calls) == 2


def test_no_repr_has_the_token() -> None:
    one = user()
    request = ChatRequest((), metadata=RequestMetadata(one))

    assert one.token and one.token not in repr(request)
    entry = user_token._Entry("secret", FAR)
    assert "secret" not in repr(entry)


@pytest.mark.parametrize("other", ["", None])
def test_users_are_equal_whatever_their_token(other: str | None) -> None:
    assert user() == User("oid", token=other)
