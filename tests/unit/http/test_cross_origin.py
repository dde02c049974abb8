"""Pages of other sites: which origins, hosts and navigations pass."""

from __future__ import annotations

import pytest

from shared.domain.errors import Forbidden
from shared.http.auth import CrossOriginPolicy, origin_of

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
