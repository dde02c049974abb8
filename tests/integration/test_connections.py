"""Failed connections: their description in the log, and whether to retry."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp.abc import AbstractResolver, ResolveResult

from shared.azure.errors import describe_cause, is_dropped
from tests.support.servers import free_port
from tests.support.upstream import Exchange, Step, http_chunk, response_head, run_upstream

SECRETS = "/path?key=k3y"


class NoHosts(AbstractResolver):
    """A resolver that finds no host."""

    async def resolve(self, *_: Any, **_more: Any) -> list[ResolveResult]:
        raise OSError(None, "DNS lookup failed")

    async def close(self) -> None:
        pass


def post_error(url: str, resolver: AbstractResolver | None = None) -> BaseException:
    """Return the error of a failing POST, as an SDK raises it: caused by aiohttp's exception."""

    async def go() -> BaseException:
        connector = aiohttp.TCPConnector(resolver=resolver)
        try:
            async with aiohttp.ClientSession(connector=connector) as session:
                await (await session.post(url + SECRETS, data=b"1")).read()
        except aiohttp.ClientError as error:
            wrapped = RuntimeError("an SDK's own")
            wrapped.__cause__ = error
            return wrapped
        raise AssertionError("it was answered")

    return asyncio.run(go())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_refused_connection_is_described_with_address_only(scheme: str, host: str) -> None:
    url = f"{scheme}://{host}:{free_port()}"
    error = post_error(url)

    assert describe_cause(error) == f"connection refused: {url}"
    assert not is_dropped(error)


def test_ipv6_address_is_described_with_brackets() -> None:
    url = f"http://[::1]:{free_port()}"

    assert describe_cause(post_error(url)).endswith(f": {url}")  # refused, or IPv6 is off


def test_unknown_host_is_described() -> None:
    error = post_error("https://mine.search.example:443", NoHosts())

    assert describe_cause(error) == "host not found: https://mine.search.example:443"
    assert not is_dropped(error)


def test_untrusted_certificate_is_described() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    with run_upstream(tls=tls) as server:
        error = post_error(server.url)

    assert describe_cause(error) == f"TLS failed: {server.url}"
    assert not is_dropped(error)


CUT: list[Any] = [response_head(200), http_chunk(b"half")]


@pytest.mark.parametrize("end", [Exchange.reset, Exchange.rst])
def test_connection_is_dropped_only_before_the_response(end: Step) -> None:
    with run_upstream() as server:
        server.plan += [[end], [*CUT, end]]
        before, after = post_error(server.url), post_error(server.url)

    assert is_dropped(before)
    assert describe_cause(before) == "connection closed before an answer"
    assert not is_dropped(after)
    assert describe_cause(after) == "RuntimeError"
