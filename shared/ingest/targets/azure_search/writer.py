"""Azure AI Search as a place for documents: what is sent, in an order that lets any crash heal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from shared.chat.citation_paths import decode_path, encode_path
from shared.ingest.splitting.passages import Passage, key_of
from shared.ingest.targets.azure_search.batches import IndexFeatures, deleted, marked, uploads
from shared.ingest.targets.azure_search.documents import Documents, side_by_side
from shared.ingest.targets.azure_search.index_definition import FINGERPRINT, Shape
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

NOT_WHOLE = "unfinished"  # the mark of a file that is being put
FOR_ALL = (
    "The index {index} has passages that were not put there by this command, such as one of "
    "{file}: they may stay for everyone, whatever acl.yaml says. Into an index of its own: "
    f"{OTHER_INDEX}."
)

Store = Callable[[str, bytes], Awaitable[None]]


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

    `store` keeps the picture of a passage under its id; without it there are no pictures.
    `restricted` is whether some files are not for everyone: then nothing may fill the index that
    does not know the rules. `has` and `held` are what `known` found; `held` are the files of an
    index that this run made, the only one of which it knows all.
    """

    clients: SearchClients
    shape: Shape
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    store: Store | None = None
    name: str = "Azure AI Search"
    restricted: bool = False
    has: IndexFeatures = field(default_factory=IndexFeatures, init=False)
    held: set[str] | None = field(default=None, init=False)

    async def known(self) -> Mapping[str, str]:
        """The fingerprint of each file. Makes the index first, or gives it what it lacks.

        To be called before anything is put. Raises Refused.
        """
        index, new = await create_or_update(self.clients.indexes, self.shape, self.patience)
        if self.restricted and not new:
            await self._check_alone()
        vectors = any(one.name == self._fields.embedding for one in index.fields)
        self.has = IndexFeatures(self.store is not None, vectors)
        names, found = self._fields, dict[str, str]()
        condition = f"{FINGERPRINT} ne null and {names.sourcefile} ne null"
        async for row in self._documents.having(condition, names.sourcefile, FINGERPRINT):
            name, mark = decode_path(row[names.sourcefile]), row[FINGERPRINT]
            # Two marks are a change that was broken off, or one that a search did not show.
            whole = mark != NOT_WHOLE and found.get(name, mark) == mark
            found[name] = mark if whole else UNFINISHED
        self.held = set() if new else None
        return found

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see. Changes nothing. Raises Refused.

        All passages are searched, not the marked ones alone: a broken run may have left others.
        """
        names = self._fields
        has = await existing_fields(self.clients.indexes, self.shape, self.patience)
        filters = [f"{name}/any()" for name in (names.oids, names.groups) if name in has]
        if not filters or not {names.id, names.sourcefile} <= has:
            return set()
        rows = self._documents.having(f"({' or '.join(filters)})", names.sourcefile)
        return {decode_path(row[names.sourcefile] or "") async for row in rows}

    async def put(self, document: Document, path: Path) -> None:
        """Replace all passages of a file; `path` is not read. Raises Refused."""
        if not document.passages:
            return await self.remove(document.name)
        fields, send = self._fields, self._documents.send
        rows = uploads(document, fields, self.has)
        first = next(rows)
        key, ids = document.passages[0].id, {passage.id for passage in document.passages}
        old = await self._marks(document.name)
        # Alone, and first: from here on the file is unfinished, whatever older marks say.
        await send([first | {FINGERPRINT: NOT_WHOLE}])
        await side_by_side(self._keep, document.passages)
        await send(rows)
        await send(deleted(stale, fields) for stale in sorted(old.keys() - ids))
        await send([marked(key, document.fingerprint, fields)])

    async def remove(self, name: str) -> None:
        """Delete all passages of a file; where there are none, nothing is done. Raises Refused."""
        old, send = await self._marks(name), self._documents.send
        await send(marked(key, NOT_WHOLE, self._fields) for key, mark in old.items() if mark)
        # The marked ones last: as long as there is any other, the file must be known.
        await send(deleted(key, self._fields) for key, mark in old.items() if not mark)
        await send(deleted(key, self._fields) for key, mark in old.items() if mark)

    async def finish(self) -> None:
        """Nothing is left to do: what was taken is found within seconds."""

    async def close(self) -> None:
        """Close the connections."""
        await self.clients.close()

    async def _check_alone(self) -> None:
        """Raises Unusable where something else has put passages into the index."""
        names = self._fields
        found = self._documents.having(f"{FINGERPRINT} eq null", names.sourcefile)
        async with aclosing(found) as rows:
            async for row in rows:
                file = decode_path(row[names.sourcefile] or "")
                if not row[names.id].startswith(f"{key_of(file)}-"):
                    said = FOR_ALL.format(index=self.shape.index, file=file or "an unnamed file")
                    raise IndexUnavailable(said)

    @property
    def _fields(self) -> IndexFields:
        return self.shape.fields

    @property
    def _documents(self) -> Documents:
        return Documents(self.clients.documents, self._fields.id, self.patience)

    async def _marks(self, name: str) -> dict[str, str | None]:
        """The mark of each passage that the index holds of a file, by the passage's key."""
        if self.held is not None and name not in self.held:
            self.held.add(name)
            return {}
        condition = f"{self._fields.sourcefile} eq {quote(encode_path(name))}"
        rows = self._documents.having(condition, FINGERPRINT)
        return {row[self._fields.id]: row[FINGERPRINT] async for row in rows}

    async def _keep(self, passage: Passage) -> None:
        if self.store is not None and passage.image:
            await self.store(passage.id, passage.image)
