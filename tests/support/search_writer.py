"""Helpers for the writer of Azure AI Search: a fake service over TLS, its clients, a run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import trustme
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline.transport import AioHttpTransport

from ingest.splitting.passages import Passage
from ingest.targets.azure_search.index_update import IndexSpec
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.azure_search.writer import (
    AzureSearchWriter,
    SearchClients,
    StoreImage,
    make_clients,
)
from ingest.targets.index_writer import Document
from shared.retrieval.azure_search.index_fields import IndexFields
from tests.support.fake_search import API_VERSION
from tests.support.fake_service import NEW_VERSION, FakeIndexService
from tests.support.upstream import Server, run_upstream

BY_WORDS = IndexSpec("docs", IndexFields())

Result = TypeVar("Result")
INDEX_SPEC = IndexSpec("docs", IndexFields(), dimensions=2)
UNUSED_PATH = Path("never-read")


class FakeCredential(AsyncTokenCredential):
    """A credential that is signed in, or not."""

    def __init__(self, signed_in: bool = True) -> None:
        self.signed_in = signed_in

    async def get_token(self, *_: str, **__: Any) -> AccessToken:
        if not self.signed_in:
            raise ClientAuthenticationError("words of az")
        return AccessToken("token", 4070908800)

    async def close(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


@dataclass
class RecordingRetry:
    """Makes retry policies that record waits and messages instead of waiting."""

    waits: list[float] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def policy(self, **more: Any) -> RetryPolicy:
        return RetryPolicy(**{"notify": self.messages.append, "sleep": self.sleep, **more})

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@cache
def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of the server and of the client."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


@contextmanager
def run_service(**more: Any) -> Iterator[FakeIndexService]:
    with run_upstream(FakeIndexService(**more), tls_contexts()[0]) as running:
        yield running


@asynccontextmanager
async def run_transport(trusted: bool = True) -> AsyncIterator[AioHttpTransport]:
    """A transport that trusts the fake services, or not."""
    connector = aiohttp.TCPConnector(ssl=tls_contexts()[1] if trusted else True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield AioHttpTransport(session=session, session_owner=False)


@asynccontextmanager
async def connect_clients(
    running: Server, signed_in: bool = True, trusted: bool = True, version: str = API_VERSION
) -> AsyncIterator[SearchClients]:
    credential = FakeCredential(signed_in)
    async with run_transport(trusted) as transport:
        yield make_clients(running.url, "docs", credential, version, transport=transport)


def run(
    running: FakeIndexService,
    work: Callable[[AzureSearchWriter], Awaitable[Result]],
    retry: RetryPolicy | None = None,
    index_spec: IndexSpec = INDEX_SPEC,
    store: StoreImage | None = None,
    signed_in: bool = True,
    trusted: bool = True,
    restricted: bool = False,
) -> Result:
    """Call `work` with a writer for a running service."""

    async def run_work() -> Result:
        version = NEW_VERSION if index_spec.checks_permissions else API_VERSION
        async with connect_clients(running, signed_in, trusted, version) as clients:
            policy = retry or RetryPolicy(max_attempts=1)
            writer = AzureSearchWriter(clients, index_spec, policy, store, restricted=restricted)
            try:
                return await work(writer)
            finally:
                await writer.close()

    return asyncio.run(run_work())


def document(name: str, version: str = "1", ids: str = "p0-1 p0-2 p0-3", **more: Any) -> Document:
    """A document whose passages have these ids, with vectors."""
    passages = tuple(
        Passage(
            id=f"{name.replace('/', '-').replace('.', '-')}-{one}",
            content=f"{name} says {one} in version {version}",
            sourcepage=name,
            sourcefile=name,
            category=name.partition("/")[0] if "/" in name else "",
            **more,
        )
        for one in ids.split()
    )
    vectors = tuple((float(len(version)), float(place)) for place, _ in enumerate(passages))
    return Document(name, f"print-of-{version}", passages, vectors)


async def update_index(writer: AzureSearchWriter, folder: Mapping[str, Document]) -> None:
    """Update the index as the command does: write changed documents, remove missing ones."""
    known = await writer.fingerprints()
    for name in sorted(known.keys() - folder.keys()):
        await writer.remove(name)
    for name, document in folder.items():
        if known.get(name) != document.fingerprint:
            await writer.put(document, UNUSED_PATH)
    await writer.finish()
