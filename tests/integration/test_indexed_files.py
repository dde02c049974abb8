"""An index with its files in Azurite, also after failed runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.document import Page
from ingest.splitting.passages import split_document
from ingest.targets.azure_search.blob_upload import make_uploader
from ingest.targets.azure_search.writer import AzureSearchWriter, IndexedFiles
from ingest.targets.index_writer import UNFINISHED, Document, DocumentRejected
from shared.files.blobs import FILES_PREFIX, IMAGES_PREFIX
from tests.support.azurite import AzuriteCredential, AzuriteHome, needs_azurite
from tests.support.fake_service import FakeIndexService
from tests.support.search_writer import run, run_service

pytestmark = needs_azurite

Work = Callable[[IndexedFiles], Awaitable[None]]


@pytest.fixture
def doing(
    home: AzuriteHome, account: str, request: pytest.FixtureRequest
) -> Callable[..., list[str]]:
    """Does some work with a new target, in a container of the test's own; what is in it then."""
    container = f"c{abs(hash(request.node.name))}"

    def do(running: FakeIndexService, work: Work) -> list[str]:
        async def over(index: AzureSearchWriter) -> list[str]:
            how = {"connection_verify": home.ca}
            files = make_uploader(account, container, AzuriteCredential(), **how)
            index.store_image = files.put_image
            try:
                await work(IndexedFiles(index, files))
                return [name async for name in files.container.list_blob_names()]
            finally:
                await files.close()
                await asyncio.sleep(0.1)  # aiohttp closes TLS a little after it has said so

        return run(running, over)

    return do


def pdf(version: str, count: int) -> Document:
    """A file with pictures, as it is split."""
    images = tuple(b"\x89PNG" + version.encode() for _ in range(count))
    passages = tuple(split_document("a.pdf", [Page(f"Version {version}.", 1, images=images)]))
    return Document("a.pdf", version, passages, ((1.0, 0.0),) * len(passages))


def filling(path: Path, folder: Mapping[str, Document]) -> Work:
    """A run with --prune."""
    path.write_text("x")

    async def work(target: IndexedFiles) -> None:
        known = await target.fingerprints()
        for document in folder.values():
            if known.get(document.name) != document.fingerprint:
                await target.put(document, path)
        for name in known.keys() - folder.keys():
            await target.remove(name)
        await target.finish()

    return work


def image_names(blobs: list[str]) -> list[str]:
    return [name.rpartition("-")[2] for name in blobs if name.startswith(IMAGES_PREFIX)]


def test_images_of_a_changed_file_are_removed(
    tmp_path: Path, doing: Callable[..., list[str]]
) -> None:
    with run_service() as running:
        before = doing(running, filling(tmp_path / "a", {"a.pdf": pdf("1", 3)}))
        after = doing(running, filling(tmp_path / "a", {"a.pdf": pdf("2", 1)}))

    assert image_names(before) == ["i1", "i2", "i3"]
    assert image_names(after) == ["i1"]


def test_file_without_passages_is_removed(tmp_path: Path, doing: Callable[..., list[str]]) -> None:
    empty = replace(pdf("2", 0), passages=(), vectors=None)
    with run_service() as running:
        doing(running, filling(tmp_path / "a", {"a.pdf": pdf("1", 1)}))

        assert doing(running, filling(tmp_path / "a", {"a.pdf": empty})) == []


@pytest.mark.parametrize("held", [FILES_PREFIX, IMAGES_PREFIX])
def test_next_run_completes_an_interrupted_prune(
    tmp_path: Path, doing: Callable[..., list[str]], held: str
) -> None:
    async def blocked(target: IndexedFiles) -> None:
        (name,) = [n async for n in target.files.container.list_blob_names(name_starts_with=held)]
        lease = await target.files.container.get_blob_client(name).acquire_lease()
        with pytest.raises(DocumentRejected):
            await filling(tmp_path / "a", {})(target)
        await lease.release()

    with run_service() as running:
        doing(running, filling(tmp_path / "a", {"a.pdf": pdf("1", 1)}))
        blobs = doing(running, blocked)
        docs = dict(running.indexes["docs"].docs)
        after = doing(running, filling(tmp_path / "a", {}))

    assert docs == {}
    assert f"{FILES_PREFIX}a.pdf" in blobs
    assert after == []


def test_file_only_in_the_container_is_unfinished(
    tmp_path: Path, doing: Callable[..., list[str]]
) -> None:
    fingerprints = dict[str, str]()

    async def interrupt(target: IndexedFiles) -> None:
        await target.fingerprints()
        (tmp_path / "b").write_text("x")
        await target.files.put("b.md", tmp_path / "b", "text/plain")

    async def known(target: IndexedFiles) -> None:
        fingerprints.update(await target.fingerprints())

    with run_service() as running:
        doing(running, filling(tmp_path / "a", {"a.pdf": pdf("1", 1)}))
        doing(running, interrupt)
        doing(running, known)

    assert fingerprints == {"a.pdf": "1", "b.md": UNFINISHED}
