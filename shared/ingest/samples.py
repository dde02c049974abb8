"""Makes the sample passages anew: `python -m shared.ingest.samples`.

Run it after a change in `shared/data/documents/`; a test compares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from shared.ingest.document import UnreadableDocument
from shared.ingest.readers.file_reader import read
from shared.ingest.splitting.passages import Passage, passages

DATA = Path(__file__).parent.parent / "data"


def documents(folder: Path) -> tuple[Path, ...]:
    """The files below `folder` in the order of their paths, without hidden ones (.DS_Store)."""
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = (path for path in inside if not any(part.startswith(".") for part in path.parts))
    return tuple(folder / path for path in sorted(shown, key=Path.as_posix))


def file_passages(folder: Path, path: Path) -> tuple[Passage, ...]:
    """The passages of one file in `folder`. Raises Unreadable, with the file's name."""
    name = path.relative_to(folder).as_posix()
    try:
        content = read(path)
    except UnreadableDocument as error:
        raise UnreadableDocument(f"{name}: {error}") from error
    return tuple(passages(name, content.pages, content.category))


def json_lines(found: Iterable[Passage]) -> str:
    """One passage a line, in the form that both indexes load."""
    rows = (asdict(passage) for passage in found)
    bare = ({key: value for key, value in row.items() if value is not None} for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in bare)


def remake(folder: Path, target: Path) -> str:
    """Write the passages of all files in `folder` to `target`; returns a line that sums up.

    Raises `UnreadableDocument` before anything is written.
    """
    files = documents(folder)
    found = tuple(passage for path in files for passage in file_passages(folder, path))
    target.write_text(json_lines(found), encoding="utf-8", newline="\n")
    return f"{len(files)} files, {len(found)} passages written to {target}."


def main(data: Path = DATA) -> int:
    """Remake the samples in the folder `data`; the exit status."""
    try:
        print(remake(data / "documents", data / "samples.jsonl"))
    except UnreadableDocument as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
