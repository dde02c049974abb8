"""Access policy: users from sign-in headers, and the security filters of their searches."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.errors import Unauthorized
from shared.http.auth import AccessPolicy, ApiKeyPolicy
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
