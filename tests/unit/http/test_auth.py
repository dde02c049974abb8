"""Who may call: users from sign-in headers, their security filters, and pages of other sites."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from shared.domain.errors import Forbidden, Unauthorized
from shared.http.auth import AccessPolicy, ApiKeyPolicy, CrossOriginPolicy, origin_of
from shared.protocols.exchange import App
from tests.support.calls import JSON, QUESTION, ask, call
from tests.support.fakes import STANDARD, FakeRetriever, make_rag

CLAIMS = [
    {"typ": "groups", "val": "g1"},
    {"typ": "groups", "val": "g2"},
    {"typ": "name", "val": "Anna"},
]
PRINCIPAL = base64.b64encode(json.dumps({"claims": CLAIMS}).encode()).decode()
ANNA = {"x-ms-client-principal-id": "anna", "x-ms-client-principal": PRINCIPAL}
ON, OFF, OPTIONAL = (
    AccessPolicy(sign_in=True),
    AccessPolicy(),
    AccessPolicy(sign_in=True, force_security_filters=False),
)


def search(access: AccessPolicy, headers: dict[str, str], **overrides: Any) -> tuple[int, Any]:
    search = FakeRetriever()
    body = {**QUESTION, "context": {"overrides": overrides}}
    service = App(make_rag(None, search), access)
    response = ask(call("/chat", body, headers=JSON | headers), service)
    if response.status != 200:
        return response.status, response.json["error"]
    user, _, used = search.calls[0]
    return 200, (
        user.oid,
        user.groups,
        bool(used.use_oid_security_filter),
        bool(used.use_groups_security_filter),
    )


def test_headers_are_ignored_with_sign_in_off() -> None:
    assert search(OFF, ANNA) == (200, (None, (), False, False))
    assert search(OFF, {**ANNA, "authorization": "Bearer x"})[0] == 200


def test_sign_in_forces_the_security_filters() -> None:
    anna = (200, ("anna", ("g1", "g2"), True, True))

    assert search(ON, ANNA) == anna
    off = {"use_oid_security_filter": False, "use_groups_security_filter": False}
    assert search(ON, ANNA, **off) == anna


def test_filters_are_optional_with_the_setting_off() -> None:
    assert search(OPTIONAL, ANNA) == (200, ("anna", ("g1", "g2"), False, False))
    result = search(OPTIONAL, ANNA, use_groups_security_filter=True)
    assert result == (200, ("anna", ("g1", "g2"), False, True))


def test_sign_in_ends_the_access_of_everybody_on_a_laptop() -> None:
    laptop, with_sign_in = AccessPolicy(single_user=True), replace(ON, single_user=True)
    key = ApiKeyPolicy(allow_anonymous=True)
    key.check(laptop, {})

    assert laptop.get_owner({}) == "local"
    assert with_sign_in.find_owner({}) is None
    assert with_sign_in.get_owner(ANNA) == "anna"
    with pytest.raises(Unauthorized, match=r"^Sign in: "):
        with_sign_in.get_owner({})
    with pytest.raises(Unauthorized):
        key.check(with_sign_in, {})


def test_anonymous_search_is_unfiltered_and_a_filter_is_a_401() -> None:
    assert search(ON, {}) == (200, (None, (), False, False))
    assert search(ON, {}, use_oid_security_filter=True)[0] == 401
    assert search(OPTIONAL, {}, use_groups_security_filter=True)[0] == 401


def test_filter_with_sign_in_off_is_a_400() -> None:
    status, message = search(OFF, ANNA, use_groups_security_filter=True)

    assert status == 400
    assert message.startswith("context.overrides.use_groups_security_filter: needs sign-in")


@pytest.mark.parametrize("claim", ["hasgroups", "_claim_names"])
def test_user_with_group_overage_has_no_groups_and_a_warning(
    claim: str, caplog: pytest.LogCaptureFixture
) -> None:
    claims = {"claims": [{"typ": claim, "val": "true"}]}
    principal = base64.b64encode(json.dumps(claims).encode()).decode()
    headers = {**ANNA, "x-ms-client-principal": principal}

    assert search(ON, headers) == (200, ("anna", (), True, True))
    assert "more groups than a token holds" in caplog.text


@pytest.mark.parametrize(
    "principal", ["", "%%%", "bm9uc2Vuc2U=", "e30=", "eyJjbGFpbXMiOm51bGx9", "W10=", "MQ=="]
)
def test_malformed_principal_has_no_groups(principal: str) -> None:
    headers = {**ANNA, "x-ms-client-principal": principal}

    assert search(ON, headers) == (200, ("anna", (), True, True))


def test_principal_over_the_limit_is_a_400() -> None:
    status, error = search(ON, {**ANNA, "x-ms-client-principal": "a" * (32 * 1024 + 1)})

    assert status == 400
    assert error == "X-MS-CLIENT-PRINCIPAL has more than 32768 characters."


def test_response_contains_only_ids_of_the_caller() -> None:
    passage = replace(STANDARD, oids=("anna", "bert"), groups=("g2", "g9"))
    service = App(make_rag(None, FakeRetriever([passage])), ON)
    response = ask(call("/chat", headers=JSON | ANNA), service)
    hit = response.json["context"]["thoughts"][2]["description"][0]

    assert (hit["oids"], hit["groups"]) == (["anna"], ["g2"])


LAPTOP = CrossOriginPolicy(frozenset({"https://a.example"}), on_laptop=True)
CODESPACE = CrossOriginPolicy(
    codespace="blue-1", codespaces_domain="app.github.dev", on_laptop=True
)
CLOUD = CrossOriginPolicy(frozenset({"https://a.example"}))


def is_refused(policy: CrossOriginPolicy, method: str = "GET", **headers: str) -> bool:
    """Whether a request is refused; `_` in a header's name is a hyphen."""
    try:
        policy.check(method, {name.replace("_", "-"): value for name, value in headers.items()})
    except Forbidden:
        return True
    return False


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example/path", "https://a.example"),
        ("https://a.example:443", "https://a.example"),
        ("http://a.example:80", "http://a.example"),
        ("http://a.example:443", "http://a.example:443"),
        ("https://a.example:8080/", "https://a.example:8080"),
    ],
)
def test_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("origin", "laptop", "cloud"),
    [
        ("https://a.example", False, False),
        ("https://A.example", False, False),
        ("http://localhost:3000", False, True),
        ("http://[::1]:3000", False, True),
        ("http://localhost:3000.evil.example", True, True),
        ("http://localhost:123456", True, True),
        ("https://b.example", True, True),
        ("ftp://localhost", True, True),
        ("null", True, True),
        ("", True, True),
    ],
)
def test_origin_is_allowed_by_name_and_on_a_laptop_if_local(
    origin: str, laptop: bool, cloud: bool
) -> None:
    anyone = CrossOriginPolicy(frozenset({"*"}), on_laptop=True)

    assert is_refused(LAPTOP, "POST", origin=origin) is laptop
    assert not is_refused(CLOUD, "POST", origin=origin)
    assert not is_refused(anyone, "POST", origin=origin)
    if cloud:
        with pytest.raises(Forbidden, match=r"^A page of another origin .* Add its origin"):
            CLOUD.check_origin({"origin": origin})
    else:
        CLOUD.check_origin({"origin": origin})


