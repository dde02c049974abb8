"""Lists and reads documents in Blob storage. Unchanged ones are known by their ETag."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobProperties
from azure.storage.blob.aio import ContainerClient

from ingest import acl
from ingest.document import UnreadableDocument, too_large_message
from ingest.scan import Listing, hash_inputs, is_system_file
from ingest.secrets import describe_secret, describe_secret_name
from ingest.storage.address import StorageAddress
from shared.azure.errors import map_errors, map_malformed_response
from shared.bootstrap.local_settings import UsageError
from shared.domain.errors import Misconfigured
from shared.files import blobs

TIMEOUT_SECONDS = 600  # of a page of a listing, and of a download, with their retries
ROLE = "Storage Blob Data Reader"
NO_CONTAINER = "{address}: there is no such container."
REFUSED = (
    "{address}: the service refuses to show its documents. Whoever runs this needs the role {role} "
    "on the account or the container."
)
RULES_ABOVE = (
    "The container has rules for this folder too, in {name}: index the folder of that {file}."
)
# Why a blob cannot be read that could be listed, by the service's code.
REASONS: Mapping[str, str] = {
    "BlobArchived": "It is in the archive tier.",
    "BlobNotFound": "It was deleted during the run.",
    "BlobUsesCustomerSpecifiedEncryption": "It is encrypted by a key of its owner.",
    "ConditionNotMet": "It changed while it was read: run this again.",
}


@dataclass(frozen=True, slots=True)
class BlobFile:
    """A document in a blob; see SourceFile."""

    name: str
    size: int  # in bytes
    etag: str
    copy: Path  # where its content is written
    folder: BlobFolder

    async def compute_fingerprint(self, max_bytes: int, *inputs: str) -> str:
        """Hash the ETag, which changes with the content, the container, and the inputs."""
        if self.size > max_bytes:
            raise UnreadableDocument(too_large_message(max_bytes))
        place = f"{self.folder.address.endpoint}/{self.folder.address.container}"
        fingerprint: str = hash_inputs(*inputs, place, self.etag).hexdigest()
        return fingerprint

    async def fetch(self) -> Path:
        """Write a copy of the content that was listed, and return its path."""
        await self.folder.download(self.name, self.etag, self.copy)
        if reason := describe_secret(self.copy):
            raise UnreadableDocument(reason)
        return self.copy

    def release(self) -> None:
        """Delete the copy."""
        self.copy.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class BlobFolder:
    """The documents below a path of a container."""

    address: StorageAddress
    container: ContainerClient
    copies: Path  # a folder for copies of the documents that are being read

    async def list_files(self) -> Listing[BlobFile]:
        """List the documents and the skipped files. Raises UsageError, ChatError."""
        listing = Listing[BlobFile]()
        pages = self.container.list_blobs(self.address.prefix, include=["metadata"]).by_page()
        has_more = True
        while has_more:
            async with self.map_errors():
                if has_more := (page := await anext(pages, None)) is not None:
                    async for blob in page:
                        self._add(listing, blob)
        listing.files.sort(key=lambda file: file.name)
        listing.skipped = sorted(set(listing.skipped))  # a hidden folder is in it once
        return listing

    def _add(self, listing: Listing[BlobFile], blob: BlobProperties) -> None:
        name = blob.name.removeprefix(self.address.prefix)
        path = PurePosixPath(name)
        if _is_folder(blob):
            if name.rstrip("/") == acl.ACL_FILE:
                raise acl.AclError(acl.NO_FILE)
            return
        if is_system_file(path.name) or listing.add_rules(name):
            return
        if skipped := _skip(name, blob):
            listing.skipped.append(skipped)
        else:
            copy = self.copies / f"{len(listing.files)}{_suffix(path)}"
            listing.files.append(BlobFile(name, blob.size, blob.etag, copy, self))

    async def check_folders_above(self) -> None:
        """Raise AclError where a folder above has rules, for this one too."""
        for folder in PurePosixPath(self.address.prefix).parents if self.address.prefix else ():
            name = (folder / acl.ACL_FILE).as_posix()
            if await self._exists(name):
                raise acl.AclError(RULES_ABOVE.format(name=name, file=acl.ACL_FILE))

    async def read_rules(self, listing: Listing[BlobFile]) -> acl.Acl:
        """Read the rules of acl.yaml; none without it. Raises AclError, UsageError, ChatError."""
        acl.check_names(listing.acl_files)
        if acl.ACL_FILE not in listing.acl_files:
            return acl.Acl()
        rules = BlobFile(acl.ACL_FILE, 0, "", self.copies / acl.ACL_FILE, self)
        try:
            return acl.parse_acl_file(await rules.fetch(), (file.name for file in listing.files))
        except UnreadableDocument as error:
            raise acl.AclError(f"{acl.ACL_FILE} cannot be read: {error}") from None
        finally:
            rules.release()

    async def _exists(self, name: str) -> bool:
        async with self.map_errors():
            return await self.container.get_blob_client(name).exists()

    async def download(self, name: str, etag: str, path: Path) -> None:
        """Write the content of a blob to a file: only that of an ETag, as others may read another.

        Raises UnreadableDocument, UsageError, ChatError.
        """
        condition: dict[str, Any] = {}
        if etag:  # a listing has it without the quotes that the header needs
            quoted = '"{}"'.format(etag.strip('"'))
            condition = {"etag": quoted, "match_condition": MatchConditions.IfNotModified}
        async with self.map_errors():
            download = await self.container.download_blob(
                f"{self.address.prefix}{name}", max_concurrency=1, **condition
            )
            with path.open("wb") as file:
                async for chunk in download.chunks():
                    file.write(chunk)

    @asynccontextmanager
    async def map_errors(self) -> AsyncIterator[None]:
        """Limit the time of requests, and map their errors.

        Raises UnreadableDocument where it is about one blob, UsageError, ChatError.
        """
        try:
            with map_errors("storage", self._map_status), map_malformed_response():
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"A copy cannot be written to {self.copies}: {reason}.") from error

    def _map_status(self, error: HttpResponseError) -> Exception:
        code = blobs.error_code(error)
        if code == "ContainerNotFound":
            return UsageError(NO_CONTAINER.format(address=self.address))
        if reason := REASONS.get(code):
            return UnreadableDocument(reason)
        if error.status_code in (401, 403):
            return Misconfigured(REFUSED.format(address=self.address, role=ROLE))
        return blobs.map_status(error, role=ROLE)


def _is_folder(blob: BlobProperties) -> bool:
    """Whether a blob stands for a folder: it has no content."""
    metadata = {key.lower(): value for key, value in (blob.metadata or {}).items()}
    return blob.name.endswith("/") or metadata.get("hdi_isfolder", "").lower() == "true"


def _skip(name: str, blob: BlobProperties) -> tuple[str, str] | None:
    """What to skip, and the reason: the file, or a hidden folder above it."""
    parts = name.split("/")
    if {"", ".", ".."} & set(parts):
        return name, "Its name is no path: a part of it is empty, `.` or `..`."
    for place, part in enumerate(parts, 1):
        if part.startswith("."):
            is_file = place == len(parts)
            return "/".join(parts[:place]), "It is hidden." if is_file else "It is a hidden folder."
    encoding = blob.content_settings.content_encoding
    if encoding and encoding != "identity":
        return name, f"It is stored in the encoding {encoding}."
    return (name, reason) if (reason := describe_secret_name(PurePosixPath(name))) else None


def _suffix(path: PurePosixPath) -> str:
    """The extension, by which a reader is chosen, where it is fit for a file name."""
    return path.suffix if re.fullmatch(r"\.\w{1,20}", path.suffix, re.ASCII) else ""
