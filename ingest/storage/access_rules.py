"""Reads the access lists of a container, where the account has a hierarchical namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from azure.core.exceptions import HttpResponseError
from azure.storage.filedatalake.aio import FileSystemClient

from ingest.acl import DocumentReaders
from ingest.concurrency import for_each_concurrently
from ingest.document import UnreadableDocument
from ingest.storage.access_list import (
    AccessList,
    InvalidAccessList,
    find_readers,
    parse_access_list,
)
from shared.azure.errors import map_errors, map_malformed_response
from shared.bootstrap.local_settings import UsageError
from shared.domain.errors import Misconfigured
from shared.files import blobs

TIMEOUT_SECONDS = 120  # of a request with its retries
ROLE = "Storage Blob Data Owner"
# 400 does not say that the account has no lists if it is about the form of the request.
INVALID_REQUESTS = (
    *("InvalidHeaderValue", "InvalidQueryParameterValue", "InvalidUri", "MissingRequiredHeader"),
    *("OutOfRangeQueryParameterValue", "UnsupportedHeader", "UnsupportedQueryParameter"),
)
FLAT_ACCOUNT = "EndpointUnsupportedAccountFeatures"  # one with soft delete for blobs
ROOT = PurePosixPath(".")  # the path of the container's own folder
REFUSED = (
    "The service refuses to show the access lists (status {status}). Whoever runs this needs the "
    "role {role} on the account or the container; without access lists: --no-rules, if all "
    "documents are public, or an acl.yaml."
)
UNCLEAR = (
    "The service does not tell whether the account has access lists (status {status}, code "
    "{code!r:.80}). Say so: --permissions, if they count, --no-rules, if all documents are public, "
    "or an acl.yaml."
)
UNKNOWN = "Its access list, or that of a folder above it, cannot be read: it is for nobody."
NOBODY = "By the access lists, no user and no group may read it for sure."


@dataclass(frozen=True, slots=True)
class AccessListRules:
    """Who may see the documents of a container, by their access lists."""

    # By the document's name; the reason where it is for nobody
    readers: Mapping[str, DocumentReaders | str]

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules: never, as each document has an access list."""
        return False

    def readers_of(self, name: str) -> DocumentReaders:
        """Who may see the document of this name. Raises UnreadableDocument if nobody may."""
        readers = self.readers[name]
        if isinstance(readers, str):
            raise UnreadableDocument(readers)
        return readers

    def public_by_default(self, _names: Iterable[str]) -> set[str]:
        """The documents that are public without a rule: none."""
        return set()


@dataclass(frozen=True, slots=True)
class AccessListReader:
    """Reads the access lists of a container. The methods raise ChatErrors."""

    container: FileSystemClient
    is_emulator: bool = False

    async def has_access_lists(self) -> bool:
        """Whether the account has access lists, that is, a hierarchical namespace.

        Raises UsageError where the service does not tell.
        """
        try:
            await self._request_list(ROOT)
        except _Refused as refused:
            if self._is_flat(refused):
                return False
            values = {"status": refused.status, "code": refused.code}
            if refused.status in (401, 403):
                raise Misconfigured(REFUSED.format(role=ROLE, **values)) from refused
            raise UsageError(UNCLEAR.format(**values)) from refused
        return True

    def _is_flat(self, refused: _Refused) -> bool:
        """Whether a refusal says that the account has no hierarchical namespace."""
        if refused.status == 400:
            return refused.code not in INVALID_REQUESTS
        if refused.status == 404:  # an emulator knows no folders
            return self.is_emulator
        return refused.status == 409 and refused.code == FLAT_ACCOUNT

    async def read_rules(
        self, prefix: str, names: Iterable[str], on_path: Callable[[], object]
    ) -> AccessListRules:
        """Read the access lists of the documents below a path, and of all folders above them.

        `on_path` is called for each list.
        """
        paths = {name: PurePosixPath(prefix, name) for name in names}
        folders = {folder for path in paths.values() for folder in path.parents}
        lists: dict[PurePosixPath, AccessList | None] = {}

        async def read(path: PurePosixPath) -> None:
            lists[path] = await self._read(path)
            on_path()

        await for_each_concurrently(read, sorted(folders | set(paths.values())))
        return AccessListRules({name: _find_readers(path, lists) for name, path in paths.items()})

    async def _read(self, path: PurePosixPath) -> AccessList | None:
        """Read the access list of a path; None where that is refused, or its form is unknown."""
        try:
            found = await self._request_list(path)
            return parse_access_list(*(found[key] or "" for key in ("acl", "owner", "group")))
        except (_Refused, InvalidAccessList):
            return None

    async def _request_list(self, path: PurePosixPath) -> Mapping[str, str | None]:
        """Request the access list of a path. Raises _Refused."""
        client = self.container.get_directory_client("/" if path == ROOT else path.as_posix())
        with map_errors("storage", _map_status), map_malformed_response():
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await client.get_access_control(upn=False)


def _find_readers(
    path: PurePosixPath, lists: Mapping[PurePosixPath, AccessList | None]
) -> DocumentReaders | str:
    """Return who may read a file, or why nobody may."""
    file, folders = lists[path], [lists[folder] for folder in path.parents]
    known = [each for each in folders if each is not None]
    if file is None or len(known) < len(folders):
        return UNKNOWN
    return find_readers(file, known) or NOBODY


class _Refused(Exception):
    """The service does not show the access list of a path."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.status, self.code = status, code


def _map_status(error: HttpResponseError) -> Exception:
    code = blobs.error_code(error)
    if error.status_code in (400, 401, 403, 404) or code == FLAT_ACCOUNT:
        return _Refused(error.status_code or 0, code)
    return blobs.map_status(error, role=ROLE)
