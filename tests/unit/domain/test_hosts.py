"""Which hosts are this machine."""

import pytest

from shared.domain.hosts import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("notlocalhost", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("::2", False),
        ("", False),
    ],
)
def test_loopback_is_recognised_by_name_and_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
