"""Uploads for an indexer, and the checks before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ingest.document import MEGABYTE
from ingest.indexer.run import UploadResult, upload_files
from ingest.scan import list_folder
from ingest.setup import IngestOptions
from ingest.targets.azure_search.blob_upload import BlobUploader, make_uploader
from ingest.targets.index_writer import DocumentRejected
from tests.support.azurite import AzuriteCredential, azurite, make_home, needs_azurite
from tests.support.ingest_command import run_command, write

Result = TypeVar("Result")
USES = {
    "without an account": (["--indexer"], "--indexer needs --storage /subscriptions/"),
    "an account's name": (["--indexer", "--storage", "mine"], "needs --storage /subscriptions/"),
    "without an indexer": (["--storage", "/subscriptions/1"], "--storage is for --indexer alone"),
}


@pytest.mark.parametrize("use", USES)
def test_unusable_options_are_rejected(tmp_path: Path, use: str) -> None:
    arguments, sentence = USES[use]
    done = run_command(str(tmp_path), *arguments)

    assert done.returncode == 2
    assert sentence in done.stderr


@pytest.mark.part("embedded-index")
def test_unused_embedding_model_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "x")
    index = tmp_path / "own.db"
    done = run_command(str(tmp_path / "docs"), "--embedding-model", "ada", INDEX_FILE=str(index))

    assert done.returncode == 1
    assert "--embedding-model needs --indexer or AZURE_SEARCH_VECTORIZER" in done.stderr
    assert not index.exists()


async def upload(uploads: BlobUploader, folder: Path, **more: Any) -> UploadResult:
    return await upload_files(uploads, list_folder(folder), IngestOptions(folder, **more))


@needs_azurite
def test_indexer_rejects_unknown_files_in_the_container(tmp_path: Path) -> None:
    async def work(uploads: BlobUploader) -> tuple[list[str], UploadResult, list[str]]:
        write(tmp_path, "docs/board.md", "Salaries.")
        await upload(uploads, tmp_path / "docs")
        (tmp_path / "docs/board.md").unlink()
        write(tmp_path, "docs/a.md", "Apples.")
        with pytest.raises(
            DocumentRejected, match=r"1 files .* such as board.md.*--prune removes them"
        ):
            await upload(uploads, tmp_path / "docs")
        before = await uploads.list_names()
        pruned = await upload(uploads, tmp_path / "docs", prune=True)
        return before, pruned, await uploads.list_names()

    before, pruned, after = over_azurite(tmp_path, work)

    assert before == ["board.md"]
    assert pruned == UploadResult(1, 1, ())
    assert after == ["a.md"]


@needs_azurite
def test_file_that_became_too_large_is_removed(tmp_path: Path) -> None:
    async def work(uploads: BlobUploader) -> tuple[UploadResult, list[str]]:
        for name in ("a.md", "b.md"):
            write(tmp_path, f"docs/{name}", "Apples.")
        await upload(uploads, tmp_path / "docs", max_megabytes=1)
        write(tmp_path, "docs/a.md", "x" * (MEGABYTE + 1))
        done = await upload(uploads, tmp_path / "docs", max_megabytes=1)
        return done, await uploads.list_names()

    done, names = over_azurite(tmp_path, work)

    assert done == UploadResult(0, 0, (("a.md", "It is larger than 1 MB."),))
    assert names == ["b.md"]


def over_azurite(folder: Path, work: Callable[[BlobUploader], Awaitable[Result]]) -> Result:
    """Do something with an empty container."""
    home = make_home(folder)

    async def go(url: str) -> Result:
        files = make_uploader(url, "documents", AzuriteCredential(), connection_verify=home.ca)
        try:
            return await work(files)
        finally:
            await files.close()
            await asyncio.sleep(0.1)  # aiohttp closes TLS a little after it has said so

    with azurite(home) as url:
        return asyncio.run(go(url))
