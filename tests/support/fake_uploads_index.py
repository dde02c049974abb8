"""An in-memory fake of UploadsIndex, which ends the process at its nth moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ingest.targets.index_writer import UNFINISHED, Document
from tests.support.fake_index_writer import FakeIndexWriter
from tests.support.moments import Moments


class FakeUploadsIndex(FakeIndexWriter):
    """An index that several processes write to. Each call has moments."""

    moments = Moments(0)

    async def fingerprints(self) -> Mapping[str, str]:
        self.moments.pass_moment()
        return await super().fingerprints()

    async def fingerprints_in(self, folder: str) -> Mapping[str, str]:
        found = (await self.fingerprints()).items()
        return {name: mark for name, mark in found if name.startswith(f"{folder}/")}

    async def put(self, document: Document, path: Path) -> None:
        self.documents[document.name] = replace(document, fingerprint=UNFINISHED)
        await asyncio.sleep(0)
        self.moments.pass_moment()
        await super().put(document, path)
        self.moments.pass_moment()

    async def remove_folder(self, folder: str) -> None:
        for name in [name for name in self.documents if name.startswith(f"{folder}/")]:
            self.moments.pass_moment()
            del self.documents[name]
            self.moments.pass_moment()
