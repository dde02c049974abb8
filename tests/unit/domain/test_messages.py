"""URLs of images: only public DNS names, because the model's server fetches them."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import HttpUrl

from shared.domain.messages import check_image_url
from tests.support.fuzz import FUZZ

ACCEPTED = [
    "https://example.com/picture.png",
    "http://example.com",
    "https://EXAMPLE.com:8443/a%20b/c.png?width=3&u=http://127.0.0.1/#top",
    "https://xn--bcher-kva.example.com/@127.0.0.1",
    "https://pictures.xn--p1ai/1.png",
    "https://3.example.co.uk/",
    "https://de.be/0x7f000001",
    "data:image/png;base64,YAAADBPx",
    "data:image/png;base64," + "A" * 5000,
]
ADDRESSES = [
    *("127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "0"),
    *("0x7f.0.0.1", "017700000001", "127.0.0.0x1", "0x", "1.2.3.08", "169.254.169.254"),
    *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1%25eth0]", "[::1", "::1"),
    *("\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1"),
    *("%31%32%37.0.0.1", "127%2e0%2e0%2e1", "127.0.0.1%00.example.com", "8.8.8.8"),
]
LOCAL = [
    *("localhost", "LOCALHOST", "localhost.", "app.localhost", "metadata", "printer.local"),
    *("metadata.google.internal", "host.docker.internal", "nas.lan", "nas.home", "box.home.arpa"),
    *("wiki.corp", "wiki.intranet", "wiki.private", "localhost.localdomain", "a.test"),
    *("1.0.0.127.in-addr.arpa", "a.invalid", "a.example", "a.onion", "kubernetes.default.svc"),
    *("db.svc.cluster.local", "loc\u00e4lhost", "\u24dbocalhost", "loca\u212ahost.com"),
]
MALFORMED = [
    *("example.com@127.0.0.1", "user@example.com", "user:word@example.com", "@example.com"),
    *("127.0.0.1\\@example.com", "127.0.0.1\\.example.com", "example.com\\", "example.com:"),
    *("example.com:80@127.0.0.1", "example.com:0", "example.com:x", "example.com:-1"),
    *("127.0.0.1#@example.com", "example.com#@127.0.0.1", "example.com?@127.0.0.1", "", ".", ".."),
    *("exam\tple.com", "example.com\n", "\nexample.com", "example.com ", " example.com"),
    *("example..com", ".example.com", "example.com.", "-a.example.com", "a-.example.com"),
    *("a_b.example.com", "exam!ple.com", "a" * 64 + ".com", "a." * 126 + "ab", "example.c"),
    "a.xn--" + "b" * 60,
    *("example.c0m", "example.xn--", "example,com", "/127.0.0.1", "example.com&@127.0.0.1"),
]


@pytest.mark.parametrize("url", ACCEPTED)
def test_url_of_a_public_host_is_accepted(url: str) -> None:
    check_image_url(url)


@pytest.mark.parametrize("host", [*ADDRESSES, *LOCAL, *MALFORMED])
@pytest.mark.parametrize("form", ["https://{}/a.png", "http://{}"])
def test_url_of_another_host_is_rejected(form: str, host: str) -> None:
    with pytest.raises(ValueError, match=r"^must name a public host.*model's server fetches it"):
        check_image_url(form.format(host))


@pytest.mark.parametrize(
    "path", ["/a b", "/a\r\nHost: x", "/a\t", "/\\@127.0.0.1", "/\u00e9", "\n"]
)
def test_unencoded_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match=r"^must name a public host"):
        check_image_url(f"https://example.com{path}")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "ftp://example.com/",
        "//example.com",
        "https:example.com",
        "data:,",
    ],
)
def test_another_scheme_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match=r"^must begin with https://, http:// or data:image/$"):
        check_image_url(url)


def test_url_over_2000_characters_is_rejected() -> None:
    longest = "https://example.com/".ljust(2000, "a")
    check_image_url(longest)
    with pytest.raises(ValueError, match=r"^must have 2000 characters at most"):
        check_image_url(longest + "a")


NAMES = ["example.com", "a.example.org", "xn--bcher-kva.de", "b-c.co.uk", "1.io"]
text = st.text(alphabet="a1.:@/\\#?%[]\t\n \u3002\uff11\u212a-_", max_size=6)
plain = st.tuples(
    st.sampled_from(["https://", "http://"]),
    st.sampled_from([*NAMES * 40, *ADDRESSES, *LOCAL, *MALFORMED]),
    st.sampled_from(["", ":80", ":8443"]),
    st.sampled_from(["", "/", "/a.png", "/@127.0.0.1", "/?u=http://[::1]/#x"]),
)
mixed = st.tuples(st.just("https://"), text, st.sampled_from([*NAMES, *ADDRESSES]), text)
urls = st.sampled_from([plain, plain, mixed]).flatmap(lambda parts: parts).map("".join)


def is_public_name(host: str | None) -> bool:
    """Whether a host is a public DNS name, independently of the tested code."""
    with suppress(ValueError):
        ipaddress.ip_address(str(host))
        return False
    with suppress(OSError):
        socket.inet_aton(str(host))  # parses short, octal and hexadecimal forms
        return False
    labels = str(host).split(".")
    reserved = {"localhost", "local", "internal", "arpa", "lan", "home", "test", "invalid", "corp"}
    return (
        len(labels) > 1
        and all(label.isascii() and label.replace("-", "a").isalnum() for label in labels)
        and not labels[-1][0].isdigit()
        and labels[-1] not in reserved
    )


def test_accepted_urls_have_one_public_host_in_every_parser() -> None:
    results = []

    @FUZZ
    @given(urls)
    def check(url: str) -> None:
        try:
            check_image_url(url)
        except ValueError:
            results.append(False)
            return
        results.append(True)
        assert is_public_name(urlsplit(url).hostname)
        assert urlsplit(url).hostname == HttpUrl(url).host == httpx.URL(url).raw_host.decode()

    check()
    assert sum(results) * 3 >= len(results)
