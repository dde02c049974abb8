"""Runs Azurite, a local Azure Storage from npm, over TLS with bearer tokens."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential

from tests.support.azure_cli import AZ, write_cli
from tests.support.servers import TIMEOUT, free_port, stop_server
from tests.support.upstream import Server, run_upstream

CLIENTS = Path(__file__).parent.parent / "clients"
SERVERS = CLIENTS / "node_modules" / "azurite" / "dist" / "src"
NOT_INSTALLED = "no Azurite in tests/clients: run `npm ci` there (needs Node.js 20 or later)"
EXPIRES = 4070908800  # the year 2099

needs_azurite = pytest.mark.skipif(
    shutil.which("node") is None or not (SERVERS / "blob" / "main.js").is_file(),
    reason=NOT_INSTALLED,
)


def token() -> str:
    """Returns a token for Azurite, which checks all claims, but not the signature."""
    claims = {"iss": "https://sts.windows.net/tenant/", "aud": "https://storage.azure.com"}
    times = {"iat": 0, "nbf": 0, "exp": EXPIRES}
    return ".".join(map(part, ({"alg": "RS256", "typ": "JWT"}, claims | times, "signature")))


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class AzuriteCredential(AsyncTokenCredential):
    """A credential with a token for Azurite."""

    async def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        return AccessToken(token(), EXPIRES)

    async def close(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class AzuriteHome:
    """A folder with a CA, a certificate and a signed-in `az`."""

    folder: Path

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @contextmanager
    def listening(self, server: Server) -> Iterator[Any]:
        """Run a server with the certificate until the block ends."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.folder / "server.pem")
        with run_upstream(server, tls) as running:
            yield running


def make_home(folder: Path) -> AzuriteHome:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    for pem in issued.cert_chain_pems:
        pem.write_to_path(str(folder / "cert.pem"), append=True)
    write_cli(folder, "az", {**AZ, "accessToken": token()})
    write_cli(folder, "azd", None)
    return AzuriteHome(folder)


@contextmanager
def azurite(home: AzuriteHome) -> Iterator[str]:
    """Run Azurite's blobs until the block ends. Yields the address of the account."""
    with _run(home, "blob") as url:
        yield url


@contextmanager
def azurite_queues(home: AzuriteHome) -> Iterator[str]:
    """Run Azurite's queues until the block ends. Yields the address of the account."""
    with _run(home, "queue") as url:
        yield url


@contextmanager
def _run(home: AzuriteHome, service: str) -> Iterator[str]:
    """Run the server of a service until the block ends."""
    port = free_port()
    how = [f"--{service}Host", "127.0.0.1", f"--{service}Port", str(port), "--oauth", "basic"]
    tls = ["--cert", str(home.folder / "cert.pem"), "--key", str(home.folder / "key.pem")]
    quiet = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    log_file = home.folder / f"azurite-{service}-{port}.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            ["node", str(SERVERS / service / "main.js"), *how, *tls, *quiet],
            cwd=home.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_up(process, log_file)
        yield f"https://127.0.0.1:{port}/devstoreaccount1"
    finally:
        stop_server(process)


def wait_until_up(process: subprocess.Popen[bytes], log_file: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until and process.poll() is None:
        if "successfully listen" in log_file.read_text("utf-8", "replace"):
            return
        time.sleep(0.1)
    raise AssertionError(f"Azurite did not start:\n{log_file.read_text('utf-8', 'replace')}")
