"""The services behind the app: fakes on loopback, and the settings that name them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from bench.soak.fakes import EchoModel, EchoSearch, Faults
from tests.support.upstream import run_upstream


@dataclass(frozen=True, slots=True)
class Services:
    """Running fakes, and the settings of an app that uses them and stores conversations."""

    search: EchoSearch
    model: EchoModel
    faults: Faults
    settings: Mapping[str, str]

    @property
    def open_connections(self) -> int:
        """The connections that the app holds."""
        return self.search.open_connections + self.model.open_connections


@contextmanager
def run_services(folder: Path, faults: Faults) -> Iterator[Services]:
    """Run the fakes until the block ends."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with (
        run_upstream(EchoSearch(faults=faults), tls) as search,
        run_upstream(EchoModel(faults=faults)) as model,
    ):
        settings = {
            "AZURE_SEARCH_ENDPOINT": search.url,
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_OPENAI_ENDPOINT": model.url,
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embedding",
            "MEMORY_FILE": str(folder / "memory.db"),
            "SSL_CERT_FILE": str(folder / "ca.pem"),
            "IDENTITY_ENDPOINT": f"{model.url}/token",
            "IDENTITY_HEADER": "header",
        }
        yield Services(search, model, faults, settings)
