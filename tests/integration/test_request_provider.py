"""A provider that a request describes: called only by https, only where the settings allow it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from shared.bootstrap.build import build
from shared.settings import SettingsError, read_settings
from tests.support.aog_calls import aog_call
from tests.support.calls import ask, run_calls
from tests.support.flavors import openai
from tests.support.flavors.ollama import OLLAMA_FLAVOR
from tests.support.providers import provider_entry, provider_settings, run_gateways
from tests.support.servers import ROOT, SAMPLES
from tests.support.upstream import Server, response_head, run_upstream

HELLO = {
    "messages": [{"role": "user", "content": "Hello."}],
    "retrieval": False,
    "hybrid_policy": "always_remote",
}
ALLOWED = {**SAMPLES, "INLINE_PROVIDER_HOSTS": "api.example.com, Gate.example.com:8443"}
GOOD = {"url": "https://api.example.com/v1/chat/completions", "flavor": "openai"}


def refusal(inline: Any, settings: dict[str, str] = ALLOWED) -> tuple[int, int, str]:
    """What is said to a provider that is not called; the demo model has no server to be asked."""
    got = ask(
        aog_call({**HELLO, "remote_service_provider": inline}), build(read_settings(settings))
    )
    return got.status, got.json["business_code"], got.json["message"]


def test_without_an_allow_list_none_is_called() -> None:
    status, code, message = refusal(GOOD, SAMPLES)

    assert (status, code) == (403, 403)
    assert "INLINE_PROVIDER_HOSTS" in message


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.com/v1",
        "https://api.example.com.evil.com/v1",
        "https://evil.com/api.example.com",
        "https://xapi.example.com/v1",
        "https://example.com/v1",
        "https://api.example.com:8443/v1",
        "https://gate.example.com/v1",
        "https://127.0.0.1/v1",
        "https://[::1]/v1",
        "http://api.example.com/v1",
        "http://gate.example.com:8443/v1",
        "HTTP://api.example.com:443/v1",
    ],
)
def test_another_host_or_plain_http_is_refused(url: str) -> None:
    status, code, _ = refusal(GOOD | {"url": url})

    assert (status, code) == (403, 403)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com@evil.com/v1",
        "https://evil.com\\@api.example.com/v1",
        "https://api.example.com\\.evil.com/v1",
        "https://api.example.com%2eevil.com/v1",
        "https://api.example.com./v1",
        "https://api.example.com\t/v1",
        "https://\u0430pi.example.com/v1",
        "https://api\u3002example.com/v1",
        "https://api.example.com#@evil.com/v1",
        " https://api.example.com/v1",
        "file:///etc/passwd",
        "//api.example.com/v1",
        "",
        7,
        None,
    ],
)
def test_what_only_looks_like_an_allowed_address_is_none(url: Any) -> None:
    status, code, message = refusal(GOOD | {"url": url})

    assert (status, code) == (400, 40003)
    assert "remote_service_provider.url" in message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"flavor": "telnet"}, "remote_service_provider.flavor"),
        ({"auth_type": "token", "auth_key": {"ak": "a", "sk": "b"}}, "token"),
        ({"auth_type": "apikey", "auth_key": {"apikey": "${OPENAI_API_KEY}"}}, "must not refer"),
        ({"auth_type": "apikey", "auth_key": {"apikey": "${identity}"}}, "must not refer"),
        ({"auth_type": "apikey", "auth_key": {"apikey": "a\nb"}}, "auth_key"),
        ({"extra_headers": {"X": "${PATH}"}}, "must not refer"),
        ({"extra_headers": {"Host": "evil.com"}}, "Host"),
        ({"extra_headers": {"X": "a\r\nY: b"}}, "extra_headers"),
        ({"method": "DELETE"}, "remote_service_provider.method"),
        ({"extra_json_body": {"messages": []}}, "messages"),
        ({"models": [1] * 300_000}, "remote_service_provider.models[0]"),
        ({f"unknown{n}": 1 for n in range(9999)}, "is not known here"),
        ({"x" * 99_999: 1}, "is not known here"),
        ({"extra_headers": {"x" * 99_999: "\u00e9"}}, "ASCII"),
    ],
)
def test_a_description_is_validated(more: dict[str, Any], words: str) -> None:
    status, code, message = refusal(GOOD | more)

    assert (status, code) == (400, 40003)
    assert words in message
    assert len(message) < 600


def test_an_empty_description_is_one_that_is_wrong() -> None:
    assert refusal({})[:2] == (400, 40003)


def test_one_that_is_said_to_be_down_is_not_called() -> None:
    status, code, message = refusal(GOOD | {"status": 0})

    assert (status, code) == (404, 40001)
    assert "remote_service_provider.status: is 0" in message


@pytest.mark.parametrize("hosts", ["https://api.example.com", "*.example.com", "a b", "x/y"])
def test_an_allow_list_has_hosts_and_nothing_else(hosts: str) -> None:
    with pytest.raises(SettingsError, match="INLINE_PROVIDER_HOSTS must be hosts"):
        read_settings({"INLINE_PROVIDER_HOSTS": hosts})


def test_it_is_not_looked_at_where_a_local_model_answers() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        body = {**HELLO, "hybrid_policy": "default", "remote_service_provider": {"url": 7}}
        (got,) = run_calls(
            provider_settings(provider_entry(OLLAMA_FLAVOR, server), **ALLOWED), aog_call(body)
        )

    assert got.status == 200


# What is sent, to a server with a certificate that its caller trusts from the start.
CALLER = """
import asyncio, json, sys
from shared.app import handle_call
from shared.bootstrap.build import build
from shared.settings import read_settings
from tests.support.calls import read as read_reply
from tests.support.aog_calls import aog_call
settings, bodies = json.load(sys.stdin)
async def go():
    service = build(read_settings(settings))
    for body in bodies:
        got = await read_reply(await handle_call(service, aog_call(body)))
        print(json.dumps([got.status, got.data.decode()]))
