"""The pipeline over a folder: indexed, unchanged, removed and skipped files, and failures."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ingest import acl
from ingest.concurrency import for_each_concurrently, prefetch, run_concurrently
from ingest.enrich import BATCH_SIZE, Enricher
from ingest.pipeline import PREFETCH_FILES, IngestPipeline, IngestSummary
from ingest.scan import list_folder
from ingest.splitting.passages import SPLITTER_VERSION, Passage
from shared.domain.errors import BadRequest, ContentFiltered, Unavailable
from shared.domain.events import Delta, Done
from tests.support.fake_index_writer import FakeIndexWriter, FakePassageReader
from tests.support.fakes import FakeModel

FILES = {"a.md": "Apples.", "plans/b.md": "Bananas.", "plans/c.txt": "Cherries."}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def run_pipeline(
    folder: Path,
    target: FakeIndexWriter,
    prune: bool = False,
    enrich: Enricher | None = None,
    reader: FakePassageReader | None = None,
    version: int = SPLITTER_VERSION,
) -> IngestSummary:
    async def go() -> IngestSummary:
        listing = list_folder(folder)
        rules = acl.read_acl(folder, [file.name for file in listing.files], listing.acl_files)
        run = IngestPipeline(
            reader or FakePassageReader(), target, enrich or Enricher(), prune, version=version
        )
        summary = await run.run(listing, rules)
        read = summary.indexed + summary.unchanged
        assert read + summary.unreadable + summary.unsupported == len(listing.files)
        return summary

    return asyncio.run(go())


def test_folder_is_indexed_in_order(folder: Path) -> None:
    target = FakeIndexWriter()
    summary = run_pipeline(folder, target)

    assert summary == IngestSummary(indexed=3, passages=3)
    assert target.put_names == ["a.md", "plans/b.md", "plans/c.txt"]
    assert target.documents["plans/b.md"].passages[0].category == "plans"
    assert target.finish_calls == 1


def test_second_run_changes_nothing(folder: Path) -> None:
    target, reader = FakeIndexWriter(), FakePassageReader()
    run_pipeline(folder, target)
    os.utime(folder / "a.md", (1, 1))  # touched, not changed
    summary = run_pipeline(folder, target, reader=reader)

    assert summary == IngestSummary(unchanged=3)
    assert reader.read_names == []
    assert len(target.put_names) == 3


def test_only_changed_files_are_indexed_again(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    write(folder, "a.md", "Apricots.")
    write(folder, "d.md", "Dates.")
    summary = run_pipeline(folder, target)

    assert (summary.indexed, summary.unchanged) == (2, 2)
    assert target.documents["a.md"].passages[0].content == "Apricots."


def test_stale_files_stay_until_pruned(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    (folder / "a.md").unlink()
    first, second = run_pipeline(folder, target), run_pipeline(folder, target, prune=True)

    assert (first.stale, first.removed) == (1, 0)
    assert (second.stale, second.removed) == (0, 1)
    assert target.documents.keys() == {"plans/b.md", "plans/c.txt"}


def test_unreadable_file_is_skipped(folder: Path) -> None:
    target = FakeIndexWriter()
    write(folder, "a.md", "broken")
    summary = run_pipeline(folder, target)

    assert summary.skipped == [("a.md", "It is damaged.")]
    assert summary.indexed == 2


def test_file_that_became_unreadable_is_removed(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    write(folder, "a.md", "broken")
    run_pipeline(folder, target)

    assert "a.md" not in target.documents


def test_rejected_file_is_skipped_and_retried_next_run(folder: Path) -> None:
    target = FakeIndexWriter({"a.md": "It is too much."})
    first, second = run_pipeline(folder, target), run_pipeline(folder, target)

    assert first.skipped == second.skipped == [("a.md", "It is too much.")]
    assert (first.indexed, second.unchanged) == (2, 2)


def test_rejected_change_removes_the_old_version(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    write(folder, "acl.yaml", "plans/**: {groups: [board]}")
    target.rejects_all = True
    summary = run_pipeline(folder, target)

    assert summary.skipped[0] == ("plans/b.md", "It takes no more.")
    assert target.documents.keys() == {"a.md"}


def test_stale_files_are_removed_where_rules_exist(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    (folder / "plans/b.md").unlink()
    (folder / "a.md").unlink()
    write(folder, "acl.yaml", "plans/**: {groups: [board]}")
    summary = run_pipeline(folder, target)

    assert (summary.removed, summary.stale) == (2, 0)
    assert target.documents.keys() == {"plans/c.txt"}


def test_too_large_file_is_not_read(folder: Path) -> None:
    (folder / "film.pdf").touch()
    os.truncate(folder / "film.pdf", 2**33)  # a hole: it takes no room
    reader = FakePassageReader(max_bytes=2 * 2**20)
    summary = run_pipeline(folder, FakeIndexWriter(), reader=reader)

    assert summary.skipped == [("film.pdf", "It is larger than 2 MB.")]
    assert "film.pdf" not in reader.read_names


def test_document_rejected_by_a_model_is_skipped(
    folder: Path,
) -> None:
    async def refusing(texts: Sequence[str]) -> list[list[float]]:
        if "Bananas." in texts:
            raise BadRequest("No bananas.")
        return await numbers(texts)

    target = FakeIndexWriter()
    summary = run_pipeline(folder, target, enrich=Enricher(refusing))

    assert summary.skipped == [("plans/b.md", "A model does not take it: No bananas.")]
    assert summary.indexed == 2


def test_new_splitter_version_reindexes_everything(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)

    assert run_pipeline(folder, target, version=SPLITTER_VERSION + 1).indexed == 3


@pytest.mark.skipif(sys.platform == "win32", reason="this system has shorter paths")
def test_deeply_nested_folder_is_listed(folder: Path) -> None:
    deep = folder
    for _ in range(1100):
        deep = deep / "d"
        deep.mkdir()
    (deep / "a.md").write_text("Deep.")
    summary = run_pipeline(folder, FakeIndexWriter())
    (deep / "a.md").unlink()
    while deep != folder:  # what clears up after the tests does not go so deep
        deep.rmdir()
        deep = deep.parent

    assert summary.indexed == 3
    assert [reason for _, reason in summary.skipped] == ["Its path is too long to be cited."]


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="who runs this may read everything"
)
def test_unreadable_folder_is_skipped_and_not_pruned(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    (folder / "plans").chmod(0)
    try:
        summary = run_pipeline(folder, target, prune=True)
    finally:
        (folder / "plans").chmod(0o755)

    assert summary.skipped == [("plans", "Permission denied.")]
    assert target.documents.keys() == FILES.keys()


def run_with_unreadable_plans(
    folder: Path, target: FakeIndexWriter, rules: acl.Acl, prune: bool = False
) -> IngestSummary:
    """Index the folder, then run over it again while its subfolder cannot be read."""
    run_pipeline(folder, target)
    listing = list_folder(folder)
    listing.files = [file for file in listing.files if not file.name.startswith("plans/")]
    listing.skipped = [("plans", "Permission denied.")]
    run = IngestPipeline(FakePassageReader(), target, Enricher(), prune)
    return asyncio.run(run.run(listing, rules))


def test_skipped_files_are_not_stale(folder: Path) -> None:
    target = FakeIndexWriter()
    summary = run_with_unreadable_plans(folder, target, acl.Acl(), prune=True)

    assert summary.removed == 0
    assert target.documents.keys() == FILES.keys()


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("pattern", ["**", "a.md"])
def test_rules_remove_what_an_unreadable_folder_holds(
    folder: Path, pattern: str, prune: bool
) -> None:
    target = FakeIndexWriter()
    rules = acl.Acl(((pattern, acl.DocumentReaders(groups=("staff",))),))
    summary = run_with_unreadable_plans(folder, target, rules, prune)

    assert (summary.indexed, summary.removed, target.finish_calls) == (1, 2, 2)
    assert target.documents.keys() == {"a.md"}


def test_failed_removal_is_reported(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    before = run_pipeline(folder, target)
    write(folder, "acl.yaml", "plans/**: {groups: [board]}")
    write(folder, "plans/b.md", "broken")
    target.rejections = {"plans/b.md": "It is locked."}
    after = run_pipeline(folder, target)

    assert (before.is_outdated, after.is_outdated) == (False, True)
    assert ("plans/b.md", "It is locked.") in after.skipped


def test_changed_rules_reindex_a_file(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    write(folder, "acl.yaml", "plans/**: {oids: [anna], groups: [board]}")
    summary = run_pipeline(folder, target)
    (passage,) = target.documents["plans/b.md"].passages

    assert (summary.indexed, summary.unchanged) == (2, 1)
    assert (passage.oids, passage.groups) == (("anna",), ("board",))
    assert "acl.yaml" not in target.documents


def test_new_embedding_model_reindexes_everything(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target, enrich=Enricher(fingerprint="one"))

    assert run_pipeline(folder, target, enrich=Enricher(fingerprint="another")).indexed == 3
    assert run_pipeline(folder, target, enrich=Enricher(fingerprint="another")).unchanged == 3


async def numbers(texts: Sequence[str]) -> list[list[float]]:
    assert len(texts) <= BATCH_SIZE
    return [[float(len(text))] for text in texts]


def test_passages_keep_their_vectors_across_batches(folder: Path) -> None:
    target = FakeIndexWriter()
    write(folder, "long.md", "\n\n".join(f"{'word ' * 200}{i}." for i in range(3 * BATCH_SIZE)))
    run_pipeline(folder, target, enrich=Enricher(numbers))
    document = target.documents["long.md"]

    assert len(document.passages) > 2 * BATCH_SIZE
    assert document.vectors == tuple([float(len(each.content))] for each in document.passages)


def test_model_outage_ends_the_run_and_keeps_indexed_files(folder: Path) -> None:
    async def failing(texts: Sequence[str]) -> list[list[float]]:
        if "Cherries." in texts:
            raise Unavailable
        return await numbers(texts)

    target = FakeIndexWriter()
    with pytest.raises(Unavailable):
        run_pipeline(folder, target, enrich=Enricher(failing))
    summary = run_pipeline(folder, target, enrich=Enricher(numbers))

    assert (summary.indexed, summary.unchanged) == (1, 2)


def test_prefetch_limits_concurrent_files(folder: Path) -> None:
    for number in range(40):
        write(folder, f"many/{number}.md", f"Number {number}.")
    reader, target = FakePassageReader(), FakeIndexWriter()
    run_pipeline(folder, target, reader=reader)

    assert reader.max_concurrent <= PREFETCH_FILES
    assert len(target.documents) == 43


def test_links_are_skipped(folder: Path) -> None:
    outside = folder.parent / f"{folder.name}-secret.md"
    outside.write_text("Secret.", "utf-8")
    links = {"out.md": outside, "nothing.md": folder / "none.md", "inside.md": folder / "a.md"}
    links["again"] = folder / "plans"
    for name, place in links.items():
        (folder / name).symlink_to(place)
    target = FakeIndexWriter()
    summary = run_pipeline(folder, target)

    assert summary.skipped == [(name, "It is a link.") for name in sorted(links)]
    assert target.documents.keys() == FILES.keys()


def test_hidden_files_and_folders_are_named(folder: Path) -> None:
    for name in (
        ".DS_Store",
        "._a.md",
        "._acl.yaml",
        "Thumbs.db",
        ".env",
        ".git/config",
        ".git/hooks/a",
    ):
        write(folder, name, "x")
    target = FakeIndexWriter()
    summary = run_pipeline(folder, target)

    assert summary.skipped == [(".git", "It is a hidden folder."), (".env", "It is hidden.")]
    assert target.documents.keys() == FILES.keys()


KEY = f"-----BEGIN {{}}PRIVATE KEY-----\n{'MIIEvQ' * 10}\n-----END {{}}PRIVATE KEY-----\n"
SECRETS = {
    "id_rsa": (KEY.format("OPENSSH ", "OPENSSH "), "It holds a private key."),
    "server.pem": ("-----BEGIN CERTIFICATE-----\nMII\n" + KEY, "It holds a private key."),
    "old.key": (
        KEY.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n", 1),
        "It holds a private key.",
    ),
    "putty.ppk": ("PuTTY-User-Key-File-3: ssh-rsa\n", "It holds a private key."),
    "store.pfx": ("x", "It is a store of keys."),
    "local.settings.json": ("{}", "It holds settings of an app, which may be secret."),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_left_out_and_named(folder: Path, name: str) -> None:
    text, reason = SECRETS[name]
    write(folder, f"keys/{name}", text.replace("{}", ""))
    target = FakeIndexWriter()

    assert run_pipeline(folder, target).skipped == [(f"keys/{name}", reason)]
    assert target.documents.keys() == FILES.keys()


def test_text_about_keys_is_indexed(folder: Path) -> None:
    write(folder, "keys.md", "It begins with\n-----BEGIN PRIVATE KEY-----\n... (the key) ...\n")

    assert run_pipeline(folder, FakeIndexWriter()).indexed == 4


def test_file_that_is_left_out_now_is_removed(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    write(folder, "a.md", KEY.replace("{}", ""))
    summary = run_pipeline(folder, target)

    assert (summary.stale, summary.unchanged) == (0, 2)
    assert target.documents.keys() == FILES.keys() - {"a.md"}


def test_unreadable_folder_leaves_the_index_as_it_is(folder: Path) -> None:
    for name in FILES:
        write(folder, name, "broken")
    target = FakeIndexWriter()
    summary = run_pipeline(folder, target)

    assert (summary.is_unreadable, target.finish_calls) == (True, 0)


def test_files_that_cannot_be_read_any_more_are_removed(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    for name in FILES:
        write(folder, name, "broken")
    summary = run_pipeline(folder, target)

    assert (summary.is_unreadable, target.finish_calls) == (False, 2)
    assert target.documents == {}


def test_pruning_removes_files_where_the_others_are_unreadable(folder: Path) -> None:
    target = FakeIndexWriter()
    run_pipeline(folder, target)
    for name in FILES:
        (folder / name).rename(folder / f"{name}.new")
        write(folder, f"{name}.new", "broken")
    kept = run_pipeline(folder, target)
    assert (kept.is_unreadable, kept.stale, target.finish_calls) == (True, 3, 1)
    pruned = run_pipeline(folder, target, prune=True)

    assert (pruned.is_unreadable, pruned.removed, target.finish_calls) == (False, 3, 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_named_pipe_is_skipped(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")

    assert run_pipeline(folder, FakeIndexWriter()).skipped == [
        ("pipe.md", "It is no regular file.")
    ]


def picture(name: str = "a.png") -> Passage:
    return Passage("1", f"Picture: {name}", name, name, "", image=b"\x89PNG\r\n\x1a\n...")


def describe(model: FakeModel) -> Passage:
    async def go() -> Passage:
        enrich = Enricher(vision=model, prompt="Describe it.")
        passages, _ = await enrich.enrich((picture(),))
        return passages[0]

    return asyncio.run(go())


def test_image_is_described_by_the_model() -> None:
    model = FakeModel((Delta("An org chart "), Delta("of the board."), Done()))
    passage = describe(model)
    (prompt,) = model.calls

    assert passage.content == "Picture: a.png\n\nAn org chart of the board."
    assert passage.image == picture().image
    assert prompt.messages[1].images[0].startswith("data:image/png;base64,iVBORw0KGgo")


def test_rejected_image_keeps_its_caption() -> None:
    assert describe(FakeModel([ContentFiltered()])) == picture()
    assert describe(FakeModel((Delta("x"), Done("content_filter")))) == picture()
    assert describe(FakeModel((Delta(" "), Done()))) == picture()


def test_run_concurrently_cancels_on_first_error() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            if number == 2:
                raise ValueError
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ValueError):
        asyncio.run(run_concurrently(work(number) for number in range(4)))
    assert sorted(ended) == [0, 1, 2, 3]


def test_for_each_concurrently_raises_the_first_error_with_its_cause() -> None:
    cause = ValueError()

    async def work(number: int) -> None:
        if number == 2:
            raise KeyError from cause
        await asyncio.sleep(0)

    with pytest.raises(KeyError) as raised:
        asyncio.run(for_each_concurrently(work, range(9)))
    assert raised.value.__cause__ is cause


def test_prefetch_cancels_started_tasks_on_close() -> None:
    ended: list[int] = []

    @asynccontextmanager
    async def record_end(number: int) -> AsyncIterator[None]:
        try:
            yield
        finally:
            ended.append(number)

    async def work(number: int) -> int:
        async with record_end(number):
            if number:
                await asyncio.Event().wait()
            return number

    async def go() -> int:
        works = prefetch((work(number) for number in range(10)), 3)
        first = await anext(works)
        await works.aclose()
        return first

    assert asyncio.run(go()) == 0
    assert sorted(ended) == [0, 1, 2]
