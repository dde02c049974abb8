"""Statistics of an index, for the log and, on a laptop, for `/health`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

EMPTY_INDEX = "The index has no passages: fill it, for example by `make index DOCS=folder`."


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """What an index holds, as far as it is known without a request.

    `name` is the index's, or that of the folder of its documents: never a path. `has_vectors` is
    whether a search uses them. `updated` is when the index was made or last changed, in seconds
    since 1970. `has_ranker` is whether there is a semantic ranker, `has_images` whether passages
    can have images, `is_samples` whether these are the sample documents.
    """

    name: str
    has_vectors: bool = False
    documents: int | None = None
    passages: int | None = None
    updated: float | None = None
    has_ranker: bool = False
    has_images: bool = False
    is_samples: bool = False

    def describe(self) -> str:
        """Format a sentence such as `manuals: 1 document, 12 passages, searched by words`."""
        counts = (("document", self.documents), ("passage", self.passages))
        parts = [f"{n:,} {noun}{'' if n == 1 else 's'}" for noun, n in counts if n is not None]
        parts.append(f"searched by words{' and vectors' if self.has_vectors else ''}")
        if self.updated is not None:
            parts.append(f"made {self._time():%Y-%m-%d %H:%M} UTC")
        return f"{self.name}: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """Return the values that are known."""
        values = {
            "name": self.name,
            "documents": self.documents,
            "passages": self.passages,
            "search": "words and vectors" if self.has_vectors else "words",
            "made": None if self.updated is None else f"{self._time():%Y-%m-%dT%H:%M:%SZ}",
        }
        return {key: value for key, value in values.items() if value is not None}

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self.updated or 0, UTC)
