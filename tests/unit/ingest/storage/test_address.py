"""Addresses of documents in Blob storage."""

from __future__ import annotations

import pytest

from ingest.storage.address import (
    NO_CONTAINER,
    NO_PATH,
    NOT_STORAGE,
    WITH_QUERY,
    StorageAddress,
    parse_address,
)
from shared.bootstrap.local_settings import UsageError

ACCOUNT = "https://contoso.blob.core.windows.net"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (f"{ACCOUNT}/docs", StorageAddress(ACCOUNT, "docs", "")),
        (f"{ACCOUNT}/docs/", StorageAddress(ACCOUNT, "docs", "")),
        (f"{ACCOUNT}/docs/hr/plans/", StorageAddress(ACCOUNT, "docs", "hr/plans/")),
        ("HTTPS://Contoso.BLOB.core.windows.net/docs", StorageAddress(ACCOUNT, "docs", "")),
        ("https://contoso.Dfs.core.windows.net/docs", StorageAddress(ACCOUNT, "docs", "")),
        (f"{ACCOUNT}/docs/a%20b/%23c", StorageAddress(ACCOUNT, "docs", "a b/#c/")),
        (
            "https://contoso.dfs.core.windows.net/docs/hr",
            StorageAddress(ACCOUNT, "docs", "hr/"),
        ),
        (
            "https://contoso.z01.blob.storage.azure.net/docs",
            StorageAddress("https://contoso.z01.blob.storage.azure.net", "docs", ""),
        ),
        (
            "https://contoso.blob.core.usgovcloudapi.net/docs",
            StorageAddress("https://contoso.blob.core.usgovcloudapi.net", "docs", ""),
        ),
        (
            "https://127.0.0.1:10000/devstoreaccount1/docs/hr",
            StorageAddress("https://127.0.0.1:10000/devstoreaccount1", "docs", "hr/"),
        ),
    ],
)
def test_address_is_parsed(text: str, address: StorageAddress) -> None:
    assert parse_address(text) == address


def test_address_is_written_as_it_is_typed() -> None:
    assert str(parse_address(f"{ACCOUNT}/docs/a%20b/")) == f"{ACCOUNT}/docs/a%20b"
    assert str(parse_address(f"{ACCOUNT}/docs/")) == f"{ACCOUNT}/docs"


def test_data_lake_has_an_endpoint_of_its_own() -> None:
    address = parse_address(f"{ACCOUNT}/docs.blob.x")

    assert address.data_lake_endpoint == "https://contoso.dfs.core.windows.net"


@pytest.mark.parametrize(
    "host",
    [
        "contoso.dfs.core.windows.net",
        "contoso-secondary.blob.core.windows.net",
        "contoso-internetrouting.blob.core.windows.net",
        "contoso.privatelink.blob.core.windows.net",
    ],
)
def test_account_has_several_endpoints(host: str) -> None:
    account = parse_address(f"{ACCOUNT}/docs").account

    assert parse_address(f"https://{host}/docs").account == account == "contoso"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://contoso.blob.core.windows.net/docs", NOT_STORAGE),
        ("https://example.com/docs", NOT_STORAGE),
        ("https://contoso.blob.core.windows.net.example.com/docs", NOT_STORAGE),
        ("https://blob.core.windows.net.evil.test/docs", NOT_STORAGE),
        ("https://contoso.queue.core.windows.net/docs", NOT_STORAGE),
        ("https://core.windows.net/docs", NOT_STORAGE),
        ("https://contoso.blob.core.windows.net:port/docs", NOT_STORAGE),
        ("https://user:secret@contoso.blob.core.windows.net/docs", NOT_STORAGE),
        ("s3://docs", NOT_STORAGE),
        (f"{ACCOUNT}/docs?sv=2026&sig=secret", WITH_QUERY),
        (f"{ACCOUNT}/docs/#1", WITH_QUERY),
        (f"{ACCOUNT}/docs//hr", NO_PATH),
        (f"{ACCOUNT}/docs/hr//", NO_PATH),
        (f"{ACCOUNT}/docs/hr/../board", NO_PATH),
        (f"{ACCOUNT}/docs/./hr", NO_PATH),
        ("https://evil.test%2f.blob.core.windows.net/docs", NOT_STORAGE),
        ("https://evil.test;.blob.core.windows.net/docs", NOT_STORAGE),
        (ACCOUNT, NO_CONTAINER),
        (f"{ACCOUNT}/", NO_CONTAINER),
    ],
)
def test_other_addresses_are_refused_without_their_secrets(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address(text)

    assert str(refused.value) == message
