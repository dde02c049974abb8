"""Parses the address of documents in Blob storage.

An example is `https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

from shared.bootstrap.local_settings import UsageError
from shared.domain.hosts import is_loopback

# Of Azure's clouds. A token for storage is sent to no other host.
_DOMAINS = (
    "core.windows.net",
    "core.usgovcloudapi.net",
    "core.chinacloudapi.cn",
    "storage.azure.net",
)
_FORM = "https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER"
NOT_STORAGE = f"DOCS is neither a folder nor an address of Blob storage, such as {_FORM}."
WITH_QUERY = (
    "DOCS: leave out of the address what follows ? or #, such as a SAS token: the command signs in "
    "by itself. In a name, write ? as %3F and # as %23."
)
NO_PATH = "DOCS: a part of the folder in the address is empty, `.` or `..`."
NO_CONTAINER = f"DOCS: the address names no container, as {_FORM} does."


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """A container of an account, and the path of a folder in it."""

    endpoint: str  # of the account, for blobs
    container: str
    prefix: str  # of the names of the documents' blobs: empty, or it ends with `/`

    @property
    def account(self) -> str:
        """The account, whatever its endpoint: it has others, such as NAME-secondary."""
        host = urlsplit(self.endpoint).hostname or ""
        return self.endpoint if self.is_emulator else re.split("[.-]", host)[0]

    @property
    def is_emulator(self) -> bool:
        """Whether the account is in an emulator on this machine."""
        return is_loopback(urlsplit(self.endpoint).hostname or "")

    @property
    def data_lake_endpoint(self) -> str:
        """The endpoint of the account for directories and access lists."""
        return self.endpoint.replace(".blob.", ".dfs.", 1)

    def __str__(self) -> str:
        return f"{self.endpoint}/{self.container}/{quote(self.prefix)}".rstrip("/")


def parse_address(text: str) -> StorageAddress:
    """Parse an address. Raises UsageError, whose message does not contain it: it may hold a key."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname or "", url.port
    except ValueError:
        raise UsageError(NOT_STORAGE) from None
    is_emulator = is_loopback(host)
    url = url._replace(netloc=url.netloc.lower())
    if url.scheme != "https" or url.username is not None or not (is_emulator or _is_storage(host)):
        raise UsageError(NOT_STORAGE)
    if url.query or url.fragment:
        raise UsageError(WITH_QUERY)
    return _split_path(url, is_emulator)


def _is_storage(host: str) -> bool:
    is_azure = host.endswith(tuple(f".{domain}" for domain in _DOMAINS))
    has_service = ".blob." in host or ".dfs." in host
    return is_azure and has_service and re.fullmatch(r"[a-z0-9.-]+", host) is not None


def _split_path(url: SplitResult, is_emulator: bool) -> StorageAddress:
    """Split the path of an address; an emulator has the account in it."""
    parts = [unquote(part) for part in url.path.split("/")[1:]]
    account = parts[:1] if is_emulator else []
    container, *folders = parts[len(account) :] or [""]
    if not container:
        raise UsageError(NO_CONTAINER)
    endpoint = "/".join([f"https://{url.netloc.replace('.dfs.', '.blob.', 1)}", *account])
    if folders[-1:] == [""]:  # behind the last slash
        folders.pop()
    if {"", ".", ".."} & set(folders):
        raise UsageError(NO_PATH)
    prefix = "/".join(folders)
    return StorageAddress(endpoint, container, f"{prefix}/" if prefix else "")
