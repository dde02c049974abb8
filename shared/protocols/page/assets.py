"""The files of the page, as they are sent: with their media type, compressed and tagged."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page. `etag` is the value of the header, with quotes."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


def load_asset(name: str) -> Asset | None:
    """Read a file of the page by its path in its folder; None if there is none. Raises OSError.

    A change of the file is seen at once.
    """
    path = FOLDER / name
    inside = "\0" not in name and path.resolve().is_relative_to(FOLDER.resolve())
    if not inside or path.suffix not in MEDIA_TYPES or not path.is_file():
        return None
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _load(path: Path, _modified: int) -> Asset:
    content = path.read_bytes()
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    return Asset(MEDIA_TYPES[path.suffix], content, gzip.compress(content, mtime=0), etag)