asyncio.run(go())
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    ca, path = trustme.CA(), tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return ca, path


@pytest.fixture
def far(authority: tuple[trustme.CA, Path]) -> Iterator[openai.Server]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority[0].issue_cert("127.0.0.1", "localhost").configure_cert(tls)
    with run_upstream(openai.Server(), tls) as server:
        yield server


def call_app(authority: tuple[trustme.CA, Path], server: Server, *bodies: Any) -> list[Any]:
    """What the app answers, in a process that trusts the server."""
    host = server.url.removeprefix("https://")
    settings = {
        **SAMPLES,
        "INLINE_PROVIDER_HOSTS": host,
        "OPENAI_API_KEY": "the-app-s-own-key",
        "IDENTITY_ENDPOINT": "http://127.0.0.1:1/never",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OPENAI_CHAT_MODEL": "m",
    }
    done = subprocess.run(
        [sys.executable, "-c", CALLER],
        input=json.dumps([settings, bodies]),
        env={**os.environ, "SSL_CERT_FILE": str(authority[1])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(each) for each in done.stdout.splitlines()]


def test_an_allowed_one_answers_with_the_caller_s_key_and_never_ours(
    authority: tuple[trustme.CA, Path], far: openai.Server
) -> None:
    inline = {
        "provider_name": "mine",
        "url": f"{far.url}/v1/chat/completions",
        "flavor": "openai",
        "auth_type": "apikey",
        "auth_key": {"apikey": "the-callers-own"},
        "extra_headers": {"X-Team": "blue"},
        "extra_json_body": {"user": "me"},
        "models": ["theirs"],
    }
    body = {**HELLO, "remote_service_provider": inline}
    keyless = {key: value for key, value in inline.items() if not key.startswith("auth")}
    first, second, third = call_app(
        authority,
        far,
        body,
        {**body, "model": "other"},
        {**body, "remote_service_provider": keyless},
    )

    assert [status for status, _ in (first, second, third)] == [200, 200, 200]
    assert "Remote [a.md]." in first[1]
    assert [request.body["model"] for request in far.requests] == ["theirs", "other", "theirs"]
    assert far.requests[0].headers["authorization"] == "Bearer the-callers-own"
    assert far.requests[0].headers["x-team"] == "blue"
    assert far.requests[0].body["user"] == "me"
    assert "authorization" not in far.requests[2].headers
    assert all("the-app-s-own-key" not in str(request) for request in far.requests)
    assert "the-callers-own" not in first[1]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(
    authority: tuple[trustme.CA, Path], far: openai.Server, status: int
) -> None:
    with run_upstream(Server()) as elsewhere:
        far.plan = [[response_head(status, {"Location": f"{elsewhere.url}/v1"}), b"0\r\n\r\n"]]
        inline = {"url": f"{far.url}/v1/chat/completions", "flavor": "openai"}
        ((got, data),) = call_app(authority, far, {**HELLO, "remote_service_provider": inline})

        assert got == 502
        assert "40017" in data
        assert elsewhere.requests == []
    assert len(far.requests) == 1
