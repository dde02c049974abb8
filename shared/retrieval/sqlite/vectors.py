"""Vector search in memory, with vectors quantized to 8-bit integers.

Needs numpy, which is not deployed by default, so functions import it when they need it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shared.retrieval.sqlite.schema import parse_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_SIZE = 256  # vectors that, as floats, fit a processor's cache


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
class Vectors:
    """The vectors of an index, in the order of their passages' keys."""

    keys: NDArray[np.int64]
    scales: NDArray[np.float64]
    components: NDArray[np.int8]

    def nearest(
        self, vector: Sequence[float], count: int, allowed: Collection[int] | None
    ) -> list[tuple[int, float]]:
        """Return the keys of the `count` nearest passages with their cosines, best first.

        All passages with the cosine of the last are included, so that the caller decides among
        them. `allowed` are the keys to consider; None is all.
        """
        import numpy as np

        cosines = self._similarities(vector)
        rows = np.arange(len(self.keys))
        if allowed is not None:
            rows = rows[np.isin(self.keys, np.fromiter(allowed, np.int64, len(allowed)))]
        if len(rows) > count:
            minimum = np.partition(cosines[rows], -count)[-count]
            rows = rows[cosines[rows] >= minimum]
        best = rows[np.argsort(-cosines[rows], kind="stable")]
        return [(int(self.keys[row]), float(cosines[row])) for row in best]

    def _similarities(self, vector: Sequence[float]) -> NDArray[np.float64]:
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


def load_vectors(connection: sqlite3.Connection, dimensions: int) -> Vectors:
    """Read all vectors of an index. Raises sqlite3.Error, also for a damaged vector."""
    import numpy as np

    (count,) = connection.execute("SELECT count(*) FROM vector").fetchone()
    keys, scales = np.empty(count, np.int64), np.empty(count, np.float64)
    components = np.empty((count, dimensions), np.int8)
    rows = connection.execute("SELECT passage, scale, data FROM vector ORDER BY passage")
    with parse_rows():
        for index, (key, scale, data) in enumerate(rows):
            keys[index], scales[index] = key, scale
            components[index] = np.frombuffer(data, np.int8)
    return Vectors(keys, scales, components)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Any]], constant: int = 60
) -> dict[Any, float]:
    """Return the score of each item by reciprocal rank fusion of several rankings."""
    scores: dict[Any, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (constant + rank)
    return scores