def test_other_sites_can_link_to_a_laptop_and_send_it_nothing() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}

    assert not is_refused(LAPTOP)
    assert not is_refused(LAPTOP, "GET", **link)
    assert is_refused(LAPTOP, "POST", **link)
    assert is_refused(LAPTOP, "GET", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
    assert not is_refused(LAPTOP, "GET", sec_fetch_site="same-origin", sec_fetch_mode="cors")
    assert not is_refused(LAPTOP, sec_fetch_site="cross-site", origin="https://a.example")
    assert not is_refused(CLOUD, "POST", **link)


SESSION = "ARRAffinity=1; AppServiceAuthSession=ey"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_session_serves_the_pages_of_the_app_alone(method: str) -> None:
    refused = partial(is_refused, CLOUD, method, cookie=SESSION)

    assert not refused(sec_fetch_site="same-origin", origin="https://own.domain.example")
    assert not refused(sec_fetch_site="none")
    assert not refused(origin="https://A.example")
    assert not refused(sec_fetch_site="cross-site", origin="https://a.example")
    assert refused(sec_fetch_site="cross-site", origin="https://b.example")
    assert refused(sec_fetch_site="same-site", origin="https://b.example")
    assert refused(sec_fetch_site="cross-site", origin="null")
    assert refused(sec_fetch_site="cross-site")
    assert refused(origin="https://b.example")
    assert refused()
    assert is_refused(CLOUD, method, cookie="AppServiceAuthSession1=part", origin="null")
    anyone = CrossOriginPolicy(frozenset({"*"}))
    assert is_refused(anyone, method, cookie=SESSION, origin="https://b.example")
    assert is_refused(anyone, method, cookie=SESSION, origin="*")


def test_requests_without_a_session_or_a_change_pass() -> None:
    other = {"origin": "https://b.example", "sec_fetch_site": "cross-site"}

    assert not is_refused(CLOUD, "POST", **other)
    assert not is_refused(CLOUD, "POST", cookie="ARRAffinity=1", **other)
    for method in ("GET", "HEAD", "OPTIONS"):
        assert not is_refused(CLOUD, method, cookie=SESSION, **other)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("blue-1-7071.app.github.dev", True),
        ("localhost", True),
        ("blue-1-.app.github.dev", False),
        ("blue-1-7071.appxgithub.dev", False),
        ("red-1-7071.app.github.dev", False),
        ("x-blue-1-7071.app.github.dev", False),
        ("blue-1-7071.app.github.dev.evil.example", False),
    ],
)
def test_forwarded_ports_are_local_to_their_codespace_alone(host: str, expected: bool) -> None:
    assert CODESPACE.is_local(host) is expected
    assert LAPTOP.is_local(host) is (host == "localhost")
    assert not CrossOriginPolicy(codespace="blue-1", on_laptop=True).is_local("blue-1-7071.")


def test_refusal_names_what_to_do() -> None:
    with pytest.raises(Forbidden, match=r"Open the page from localhost, or add its origin to"):
        LAPTOP.check("POST", {"origin": "https://b.example"})
