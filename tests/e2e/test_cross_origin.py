"""Cross-site requests and DNS rebinding against an app on a laptop."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.bootstrap.build import build
from shared.domain.errors import Forbidden
from shared.settings import SettingsError, read_settings
from tests.support.calls import JSON, BufferedReply, ask, call
from tests.support.servers import COMMAND_MODEL, LAPTOP, SAMPLES, Server, run_server

CODESPACE = {
    "CODESPACE_NAME": "fluffy-train-4g7",
    "GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN": "app.github.dev",
}
FORWARDED = "fluffy-train-4g7-7071.app.github.dev"
EVIL = "https://evil.example"
QUESTION = {"messages": [{"role": "user", "content": "say hello"}]}
EXPOSED = "access-control-expose-headers"
CROSS_SITE = {"sec-fetch-site": "cross-site"}


def call_models(
    headers: Mapping[str, str], method: str = "GET", settings: Mapping[str, str] = LAPTOP
) -> BufferedReply:
    """Call /v1/models of an app with these settings."""
    service = build(read_settings({**SAMPLES, **settings}))
    return ask(call("/v1/models", b"", JSON | dict(headers), method=method), service)


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:3000",
        "HTTPS://LOCALHOST:7071",
        "http://page.localhost:3000",
        "http://127.0.0.1:5173",
        "http://127.9.9.9",
        "http://[::1]:7071",
    ],
)
def test_local_origin_is_allowed(origin: str) -> None:
    assert call_models({"origin": origin}).status == 200
    assert call_models({"origin": origin, **CROSS_SITE}).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        EVIL,
        "null",
        "",
        "http://localhost.evil.example",
        "http://evillocalhost",
        "http://127.0.0.1.evil.example",
        "http://localhost@evil.example",
        "http://0.0.0.0",
        "http://192.168.1.20:3000",
        "http://[::ffff:8.8.8.8]",
        "http://[",
        "http://localhost:80.evil.example",
        "http://localhost:evil",
        "http://evil@localhost",
        "http://localhost/evil",
        "file://localhost",
        "chrome-extension://localhost",
        f"https://{FORWARDED}",
    ],
)
def test_foreign_origin_is_rejected(origin: str) -> None:
    for method in ("GET", "HEAD", "POST"):
        response = call_models({"origin": origin}, method)
        assert response.status == 403
    assert "ALLOWED_ORIGINS" in call_models({"origin": origin}).json["error"]["message"]


@pytest.mark.parametrize(
    ("method", "mode", "status"),
    [
        ("GET", "navigate", 200),
        ("GET", "no-cors", 403),
        ("GET", "", 403),
        ("HEAD", "navigate", 403),
        ("POST", "navigate", 403),
    ],
)
def test_cross_site_request_without_origin_must_be_a_navigation(
    method: str, mode: str, status: int
) -> None:
    assert call_models({**CROSS_SITE, "sec-fetch-mode": mode}, method).status == status
    same = {"sec-fetch-site": "same-origin", "sec-fetch-mode": mode}
    assert call_models(same, method).status != 403


def test_request_without_browser_headers_is_allowed() -> None:
    assert call_models({}).status == 200


def test_allowed_origins_are_accepted() -> None:
    settings = {**LAPTOP, "ALLOWED_ORIGINS": "https://chat.example.com/, http://other:8080"}

    assert call_models({"origin": "https://CHAT.example.com"}, settings=settings).status == 200
    assert call_models({"origin": "http://other:8080"}, settings=settings).status == 200
    assert call_models({"origin": "http://other"}, settings=settings).status == 403
    assert call_models({"origin": "http://chat.example.com"}, settings=settings).status == 403
    assert call_models({"origin": EVIL}, settings={**LAPTOP, "ALLOWED_ORIGINS": "*"}).status == 200


@pytest.mark.parametrize("value", ["chat.example.com", "https://a/b", "https://a b", "https://u@a"])
def test_invalid_allowed_origin_is_rejected(value: str) -> None:
    with pytest.raises(SettingsError, match="ALLOWED_ORIGINS must be origins such as"):
        read_settings({"ALLOWED_ORIGINS": f"http://good.example, {value}"})


def test_forwarded_codespace_origins_are_allowed() -> None:
    settings = {**LAPTOP, **CODESPACE}
    other = FORWARDED.replace("fluffy", "silly")

    assert call_models({"origin": f"https://{FORWARDED}"}, settings=settings).status == 200
    assert call_models({"origin": f"https://{other}"}, settings=settings).status == 403
    assert call_models({"origin": f"https://x.{FORWARDED}"}, settings=settings).status == 403


def test_policy_is_off_in_azure() -> None:
    settings = {"WEBSITE_SITE_NAME": "chat", "CHAT_API_KEY": "a-key-of-20-characters"}
    headers = {"origin": EVIL, "api-key": "a-key-of-20-characters"}

    assert call_models(headers, settings=settings).status == 200


AZURE = {"WEBSITE_SITE_NAME": "chat", "WEBSITE_HOSTNAME": "Chat.azurewebsites.net"}
CONTAINER = {"CONTAINER_NAME": "", "AZURE_FUNCTIONS_ENVIRONMENT": ""}


def allows_origin(origin: str, settings: Mapping[str, str]) -> bool:
    """Whether a route that checks `Origin` everywhere accepts this one."""
    policy = build(read_settings({**SAMPLES, **settings})).cross_origin
    try:
        policy.check_origin({"origin": origin, "host": origin.partition("//")[2]})
    except Forbidden as error:
        assert "ALLOWED_ORIGINS" in str(error)
        return False
    return True


@pytest.mark.parametrize(
    ("origin", "settings"),
    [
        ("https://chat.azurewebsites.net", AZURE),
        ("https://chat.example.com", {**AZURE, "PUBLIC_URL": "https://Chat.example.com:443/a"}),
        ("https://chat.azurewebsites.net", {**AZURE, "PUBLIC_URL": "https://chat.example.com"}),
        ("http://chat.example.com", {**CONTAINER, "PUBLIC_URL": "http://chat.example.com:80"}),
        ("http://chat:8080", {**CONTAINER, "PUBLIC_URL": "http://chat:8080/"}),
        ("https://page.example", {**AZURE, "ALLOWED_ORIGINS": "https://page.example"}),
        ("http://localhost:3000", {**AZURE, "ALLOWED_ORIGINS": "http://localhost:3000"}),
        (EVIL, {**CONTAINER, "ALLOWED_ORIGINS": "*"}),
        ("http://localhost:3000", LAPTOP),
        ("https://tunnel.example", {**LAPTOP, "PUBLIC_URL": "https://Tunnel.example/"}),
        (f"https://{FORWARDED}", {**LAPTOP, **CODESPACE}),
    ],
)
def test_own_and_allowed_origins_pass_the_check_of_a_route(
    origin: str, settings: Mapping[str, str]
) -> None:
    assert allows_origin(origin, settings)


@pytest.mark.parametrize("settings", [AZURE, CONTAINER])
@pytest.mark.parametrize(
    "origin",
    [
        EVIL,
        "null",
        "",
        "http://localhost:3000",
        "http://127.0.0.1",
        "http://chat.azurewebsites.net",
        "https://chat.azurewebsites.net.evil.example",
        "https://chat.azurewebsites.net:8443",
        f"https://{FORWARDED}",
    ],
)
def test_other_origins_fail_the_check_of_a_route_outside_a_laptop(
    origin: str, settings: Mapping[str, str]
) -> None:
    assert not allows_origin(origin, {**settings, **CODESPACE})


def test_own_address_of_a_container_is_no_allowed_origin() -> None:
    assert not allows_origin("http://localhost:80", {**CONTAINER, "WEBSITE_HOSTNAME": "localhost"})


def test_host_name_of_a_laptop_is_no_allowed_origin() -> None:
    settings = {
        **LAPTOP,
        "PUBLIC_URL": "https://tunnel.example",
        "WEBSITE_HOSTNAME": "evil.example",
    }

    assert not allows_origin("http://evil.example", settings)
    assert not allows_origin("http://tunnel.example", settings)


def test_request_without_origin_passes_the_check_of_a_route() -> None:
    for settings in (AZURE, CONTAINER, LAPTOP):
        build(read_settings({**SAMPLES, **settings})).cross_origin.check_origin({})


@pytest.fixture(scope="module")
def laptop(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("laptop")
    settings = {**COMMAND_MODEL, "MEMORY_FILE": str(folder / "memory.db")}
    with run_server(kind, folder, settings) as running, running.client() as client:
        yield client


FORM = {"json": (None, json.dumps(QUESTION), "application/json")}
ATTACKS: Mapping[str, Any] = {
    "a form with a question": {"method": "POST", "url": "/chat", "files": FORM},
    "a conversation without a body": {"method": "POST", "url": "/_plugins/_ml/memory"},
    "a pipeline": {"method": "PUT", "url": "/_search/pipeline/x", "json": {}},
    "the conversations": {"method": "GET", "url": "/_plugins/_ml/memory"},
    "an image's address": {"method": "GET", "url": "/content/plans/northwind_health_plus.pdf"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_cross_site_attack_is_rejected(laptop: httpx.Client, attack: str) -> None:
    for headers in ({"origin": EVIL}, CROSS_SITE):
        answer = laptop.request(**ATTACKS[attack], headers=headers)
        assert answer.status_code == 403

    memories = laptop.get("/_plugins/_ml/memory").json()
    assert memories["memories"] == []


def test_local_page_gets_an_answer(laptop: httpx.Client) -> None:
    answer = laptop.post("/chat", json=QUESTION, headers={"origin": "http://localhost:3000"})

    assert answer.status_code == 200


@pytest.fixture(scope="module")
def dev_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A dev server with an additional host name."""
    settings = {**COMMAND_MODEL, **CODESPACE, "ALLOWED_HOSTS": "Box.example, other.example:8080"}
    with run_server("dev", tmp_path_factory.mktemp("dev"), settings) as running:
        yield running


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:7071", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:7071", 200),
        ("[::1]:7071", 200),
        ("[::1]", 200),
        (FORWARDED, 200),
        ("box.example", 200),
        ("box.example:9000", 200),
        ("other.example:8080", 200),
        ("other.example:8081", 403),
        ("evil.example", 403),
        ("evil.example:7071", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:7071", 403),
        ("0.0.0.0:7071", 403),
        ("", 403),
    ],
)
def test_dev_server_rejects_unknown_hosts(dev_server: Server, host: str, status: int) -> None:
    with dev_server.client() as client:
        answer = client.get("/_search?q=dental", headers={"host": host})

    assert answer.status_code == status
    if status == 403:
        assert "ALLOWED_HOSTS" in answer.json()["error"]


