"""The app over a fake Azure AI Search and a fake model."""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.support.azure_cli import AZ, write_cli
from tests.support.fake_search import FakeSearch, document
from tests.support.servers import COMMAND_MODEL, Server, run_server
from tests.support.upstream import Upstream, run_upstream

READERS: dict[str, tuple[list[str], list[str]]] = {
    "public": ([], []),
    "for-a": (["oid-a"], []),
    "for-b": (["oid-b"], []),
    "for-both": (["oid-a", "oid-b"], []),
    "for-g1": ([], ["g1"]),
    "for-g2": ([], ["g2"]),
    "for-g9": ([], ["g9"]),
    "for-a-and-g2": (["oid-a"], ["g2"]),
    "for-b-and-g1": (["oid-b"], ["g1"]),
}
DOCS = [
    *(document(name, oids=oids, groups=groups) for name, (oids, groups) in READERS.items()),
    document("plan", category="a'b"),
    document("other", category="other"),
]

USERS = {"anna": ("oid-a", ["g1"]), "bert": ("oid-b", ["g2", "g3"])}


def visible_names(user: str | None, oid: bool, groups: bool) -> list[str]:
    """The passages of READERS that a user may see, with the filters that are on."""
    user_oid, user_groups = USERS[user] if user else ("", [])
    return [
        name
        for name, (oids, allowed) in READERS.items()
        if not oids + allowed
        or (oid and user_oid in oids)
        or (groups and set(allowed) & set(user_groups))
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA that the app trusts, and an `az` that is signed in."""
    folder = tmp_path_factory.mktemp("azure")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "server.pem")
    )
    write_cli(folder, "az", AZ)
    write_cli(folder, "azd", None)
    return folder


def server_tls(home: Path) -> ssl.SSLContext:
    """The TLS of a server whose certificate the app trusts."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(home / "server.pem")
    return tls


def ask(client: httpx.Client, user: str | None = None, **overrides: Any) -> httpx.Response:
    headers = signed(*USERS[user]) if user else {}
    body = {
        "messages": [{"role": "user", "content": "say x; deductible"}],
        "context": {"overrides": overrides},
    }
    return client.post("/chat", json=body, headers=headers)


def signed(oid: str, groups: list[str]) -> dict[str, str]:
    claims = {"claims": [{"typ": "groups", "val": group} for group in groups]}
    principal = base64.b64encode(json.dumps(claims).encode()).decode()
    return {"x-ms-client-principal-id": oid, "x-ms-client-principal": principal}


def notes(response: httpx.Response) -> list[str]:
    return [n for step in response.json()["context"]["thoughts"][4:] for n in step["description"]]


def log_of(home: Path, response: httpx.Response) -> str:
    """The lines of the log about a request."""
    logs = "".join(path.read_text("utf-8") for path in home.glob("dev-*.log"))
    id = response.headers["x-request-id"]
    return "\n".join(line for line in logs.split("\n") if id in line)


PUBLIC = "((not oids/any() and not groups/any()))"
SELECT = ",".join(["id", "content", "sourcepage", "sourcefile", "category", "oids", "groups"])


@contextmanager
def app(home: Path, **more: str) -> Iterator[tuple[FakeSearch, Upstream, httpx.Client]]:
    """The app, an index and a model for it."""
    search = FakeSearch(docs=DOCS)
    with app_over(search, home, **more) as (model, client):
        yield search, model, client


@contextmanager
def app_over(
    service: FakeSearch, home: Path, **more: str
) -> Iterator[tuple[Upstream, httpx.Client]]:
    """The app over a search service, and a model for it."""
    with ExitStack() as stack:
        search = stack.enter_context(run_upstream(service, server_tls(home)))
        model: Upstream = stack.enter_context(run_upstream())
        settings = {
            "AZURE_SEARCH_ENDPOINT": search.url,
            "AZURE_SEARCH_INDEX": "docs",
            "SSL_CERT_FILE": str(home / "ca.pem"),
            "PATH": f"{home}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_CHAT_MODEL": "m",
            **COMMAND_MODEL,
            **more,
        }
        server: Server = stack.enter_context(run_server("dev", home, settings))
        yield model, stack.enter_context(server.client())
