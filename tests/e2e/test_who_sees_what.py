"""Two users, their groups, twelve documents: who finds, opens and reads what, on both indexes."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from mcp import Client, MCPError
from mcp_types import CallToolResult

from ingest import acl
from ingest.enrich import Enricher
from ingest.pipeline import IngestPipeline
from ingest.sandbox import SandboxReader
from ingest.scan import list_folder
from tests.support.azure_cli import AZ, write_cli
from tests.support.fake_search import FakeSearch
from tests.support.ingest_command import run_command
from tests.support.mcp_client import call, run_client
from tests.support.search_app import signed
from tests.support.search_writer import BY_WORDS, run_service
from tests.support.search_writer import run as in_azure
from tests.support.servers import COMMAND_MODEL, SIGN_IN, run_server
from tests.support.upstream import run_upstream

USERS = {"anna": ("oid-a", ["g1"]), "bert": ("oid-b", ["g2", "g3"])}
READERS: dict[str, tuple[list[str], list[str]]] = {
    "public": ([], []),
    "again": ([], []),
    "for-a": (["oid-a"], []),
    "for-b": (["oid-b"], []),
    "for-both": (["oid-a", "oid-b"], []),
    "for-c": (["oid-c"], []),
    "for-g1": ([], ["g1"]),
    "for-g2": ([], ["g2"]),
    "for-g3-g9": ([], ["g3", "g9"]),
    "for-g9": ([], ["g9"]),
    "for-a-and-g2": (["oid-a"], ["g2"]),
    "for-b-and-g1": (["oid-b"], ["g1"]),
}
DEPLOYED = {
    "without sign-in": {"WEBSITE_AUTH_ENABLED": ""},
    "forced": SIGN_IN,
    "asked for": {**SIGN_IN, "FORCE_SECURITY_FILTERS": "false"},
}
FILTERS = ("use_oid_security_filter", "use_groups_security_filter")


@dataclass(frozen=True)
class App:
    """An app that runs: how it is deployed, and who asks it."""

    deployed: str
    client: httpx.Client
    lists_files: bool

    def search(self, user: str | None, filters: tuple[bool, bool]) -> set[str] | int:
        """The documents that a question finds, or the status where it is refused."""
        overrides = {
            "top": 50,
            "retrieval_mode": "text",
            **dict(zip(FILTERS, filters, strict=True)),
        }
        body = {
            "messages": [{"role": "user", "content": "Who may read the deductible?"}],
            "context": {"overrides": overrides},
        }
        response = self.client.post("/chat", json=body, headers=headers(user))
        if response.status_code != 200:
            return response.status_code
        cited = response.json()["context"]["data_points"]["citations"]
        return names(cited)

    def opened(self, user: str | None) -> set[str]:
        """The documents that a link opens."""
        links = {name: f"/content/docs/{name}.md" for name in READERS}
        got = {name: self.client.get(link, headers=headers(user)) for name, link in links.items()}
        assert {response.status_code for response in got.values()} <= {200, 404}
        return {name for name, response in got.items() if response.status_code == 200}


def headers(user: str | None) -> dict[str, str]:
    return signed(*USERS[user]) if user else {}


def allowed(user: str | None, oid: bool, groups: bool) -> set[str]:
    """Whom the rule lets see what: no ids, public; else one that an enabled filter matches."""
    own, their = USERS[user] if user else ("", [])
    return {
        name
        for name, (oids, of) in READERS.items()
        if not oids + of or (oid and own in oids) or (groups and set(of) & set(their))
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents with their rules, the embedded index of them, a CA and an `az`."""
    folder = tmp_path_factory.mktemp("home")
    documents = folder / "files"
    (documents / "docs").mkdir(parents=True)
    for name in READERS:
        text = f"The deductible in {name}: who may read it is said elsewhere."
        (documents / "docs" / f"{name}.md").write_text(text)
    rules = (
        f"docs/{name}.md: {{oids: {oids}, groups: {groups}}}"
        for name, (oids, groups) in READERS.items()
        if oids + groups or name == "again"
    )
    (documents / "acl.yaml").write_text("\n".join(rules))
    done = run_command(str(documents), INDEX_FILE=str(folder / "own.db"))
    assert "12 documents put" in done.stdout, done.stderr
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    issued.write_to_path(str(folder / "server.pem"))
    write_cli(folder, "az", AZ)
    write_cli(folder, "azd", None)
    return folder


