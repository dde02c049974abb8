"""Vector search in memory, with vectors quantized to 8-bit integers.

Needs numpy, which is not deployed by default, so functions import it when they need it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from shared.retrieval.sqlite.schema import parse_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_SIZE = 256  # vectors that, as floats, fit a processor's cache
VECTORS = """
SELECT vector.passage, scale, data, public FROM vector
LEFT JOIN passage ON passage.key = vector.passage ORDER BY vector.passage
"""
READERS = "SELECT kind, name, passage FROM reader JOIN vector USING (passage) ORDER BY kind, name"

Reader = tuple[str, str]
"""The kind of who may see a passage, `oid` or `group`, and the name."""


def is_available() -> bool:
    """Whether numpy is installed, which vector search needs."""
    return find_spec("numpy") is not None


def quantize(vectors: Sequence[Sequence[float]]) -> Iterator[tuple[float, bytes]]:
    """Normalize each vector and yield it as a scale and int8 components from -127 to 127."""
    import numpy as np

    for vector in vectors:
        exact = np.asarray(vector, dtype=np.float64)
        unit = exact / (np.linalg.norm(exact) or 1.0)
        scale = float(np.abs(unit).max() / 127) or 1.0
        yield scale, np.round(unit / scale).astype(np.int8).tobytes()


@dataclass(frozen=True, slots=True)
class Similarities:
    """The cosines of a question with passages, in the order of the passages' keys."""

    keys: NDArray[np.int64]
    cosines: NDArray[np.float64]

    def nearest(self, count: int) -> list[tuple[int, float]]:
        """Return the keys of the `count` nearest passages with their cosines, best first.

        All passages with the cosine of the last are included, so that the caller decides among
        them.
        """
        import numpy as np

        rows = np.arange(len(self.keys))
        if len(rows) > count:
            rows = rows[self.cosines >= np.partition(self.cosines, -count)[-count]]
        best = rows[np.argsort(-self.cosines[rows], kind="stable")]
        return [(int(self.keys[row]), float(self.cosines[row])) for row in best]

    def relative(self, keys: Sequence[int]) -> dict[int, float]:
        """Return each passage's cosine on the scale from their mean (0, also without one) to 1.

        The cosines of one model with unrelated texts are about 0.1, those of another about 0.75:
        on this scale models are alike.
        """
        import numpy as np

        if not len(self.keys):
            return dict.fromkeys(keys, 0.0)
        # Rounded, since a sum depends on the order of its numbers, here that of indexing.
        mean, wanted = round(float(self.cosines.mean()), 6), np.asarray(keys, np.int64)
        rows = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        cosines = np.where(self.keys[rows] == wanted, self.cosines[rows], mean)
        return dict(zip(keys, ((cosines - mean) / max(1 - mean, 1e-6)).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of an index, in the order of their passages' keys."""

    keys: NDArray[np.int64]
    scales: NDArray[np.float64]
    components: NDArray[np.int8]
    public: NDArray[np.bool_]  # whether everybody may see the passage
    readers: Mapping[Reader, NDArray[np.int32]]  # the rows of the passages that each may see

    def visible(self, readers: Iterable[Reader]) -> NDArray[np.bool_]:
        """Return which rows are public, or may be seen by any of these readers."""
        visible = self.public.copy()
        for reader in readers:
            if (rows := self.readers.get(reader)) is not None:
                visible[rows] = True
        return visible

    def having(self, keys: Sequence[int]) -> NDArray[np.bool_]:
        """Return which rows are those of passages with these keys."""
        import numpy as np

        return np.isin(self.keys, np.asarray(keys, np.int64))

    def compare(self, vector: Sequence[float], selected: NDArray[np.bool_]) -> Similarities:
        """Return the cosines of a vector with those of the selected rows."""
        return Similarities(self.keys[selected], self._cosines(vector)[selected])

    def _cosines(self, vector: Sequence[float]) -> NDArray[np.float64]:
        import numpy as np

        query, factor = _quantize_query(vector)
        products = np.empty(len(self.keys), np.float32)
        floats = np.empty((BLOCK_SIZE, len(vector)), np.float32)
        for start in range(0, len(self.keys), BLOCK_SIZE):
            block = self.components[start : start + BLOCK_SIZE]
            np.copyto(floats[: len(block)], block)
            products[start : start + BLOCK_SIZE] = floats[: len(block)] @ query
        return products * self.scales / factor


def _quantize_query(vector: Sequence[float]) -> tuple[NDArray[np.float32], float]:
    """Normalize a query vector and return it as integers, with the factor of their scale.

    No partial sum of its product with a quantized vector exceeds 2**24. So float32 sums are exact
    in any order, and a cosine does not depend on the position of a passage in the index.
    """
    import numpy as np

    exact = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(exact)) or 1.0
    root = len(vector) ** 0.5
    factor = 2**24 / (127 * root) - root
    return np.round(exact / length * factor).astype(np.float32), factor


def add_vectors(
    connection: sqlite3.Connection, keys: Sequence[int], vectors: Sequence[Sequence[float]]
) -> None:
    """Add the vectors of the passages with these keys to an index. Raises sqlite3.Error."""
    rows = ((key, *row) for key, row in zip(keys, quantize(vectors), strict=True))
    connection.executemany("INSERT INTO vector VALUES (?, ?, ?)", rows)


def load_vectors(connection: sqlite3.Connection, dimensions: int) -> Vectors:
    """Read all vectors of an index. Raises sqlite3.Error, also for a damaged vector."""
    import numpy as np

    (count,) = connection.execute("SELECT count(*) FROM vector").fetchone()
    keys, scales = np.empty(count, np.int64), np.empty(count, np.float64)
    components, public = np.empty((count, dimensions), np.int8), np.empty(count, np.bool_)
    rows = connection.execute(VECTORS)
    with parse_rows():
        for index, (key, scale, data, is_public) in enumerate(rows):
            keys[index], scales[index], public[index] = key, scale, is_public == 1
            components[index] = np.frombuffer(data, np.int8)
        readers = {
            reader: np.searchsorted(keys, [row[2] for row in group]).astype(np.int32)
            for reader, group in groupby(connection.execute(READERS), key=itemgetter(0, 1))
        }
    return Vectors(keys, scales, components, public, readers)
