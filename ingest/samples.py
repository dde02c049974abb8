"""Regenerates the sample passages: `python -m ingest.samples`.

Run it after a change in `shared/data/documents/`; a test compares the result.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from ingest.document import UnreadableDocument
from ingest.readers.file_reader import read_file
from ingest.splitting.passages import Passage, split_document

DATA = Path(__file__).parent.parent / "shared" / "data"


def list_files(folder: Path) -> tuple[Path, ...]:
    """The files below `folder`, sorted by path, without hidden ones (.DS_Store)."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    visible = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    return tuple(folder / path for path in sorted(visible, key=Path.as_posix))


def read_passages(folder: Path, path: Path) -> tuple[Passage, ...]:
    """Read the passages of one file. Raises UnreadableDocument, with the file's name."""
    name = path.relative_to(folder).as_posix()
    try:
        content = read_file(path)
    except UnreadableDocument as error:
        raise UnreadableDocument(f"{name}: {error}") from error
    return tuple(split_document(name, content.pages, content.category))


def to_json_lines(passages: Iterable[Passage]) -> str:
    """Format passages as JSON Lines, the format that both indexes load."""
    rows = (asdict(passage) for passage in passages)
    bare = ({key: value for key, value in row.items() if value is not None} for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in bare)


def write_samples(folder: Path, target: Path) -> str:
    """Write the passages of all files in `folder` to `target`, and return a summary line.

    Raises `UnreadableDocument` before anything is written.
    """
    files = list_files(folder)
    passages = tuple(passage for path in files for passage in read_passages(folder, path))
    target.write_text(to_json_lines(passages), encoding="utf-8", newline="\n")
    return f"{len(files)} files, {len(passages)} passages written to {target}."


def main(data: Path = DATA) -> int:
    """Regenerate the samples in the folder `data`. Returns the exit status."""
    try:
        print(write_samples(data / "documents", data / "samples.jsonl"))
    except UnreadableDocument as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