@pytest.fixture(scope="module")
def filled(home: Path) -> list[dict[str, Any]]:
    """What a run over the documents puts into Azure AI Search."""
    listing = list_folder(home / "files")
    rules = acl.read_acl(home / "files", [file.name for file in listing.files], listing.acl_files)

    async def fill(target: Any) -> None:
        async with SandboxReader() as reader:
            await IngestPipeline(reader, target, Enricher()).run(listing, rules)

    with run_service() as running:
        in_azure(running, fill, index_spec=BY_WORDS)
        return [{"image": None, **doc} for doc in running.indexes["docs"].docs.values()]


@pytest.fixture(scope="module", params=[*product(["embedded", "Azure"], DEPLOYED)], ids="-".join)
def app(request: pytest.FixtureRequest, home: Path, filled: list[dict[str, Any]]) -> Iterator[App]:
    index, deployed = request.param
    settings = {"DOCUMENTS_PATH": str(home / "files"), **COMMAND_MODEL, **DEPLOYED[deployed]}
    with ExitStack() as stack:
        if index == "embedded":
            settings["INDEX_FILE"] = str(home / "own.db")
        else:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(home / "server.pem")
            search = stack.enter_context(run_upstream(FakeSearch(docs=filled), tls))
            settings |= {
                "AZURE_SEARCH_ENDPOINT": search.url,
                "AZURE_SEARCH_INDEX": "docs",
                "SSL_CERT_FILE": str(home / "ca.pem"),
                "PATH": f"{home}:/usr/bin:/bin",
            }
        server = stack.enter_context(run_server("dev", home, settings))
        yield App(deployed, stack.enter_context(server.client()), index == "embedded")


@pytest.mark.parametrize("filters", [*product([False, True], repeat=2)])
@pytest.mark.parametrize("user", [None, *USERS])
def test_search_access(app: App, user: str | None, filters: tuple[bool, bool]) -> None:
    expected: set[str] | int
    match app.deployed, user:
        case "without sign-in", _:
            expected = 400 if any(filters) else allowed(None, False, False)
        case _, None:
            expected = 401 if any(filters) else allowed(None, False, False)
        case "forced", _:
            expected = allowed(user, True, True)
        case _:
            expected = allowed(user, *filters)

    assert app.search(user, filters) == expected


@pytest.mark.parametrize("user", [None, *USERS])
def test_file_access(app: App, user: str | None) -> None:
    forced = app.deployed == "forced"

    assert app.opened(user) == allowed(user, forced, forced)


def names(citations: Iterable[str]) -> set[str]:
    """The documents of citations."""
    return {each.removeprefix("docs/").removesuffix(".md") for each in citations}


async def call_tools(client: Client) -> dict[str, set[str]]:
    """The documents of which each tool of MCP returns text."""
    question = "Who may read the deductible?"
    found = await call(client, "search", query=question, top=50)
    orders = "; ".join([question, *(f"say [docs/{name}.md]" for name in READERS)])
    answer = await call(client, "ask", question=orders, top=50)
    fetched, rejections = set(), set()
    for name in [*READERS, "unknown"]:
        result = await client.call_tool("fetch", {"id": f"docs/{name}.md"})
        assert isinstance(result, CallToolResult)
        if result.is_error:
            rejections.add(str(result.content))
        else:
            fetched.add(name)
    assert len(rejections) == 1  # a hidden document is rejected as one that does not exist
    return {
        "search": names(hit["id"] for hit in found["results"]),
        "ask": names(hit["id"] for hit in answer["citations"]),
        "fetch": fetched,
    }


async def read_resources(client: Client) -> dict[str, set[str]]:
    """The documents that are listed as resources, and those that can be read."""
    listed = (await client.list_resources()).resources
    readable, rejections = set(), set()
    for name in [*READERS, "unknown"]:
        try:
            await client.read_resource(f"document:///docs/{name}.md")
            readable.add(name)
        except MCPError as error:
            rejections.add((error.code, error.message))
    assert len(rejections) == 1
    return {"list": names(resource.name for resource in listed), "read": readable}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("user", [None, *USERS])
def test_access_over_mcp(app: App, user: str | None, mode: str) -> None:
    forced = app.deployed == "forced"
    visible = allowed(user, forced, forced)
    url, signed_in = str(app.client.base_url).rstrip("/"), headers(user)
    tools = run_client(url, call_tools, mode, signed_in)
    resources = run_client(url, read_resources, mode, signed_in)

    assert tools == {"search": visible, "ask": visible, "fetch": visible}
    assert resources == {"list": visible if app.lists_files else set(), "read": visible}
