"""Azure AI Search as a place for documents: what is sent, in an order that lets any crash heal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from shared.chat.citation_paths import decode_path, encode_path
from shared.ingest.concurrency import for_each_concurrently
from shared.ingest.splitting.passages import Passage, id_prefix
from shared.ingest.targets.azure_search.batches import (
    IndexFeatures,
    delete_action,
    fingerprint_action,
    upload_actions,
)
from shared.ingest.targets.azure_search.documents import SearchDocuments
from shared.ingest.targets.azure_search.index_definition import FINGERPRINT, IndexSpec
from shared.ingest.targets.azure_search.index_update import (
    OTHER_INDEX,
    create_or_update,
    existing_fields,
)
from shared.ingest.targets.azure_search.retry import RetryPolicy
from shared.ingest.targets.azure_search.search_clients import SearchClients
from shared.ingest.targets.index_writer import UNFINISHED, Document, IndexUnavailable
from shared.retrieval.azure_search.field_mapping import IndexFields
from shared.retrieval.azure_search.odata import quote

INCOMPLETE = "unfinished"  # the mark of a file that is being put
UNRESTRICTED_PASSAGES = (
    "The index {index} has passages that were not put there by this command, such as one of "
    "{file}: they may stay for everyone, whatever acl.yaml says. Into an index of its own: "
    f"{OTHER_INDEX}."
)

StoreImage = Callable[[str, bytes], Awaitable[None]]


@dataclass(slots=True)
class AzureSearchWriter:
    """A Target over one index; the files themselves are kept elsewhere.

    Every file that the index holds anything of has a passage with a mark, its fingerprint: its
    first one. Before anything of a file changes, a mark says "unfinished", and the fingerprint is
    set when all the rest is done. So a run that ends anywhere leaves a file whole or unfinished.

    The service needs some seconds until a search finds what it took. A run that starts within them
    may see marks of before the last changes: it may take a file for whole that is not, or leave
    passages that it did not see. The next run, or one a minute later, sees and mends the first; the
    second goes when the file is next put or removed.

    `store_image` stores the image of a passage under its id; without it there are no images.
    `restricted` says that some files are not public: then passages of other origin are an error, as
    they may not follow the rules. `features` and `written_files` are set by `fingerprints`;
    `written_files` are the files in an index that this run created, and None in any other.
    """

    clients: SearchClients
    index_spec: IndexSpec
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    store_image: StoreImage | None = None
    name: str = "Azure AI Search"
    restricted: bool = False
    features: IndexFeatures = field(default_factory=IndexFeatures, init=False)
    written_files: set[str] | None = field(default=None, init=False)

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file. Makes the index first, or gives it what it lacks.

        To be called before anything is put. Raises Refused.
        """
        index, new = await create_or_update(
            self.clients.indexes, self.index_spec, self.retry_policy
        )
        if self.restricted and not new:
            await self._check_exclusive()
        vectors = any(one.name == self._fields.embedding for one in index.fields)
        self.features = IndexFeatures(self.store_image is not None, vectors)
        names, found = self._fields, dict[str, str]()
        condition = f"{FINGERPRINT} ne null and {names.sourcefile} ne null"
        async for row in self._documents.query(condition, names.sourcefile, FINGERPRINT):
            name, mark = decode_path(row[names.sourcefile]), row[FINGERPRINT]
            # Two marks are a change that was broken off, or one that a search did not show.
            whole = mark != INCOMPLETE and found.get(name, mark) == mark
            found[name] = mark if whole else UNFINISHED
        self.written_files = set() if new else None
        return found

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see. Changes nothing. Raises Refused.

        All passages are searched, not the marked ones alone: a broken run may have left others.
        """
        names = self._fields
        has = await existing_fields(self.clients.indexes, self.index_spec, self.retry_policy)
        filters = [f"{name}/any()" for name in (names.oids, names.groups) if name in has]
        if not filters or not {names.id, names.sourcefile} <= has:
            return set()
        rows = self._documents.query(f"({' or '.join(filters)})", names.sourcefile)
        return {decode_path(row[names.sourcefile] or "") async for row in rows}

    async def put(self, document: Document, path: Path) -> None:
        """Replace all passages of a file; `path` is not read. Raises Refused."""
        if not document.passages:
            return await self.remove(document.name)
        fields, send = self._fields, self._documents.send
        rows = upload_actions(document, fields, self.features)
        first = next(rows)
        key, ids = document.passages[0].id, {passage.id for passage in document.passages}
        old = await self._read_marks(document.name)
        # Alone, and first: from here on the file is unfinished, whatever older marks say.
        await send([first | {FINGERPRINT: INCOMPLETE}])
        await for_each_concurrently(self._store_image_of, document.passages)
        await send(rows)
        await send(delete_action(stale, fields) for stale in sorted(old.keys() - ids))
        await send([fingerprint_action(key, document.fingerprint, fields)])

    async def remove(self, name: str) -> None:
        """Delete all passages of a file; where there are none, nothing is done. Raises Refused."""
        old, send = await self._read_marks(name), self._documents.send
        await send(
            fingerprint_action(key, INCOMPLETE, self._fields) for key, mark in old.items() if mark
        )
        # The marked ones last: as long as there is any other, the file must be known.
        await send(delete_action(key, self._fields) for key, mark in old.items() if not mark)
        await send(delete_action(key, self._fields) for key, mark in old.items() if mark)

    async def finish(self) -> None:
        """Nothing is left to do: what was taken is found within seconds."""

    async def close(self) -> None:
        """Close the connections."""
        await self.clients.close()

    async def _check_exclusive(self) -> None:
        """Raises Unusable where something else has put passages into the index."""
        names = self._fields
        found = self._documents.query(f"{FINGERPRINT} eq null", names.sourcefile)
        async with aclosing(found) as rows:
            async for row in rows:
                file = decode_path(row[names.sourcefile] or "")
                if not row[names.id].startswith(f"{id_prefix(file)}-"):
                    said = UNRESTRICTED_PASSAGES.format(
                        index=self.index_spec.index, file=file or "an unnamed file"
                    )
                    raise IndexUnavailable(said)

    @property
    def _fields(self) -> IndexFields:
        return self.index_spec.fields

    @property
    def _documents(self) -> SearchDocuments:
        return SearchDocuments(self.clients.documents, self._fields.id, self.retry_policy)

    async def _read_marks(self, name: str) -> dict[str, str | None]:
        """The mark of each passage that the index holds of a file, by the passage's key."""
        if self.written_files is not None and name not in self.written_files:
            self.written_files.add(name)
            return {}
        condition = f"{self._fields.sourcefile} eq {quote(encode_path(name))}"
        rows = self._documents.query(condition, FINGERPRINT)
        return {row[self._fields.id]: row[FINGERPRINT] async for row in rows}

    async def _store_image_of(self, passage: Passage) -> None:
        if self.store_image is not None and passage.image:
            await self.store_image(passage.id, passage.image)
