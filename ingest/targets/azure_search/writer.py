"""Writes documents to Azure AI Search, in an order that a later run can repair after a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.search.documents.aio import SearchClient
from azure.search.documents.indexes.aio import SearchIndexClient, SearchIndexerClient

from ingest.concurrency import for_each_concurrently
from ingest.splitting.passages import Passage, id_prefix
from ingest.targets.azure_search import index_update
from ingest.targets.azure_search.blob_upload import BlobUploader
from ingest.targets.azure_search.documents import SearchDocuments, upload_actions
from ingest.targets.azure_search.index_update import FINGERPRINT, OTHER_INDEX, IndexSpec
from ingest.targets.azure_search.permissions import restricted_filter, with_readers
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.index_writer import UNFINISHED, Document, IndexUnavailable
from shared.domain.events import decode_path, encode_path
from shared.files.headers import guess_media_type
from shared.retrieval.azure_search.client import (
    API_VERSION,
    CONNECT_SECONDS,
    PERMISSIONS_API_VERSION,
)
from shared.retrieval.azure_search.index_fields import IndexFields, quote

T = TypeVar("T")

READ_SECONDS = 60  # without data


@dataclass(frozen=True, slots=True)
class SearchClients:
    """The clients of one service: the documents of one index, the indexes, the indexers."""

    documents: SearchClient
    indexes: SearchIndexClient
    indexers: SearchIndexerClient

    async def close(self) -> None:
        for client in (self.documents, self.indexes, self.indexers):
            await client.close()


def make_clients(
    endpoint: str,
    index: str,
    credential: AsyncTokenCredential,
    documents_version: str = API_VERSION,
    **more: Any,
) -> SearchClients:
    """Build the clients for `index` at `endpoint`; `more` are options of the SDK (`transport`).

    Definitions are read in the version that tells whether the service checks permissions.
    """

    def make_client(client_class: Callable[..., T], version: str, *names: str) -> T:
        return client_class(
            endpoint,
            *names,
            credential,
            api_version=version,
            connection_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retry_policy=AsyncRetryPolicy.no_retries(),
            **more,
        )

    return SearchClients(
        make_client(SearchClient, documents_version, index),
        make_client(SearchIndexClient, PERMISSIONS_API_VERSION),
        make_client(SearchIndexerClient, API_VERSION),
    )


INCOMPLETE = "unfinished"  # the mark of a file that is being written
UNRESTRICTED_PASSAGES = (
    "The index {index} has passages that were not put there by this command, such as one of "
    "{file}: they may stay for everyone, whatever acl.yaml says. Into an index of its own: "
    f"{OTHER_INDEX}."
)

StoreImage = Callable[[str, bytes], Awaitable[None]]


@dataclass(slots=True)
class AzureSearchWriter:
    """An IndexWriter for one index; the files themselves are stored elsewhere.

    The first passage of each file has a mark, the file's fingerprint. Before a change the mark is
    set to "unfinished", and after it to the fingerprint, so that an interrupted run leaves each
    file complete or unfinished.

    Searches find changes only after some seconds. A run that starts earlier may see older marks: it
    may take an unfinished file for complete, which the next run corrects, or miss passages, which
    are removed when the file is next written or removed.

    `store_image` stores the image of a passage under its id; without it there are no images.
    `restricted` says that some files are not public: then passages of other origin are an error, as
    they may not follow the rules. `fingerprints` sets `has_vectors`, whether the index has a vector
    field, and `written_files`: the files in an index that this run created, None in any other.
    """

    clients: SearchClients
    index_spec: IndexSpec
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    store_image: StoreImage | None = None
    restricted: bool = False
    has_vectors: bool = False
    written_files: set[str] | None = field(default=None, init=False)

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file. Creates the index first, or adds what it lacks.

        Must be called before `put`. Raises DocumentRejected.
        """
        index, new = await index_update.create_or_update(
            self.clients.indexes, self.index_spec, self.retry_policy
        )
        if self.restricted and not new:
            await self._check_exclusive()
        self.has_vectors = any(one.name == self._fields.embedding for one in index.fields)
        fingerprints = await self.read_fingerprints(f"{self._fields.sourcefile} ne null")
        self.written_files = set() if new else None
        return fingerprints

    async def read_fingerprints(self, condition: str) -> dict[str, str]:
        """The fingerprint of each file whose passages match. Raises DocumentRejected."""
        sourcefile, fingerprints = self._fields.sourcefile, dict[str, str]()
        rows = self._documents.query(
            f"{FINGERPRINT} ne null and {condition}", sourcefile, FINGERPRINT
        )
        async for row in rows:
            name, mark = decode_path(row[sourcefile]), row[FINGERPRINT]
            # Two marks: a change was interrupted, or searches do not show it yet.
            is_complete = mark != INCOMPLETE and fingerprints.get(name, mark) == mark
            fingerprints[name] = mark if is_complete else UNFINISHED
        return fingerprints

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see. Changes nothing.

        All passages are searched, as an interrupted run may have left some without a marked one.
        Raises DocumentRejected.
        """
        names = self._fields
        existing = await index_update.existing_fields(
            self.clients.indexes, self.index_spec, self.retry_policy
        )
        filters = [f"{name}/any()" for name in (names.oids, names.groups) if name in existing]
        if not filters or not {names.id, names.sourcefile} <= existing:
            return set()
        condition = f"({' or '.join(filters)})"
        if self.index_spec.checks_permissions:
            condition = restricted_filter(names)
        rows = self._documents.query(condition, names.sourcefile)
        return {decode_path(row[names.sourcefile] or "") async for row in rows}

    async def put(self, document: Document, path: Path) -> None:
        """Replace all passages of a file; `path` is not read. Raises DocumentRejected."""
        if not document.passages:
            return await self.remove(document.name)
        if self.index_spec.checks_permissions:
            document = with_readers(document)
        images = self.store_image is not None
        actions = upload_actions(document, self._fields, images, self.has_vectors)
        first = next(actions)
        ids = [passage.id for passage in document.passages]
        old = await self._read_marks(document.name)
        # Sent first and alone: from here on the file is unfinished, whatever its other marks.
        await self._documents.send([first | {FINGERPRINT: INCOMPLETE}])
        await for_each_concurrently(self._store_image_of, document.passages)
        await self._documents.send(actions)
        await self._documents.delete(sorted(old.keys() - set(ids)))
        await self._documents.set_fingerprint(ids[:1], document.fingerprint)

    async def remove(self, name: str) -> None:
        """Delete all passages of a file, if there are any. Raises DocumentRejected."""
        await self.remove_passages(await self._read_marks(name))

    async def remove_passages(self, old: Mapping[str, str | None]) -> None:
        """Delete passages, which have these marks by key. Raises DocumentRejected."""
        marked = [key for key, mark in old.items() if mark]
        await self._documents.set_fingerprint(marked, INCOMPLETE)
        # The marked ones last: the file must stay known as long as it has passages.
        await self._documents.delete(key for key, mark in old.items() if not mark)
        await self._documents.delete(marked)

    async def finish(self) -> None:
        """Do nothing: searches find the changes within seconds."""

    async def close(self) -> None:
        await self.clients.close()

    async def _check_exclusive(self) -> None:
        """Raise IndexUnavailable where the index has passages of other origin."""
        names = self._fields
        unmarked = self._documents.query(f"{FINGERPRINT} eq null", names.sourcefile)
        async with aclosing(unmarked) as rows:
            async for row in rows:
                file = decode_path(row[names.sourcefile] or "")
                if not row[names.id].startswith(f"{id_prefix(file)}-"):
                    message = UNRESTRICTED_PASSAGES.format(
                        index=self.index_spec.index, file=file or "an unnamed file"
                    )
                    raise IndexUnavailable(message)

    @property
    def _fields(self) -> IndexFields:
        return self.index_spec.fields

    @property
    def _documents(self) -> SearchDocuments:
        return SearchDocuments(
            self.clients.documents,
            self._fields,
            self.retry_policy,
            self.index_spec.checks_permissions,
        )

    async def _read_marks(self, name: str) -> dict[str, str | None]:
        """The mark of each passage of a file in the index, by the passage's key."""
        if self.written_files is not None and name not in self.written_files:
            self.written_files.add(name)
            return {}
        return await self.read_marks(f"{self._fields.sourcefile} eq {quote(encode_path(name))}")

    async def read_marks(self, condition: str) -> dict[str, str | None]:
        """The mark of each passage that matches, by its key. Raises DocumentRejected."""
        rows = self._documents.query(condition, FINGERPRINT)
        return {row[self._fields.id]: row[FINGERPRINT] async for row in rows}

    async def _store_image_of(self, passage: Passage) -> None:
        if self.store_image is not None and passage.image:
            await self.store_image(passage.id, passage.image)


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """An index in Azure AI Search, and a Blob container that holds only its files and images.

    A file is uploaded before its passages and images and deleted after them, so no citation is
    broken, and a file without passages tells the next run what is unfinished. `existing_files` are
    the files of the container when `fingerprints` was called.
    """

    index: AzureSearchWriter
    files: BlobUploader
    existing_files: set[str] = field(default_factory=set, init=False)

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file. Creates the container and the index first.

        A file that is only in the container is unfinished. Raises DocumentRejected.
        """
        await self.files.ensure_container()
        indexed = await self.index.fingerprints()
        self.existing_files.update(await self.files.list_names())
        return {**dict.fromkeys(self.existing_files, UNFINISHED), **indexed}

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see. Raises DocumentRejected."""
        return await self.index.restricted_files()

    async def put(self, document: Document, path: Path) -> None:
        """Upload a file, then replace its passages and images. Raises DocumentRejected."""
        if not document.passages:
            return await self.remove(document.name)
        await self.files.put(document.name, path, guess_media_type(document.name))
        if document.name in self.existing_files:
            # Before the index marks the file as complete: later no run would remove them.
            keep = {passage.id for passage in document.passages if passage.image}
            await self.files.remove_images(_image_prefix(document.name), keep)
        await self.index.put(document, path)

    async def remove(self, name: str) -> None:
        """Delete a file's passages, then its images and the file. Raises DocumentRejected."""
        await self.index.remove(name)
        await self.files.remove_images(_image_prefix(name))
        await self.files.remove(name)

    async def finish(self) -> None:
        await self.index.finish()

    async def close(self) -> None:
        await self.index.close()
        await self.files.close()


def _image_prefix(name: str) -> str:
    """The prefix of the ids of a file's images."""
    return f"{id_prefix(name)}-"