@pytest.mark.parametrize("origin", ["http://localhost:8080", "http://127.0.0.1:41234"])
def test_page_on_this_machine_may_read_answers_of_the_dev_server(
    dev_server: Server, origin: str
) -> None:
    preflight = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-ms-useragent",
    }
    with dev_server.client() as client:
        allowed = client.options("/chat", headers=preflight)
        answer = client.post("/chat", json=QUESTION, headers={"origin": origin})

    assert allowed.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    exposed = {name.lower() for name in re.split(", *", answer.headers[EXPOSED])}
    assert exposed == {"x-request-id", "retry-after", "x-chat-notice", "www-authenticate"}


@pytest.mark.parametrize("origin", [EVIL, "http://localhost.evil.example", "null"])
def test_page_elsewhere_may_not_read_answers_of_the_dev_server(
    dev_server: Server, origin: str
) -> None:
    with dev_server.client() as client:
        preflight = client.options(
            "/chat", headers={"origin": origin, "access-control-request-method": "POST"}
        )
        answer = client.post("/chat", json=QUESTION, headers={"origin": origin})

    assert (preflight.status_code, answer.status_code) == (400, 403)
    for response in (preflight, answer):
        assert "access-control-allow-origin" not in response.headers


def test_dev_server_sends_cors_headers_to_allowed_origins(tmp_path: Path) -> None:
    settings = {**COMMAND_MODEL, "ALLOWED_ORIGINS": "https://b.example, https://A.example/"}
    with run_server("dev", tmp_path, settings) as running, running.client() as client:
        good = client.post("/chat", json=QUESTION, headers={"origin": "https://a.example"})
        bad = client.post("/chat", json=QUESTION, headers={"origin": EVIL})

    assert (good.status_code, bad.status_code) == (200, 403)
    assert good.headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in bad.headers


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-origin", 200)])
def test_a_form_of_another_site_cannot_use_a_session(site: str, status: int) -> None:
    in_azure = {"WEBSITE_AUTH_ENABLED": "True", "WEBSITE_INSTANCE_ID": "a", "CALLERS": "signed-in"}
    service = build(read_settings({**SAMPLES, **in_azure}))
    part = b'--b\r\nContent-Disposition: form-data; name="json"\r\n\r\n'
    form = part + json.dumps(QUESTION).encode() + b"\r\n--b--\r\n"
    headers = {
        "content-type": "multipart/form-data; boundary=b",
        "cookie": "AppServiceAuthSession=ey",
        "origin": EVIL if status == 403 else "https://chat.example.com",
        "sec-fetch-site": site,
        "x-ms-client-principal-id": "anna",
    }

    assert ask(call("/chat", form, headers), service).status == status
