"""The app over an index that checks permissions by the user's token, with real HTTP and SDKs."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.support.fake_entra import CLIENT, TENANT, FakeEntra, refusal, search_token, user_token
from tests.support.fake_knowledge_base import document_elsewhere
from tests.support.fake_permissions import HEADER, PermissionService
from tests.support.fake_search import document
from tests.support.search_app import app_over, home, log_of, server_tls, signed
from tests.support.servers import SIGN_IN
from tests.support.upstream import Exchange, Step, error_response, run_upstream

__all__ = ["home"]  # fixtures

MEMBERS = {"oid-a": ["g1"], "oid-b": ["g2"]}
DOCS = [
    document("everyone", oids=["all"], category="x"),
    document("nobody", oids=["none"]),
    document("empty"),
    document("for-a", oids=["oid-a"], category="secret"),
    document("for-b", oids=["oid-b"]),
    document("for-g1", groups=["g1"]),
    document("for-g2", groups=["g2"]),
]
VISIBLE = {
    "oid-a": {"everyone", "for-a", "for-g1"},
    "oid-b": {"everyone", "for-b", "for-g2"},
}
SETTINGS = {
    "AZURE_SEARCH_PERMISSIONS": "user-token",
    "SIGN_IN_TENANT_ID": TENANT,
    "SIGN_IN_CLIENT_ID": CLIENT,
    "SEARCH_SECONDS": "2",
    **SIGN_IN,
}
WAYS = {"index": {}, "knowledge base": {"AZURE_SEARCH_KNOWLEDGE_BASE": "kb"}}
Parts = tuple[PermissionService, FakeEntra, httpx.Client]


@contextmanager
def running(home: Path, **more: str) -> Iterator[Parts]:
    service = PermissionService(docs=DOCS, members=MEMBERS)
    with run_upstream(FakeEntra(), server_tls(home)) as entra:
        settings = {**SETTINGS, "AZURE_AUTHORITY_HOST": entra.url, **more}
        with app_over(service, home, **settings) as (_, client):
            yield service, entra, client


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, home: Path) -> Iterator[Parts]:
    with running(home, **WAYS[request.param]) as parts:
        yield parts


@pytest.fixture
def app(way: Parts) -> Parts:
    service, entra, _ = way
    for server in (service, entra):
        server.requests.clear()
        server.plan.clear()
    service.enforces, entra.lifetime = True, 3600
    return way


def headers(oid: str, token: str | None = None) -> dict[str, str]:
    """Headers of a signed-in user: a fresh token, unless one is given."""
    token = user_token(oid, jti=os.urandom(8).hex()) if token is None else token
    return {**signed(oid, []), **({"authorization": f"Bearer {token}"} if token else {})}


def ask(client: httpx.Client, sent: Mapping[str, str]) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "say x; deductible"}]}
    return client.post("/chat", json=body, headers=sent)


def found(response: httpx.Response) -> set[str]:
    assert response.status_code == 200, response.text
    return {hit["id"] for hit in response.json()["context"]["thoughts"][2]["description"]}


@pytest.mark.parametrize("oid", VISIBLE)
def test_user_finds_what_the_service_shows_to_them(app: Parts, oid: str) -> None:
    service, entra, client = app

    assert found(ask(client, headers(oid))) == VISIBLE[oid]
    assert {request.headers[HEADER] for request in service.requests} == {search_token(oid)}
    assert len(entra.requests) == 1


REFUSED: dict[str, Mapping[str, str]] = {
    "no token": headers("oid-a", ""),
    "no user": {"authorization": f"Bearer {user_token('oid-a')}"},
    "garbage": headers("oid-a", "garbage"),
    "another user's": headers("oid-a", user_token("oid-b")),
    "another tenant's": headers("oid-a", user_token("oid-a", tid="other")),
    "for another app": headers("oid-a", user_token("oid-a", aud="https://graph.microsoft.com")),
    "expired": headers("oid-a", user_token("oid-a", exp=int(time.time()) - 1)),
    "without an expiry": headers("oid-a", user_token("oid-a", exp=None)),
    "of an endless life": headers("oid-a", user_token("oid-a", exp=10**400)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_caller_without_a_token_of_their_own_is_refused(app: Parts, name: str) -> None:
    service, entra, client = app
    response = ask(client, REFUSED[name])

    assert response.status_code == 401, response.text
    assert (service.requests, entra.requests) == ([], [])


def test_principal_of_another_tenant_is_refused(app: Parts) -> None:
    claims = json.dumps({"claims": [{"typ": "tid", "val": "other"}]})
    principal = base64.b64encode(claims.encode()).decode()
    response = ask(app[2], headers("oid-a") | {"x-ms-client-principal": principal})

    assert response.status_code == 401


def test_signature_is_checked_by_the_exchange(app: Parts) -> None:
    other = jwt.encode({"oid": "oid-b"}, "x" * 32, "HS256").rpartition(".")[2]
    forged = f"{user_token('oid-a').rpartition('.')[0]}.{other}"
    service, entra, client = app
    response = ask(client, headers("oid-a", forged))

    assert (response.status_code, len(entra.requests), service.requests) == (401, 1, [])


def test_token_is_exchanged_once_until_it_expires(app: Parts) -> None:
    _, entra, client = app
    sent = headers("oid-a")
    for _ in range(3):
        assert found(ask(client, sent)) == VISIBLE["oid-a"]
    assert len(entra.requests) == 1

    found(ask(client, headers("oid-a")))  # another token of the same user
    assert len(entra.requests) == 2


def test_token_that_expires_soon_is_not_kept(app: Parts) -> None:
    _, entra, client = app
    soon = headers("oid-a", user_token("oid-a", exp=int(time.time()) + 200))
    for _ in range(2):
        found(ask(client, soon))
    assert len(entra.requests) == 2

    entra.lifetime = 200
    short = headers("oid-a")
    for _ in range(2):
        found(ask(client, short))
    assert len(entra.requests) == 4


def test_simultaneous_questions_share_an_exchange(app: Parts) -> None:
    _, entra, client = app
    sent = headers("oid-a")
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: ask(client, sent), range(6)))

    assert [found(reply) for reply in replies] == [VISIBLE["oid-a"]] * 6
    assert len(entra.requests) == 1


def text_response(status: int) -> list[Step]:
    text = "<html>Service unavailable</html>"
    head = f"HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: {len(text)}"
    return [f"{head}\r\n\r\n{text}".encode()]


FAILURES: list[Any] = [
    pytest.param([refusal(400, "invalid_grant", 50013)], 401, "50013", id="refused"),
    pytest.param([refusal(400, "invalid_grant", 65001)], 503, "consent", id="no consent"),
    pytest.param([refusal(401, "invalid_client", 700213)], 503, "invalid_client", id="no trust"),
    pytest.param([refusal(503, "temporarily_unavailable")] * 9, 503, "503", id="busy"),
    pytest.param([[Exchange.stall]] * 9, 503, "no answer in time", id="stall"),
    pytest.param([[Exchange.reset]] * 9, 503, "user token", id="reset"),
    pytest.param([error_response(500)] * 9, 503, "user token", id="500"),
    pytest.param([[b"garbage\r\n\r\n"]] * 9, 503, "user token", id="garbage"),
    pytest.param([text_response(200)], 503, "cannot be read", id="a page of a proxy"),
]


@pytest.mark.parametrize(("plan", "status", "cause"), FAILURES)
def test_failed_exchange_searches_nothing(
    app: Parts, home: Path, plan: list[list[Step]], status: int, cause: str
) -> None:
    service, entra, client = app
    entra.plan += plan
    sent = headers("oid-a")
    response = ask(client, sent)
    log = log_of(home, response)

    assert response.status_code == status, log
    assert service.requests == []
    assert cause in log
    assert "anna@x" not in response.text + log
    entra.plan.clear()
    assert found(ask(client, sent)) == VISIBLE["oid-a"]


def test_claims_challenge_is_passed_on(app: Parts) -> None:
    _, entra, client = app
    claims = '{"access_token":{"capolids":{"essential":true,"values":["c1"]}}}'
    entra.plan.append(refusal(400, "interaction_required", 50076, claims=claims))
    response = ask(client, headers("oid-a"))
    challenge = response.headers["www-authenticate"]

    assert response.status_code == 401
    assert challenge.startswith('Bearer error="insufficient_claims", claims="')
    assert base64.b64decode(challenge.split('"')[3]).decode() == claims


def test_passages_of_an_index_that_does_not_check_are_dropped(app: Parts, home: Path) -> None:
    service, _, client = app
    service.enforces = False
    response = ask(client, headers("oid-a"))

    assert found(response) == {"everyone", "for-a", "for-g1", "for-g2"}
    logs = "".join(path.read_text("utf-8") for path in home.glob("dev-*.log"))
    assert "the index does not check permissions itself" in logs


def test_file_is_open_to_those_who_find_it(home: Path, tmp_path: Path) -> None:
    for doc in DOCS:
        (tmp_path / str(doc["sourcefile"])).write_text("text")
    with running(home, DOCUMENTS_PATH=str(tmp_path)) as (_, _entra, client):
        sent = headers("oid-a")
        statuses = {
            doc["id"]: client.get(f"/content/{doc['id']}.md", headers=sent).status_code
            for doc in DOCS
        }
        without = client.get("/content/everyone.md", headers=headers("oid-a", ""))

    assert {id for id, status in statuses.items() if status == 200} == VISIBLE["oid-a"]
    assert set(statuses.values()) == {200, 404}
    assert without.status_code == 401


@pytest.mark.part("mcp")
def test_fetch_of_mcp_reads_what_the_user_may_see(app: Parts) -> None:
    def fetch(id: str) -> Any:
        params = {"name": "fetch", "arguments": {"id": id}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return app[2].post("/mcp", json=message, headers=headers("oid-a")).json()["result"]

    assert fetch("for-a.md")["structuredContent"]["text"] == "The deductible in for-a."
    assert fetch("for-b.md")["isError"] is True


def test_categories_are_those_of_visible_passages(app: Parts) -> None:
    def offered(oid: str) -> Any:
        overrides = app[2].get("/config", headers=headers(oid)).json()["overrides"]
        return {each["name"]: each.get("values") for each in overrides}["include_category"]

    assert offered("oid-a") == ["secret", "x"]
    assert offered("oid-b") == ["x"]


def test_health_needs_no_passage_for_everyone(home: Path) -> None:
    with running(home) as (service, _, client):
        service.docs = DOCS[1:]
        health = client.get("/health").json()

    assert health["status"] == "ok"


def test_no_token_is_logged(app: Parts, home: Path) -> None:
    sent = headers("oid-a")
    found(ask(app[2], sent))
    logs = "".join(path.read_text("utf-8") for path in home.glob("dev-*.log"))

    assert sent["authorization"].removeprefix("Bearer ") not in logs
    assert search_token("oid-a") not in logs


ELSEWHERE = [
    document_elsewhere("open", "https://x/open.pdf", oids=["all"], groups=[]),
    document_elsewhere("hers", "https://x/hers.pdf", oids=["oid-a"], groups=[]),
    document_elsewhere("team", "https://x/team.pdf", oids=[], groups=["g2"]),
    document_elsewhere("lost", "https://x/lost.pdf", oids=[], groups=[]),
]
SOURCES = '[{{"name": "docs"}}, {{"name": "elsewhere", "kind": "{}", "permissions": {}}}]'


@pytest.mark.part("knowledge-base")
@pytest.mark.parametrize("kind", ["azureBlob", "indexedSharePoint", "indexedOneLake"])
def test_documents_elsewhere_are_shown_by_the_same_token(home: Path, kind: str) -> None:
    sources = {"AZURE_SEARCH_KNOWLEDGE_SOURCES": SOURCES.format(kind, "true")}
    with running(home, **WAYS["knowledge base"], **sources) as (service, _, client):
        service.kinds = {"elsewhere": kind}
        service.sources = {"docs": DOCS, "elsewhere": ELSEWHERE}
        results = {oid: found(ask(client, headers(oid))) for oid in VISIBLE}
        without = ask(client, headers("oid-a", ""))

    assert results["oid-a"] == {*VISIBLE["oid-a"], "open", "hers"}
    assert results["oid-b"] == {*VISIBLE["oid-b"], "open", "team"}
    assert without.status_code == 401


@pytest.mark.part("knowledge-base")
@pytest.mark.parametrize(
    ("kind", "permissions"), [("file", "true"), ("indexedSql", "true"), ("azureBlob", "false")]
)
def test_documents_without_permissions_are_refused_at_start(
    home: Path, kind: str, permissions: str
) -> None:
    sources = {"AZURE_SEARCH_KNOWLEDGE_SOURCES": SOURCES.format(kind, permissions)}
    with running(home, **WAYS["knowledge base"], **sources) as (_, _entra, client):
        response = client.get("/health")

    assert response.status_code == 503
    assert "a source that cannot be restricted" in response.text


STARTS: list[Any] = [
    ({"WEBSITE_AUTH_ENABLED": ""}, "needs sign-in"),
    ({"AZURE_SEARCH_INDEX_PUBLIC": "true"}, "contradict each other"),
    ({"SIGN_IN_TENANT_ID": ""}, "SIGN_IN_TENANT_ID is required"),
    ({"SIGN_IN_TENANT_ID": "a/b"}, "SIGN_IN_TENANT_ID"),
    ({"SIGN_IN_CLIENT_ID": ""}, "SIGN_IN_CLIENT_ID is required"),
    ({"AZURE_SEARCH_FIELDS": '{"oids": null, "groups": null}'}, "names no field with permissions"),
    ({"AZURE_SEARCH_PERMISSIONS": "token"}, "AZURE_SEARCH_PERMISSIONS"),
]


@pytest.mark.parametrize(("settings", "problem"), STARTS)
def test_settings_that_would_open_the_index_are_refused(
    home: Path, settings: dict[str, str], problem: str
) -> None:
    with running(home, **settings) as (service, _, client):
        response = client.get("/health")

    assert response.status_code == 503
    assert problem in response.text
    assert service.requests == []
