"""Which passages are near a question in meaning? All vectors in memory, a byte for each number.

Needs numpy, which is not deployed by default: it is imported where it is first needed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 256  # vectors at a time: as floats they stay within a processor's cache


def is_available() -> bool:
    """Whether vectors can be searched here."""
    return find_spec("numpy") is not None


def packed(vectors: Sequence[Sequence[float]]) -> Iterator[tuple[float, bytes]]:
    """Each vector at length one, as a factor and whole numbers from -127 to 127."""
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
    numbers: NDArray[np.int8]

    def nearest(
        self, vector: Sequence[float], most: int, allowed: Collection[int] | None
    ) -> list[tuple[int, float]]:
        """The keys of at least `most` passages and how near they are (1 is the same), best first.

        Passages as near as the last are all given, so that the caller decides among them.
        `allowed` are the only keys to look at; None is all.
        """
        import numpy as np

        near = self._products(vector)
        places = np.arange(len(self.keys))
        if allowed is not None:
            places = places[np.isin(self.keys, np.fromiter(allowed, np.int64, len(allowed)))]
        if len(places) > most:
            least = np.partition(near[places], -most)[-most]
            places = places[near[places] >= least]
        best = places[np.argsort(-near[places], kind="stable")]
        return [(int(self.keys[place]), float(near[place])) for place in best]

    def _products(self, vector: Sequence[float]) -> NDArray[np.float64]:
        import numpy as np

        whole, factor = _whole(vector)
        products = np.empty(len(self.keys), np.float32)
        floats = np.empty((BLOCK, len(vector)), np.float32)
        for start in range(0, len(self.keys), BLOCK):
            block = self.numbers[start : start + BLOCK]
            np.copyto(floats[: len(block)], block)
            products[start : start + BLOCK] = floats[: len(block)] @ whole
        return products * self.scales / factor


def _whole(vector: Sequence[float]) -> tuple[NDArray[np.float32], float]:
    """A question's vector at length one, as whole numbers over a factor.

    So small that no sum with a packed vector passes 2**24: then floats are exact in any order, and
    a passage is as near in whichever place of the index it lies.
    """
    import numpy as np

    exact = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(exact)) or 1.0
    root = len(vector) ** 0.5
    factor = 2**24 / (127 * root) - root
    return np.round(exact / length * factor).astype(np.float32), factor


def load(connection: sqlite3.Connection, dimensions: int) -> Vectors:
    """Read all vectors of an index. Raises sqlite3.Error, ValueError where one is damaged."""
    import numpy as np

    (count,) = connection.execute("SELECT count(*) FROM vector").fetchone()
    keys, scales = np.empty(count, np.int64), np.empty(count, np.float64)
    numbers = np.empty((count, dimensions), np.int8)
    rows = connection.execute("SELECT passage, scale, data FROM vector ORDER BY passage")
    for place, (key, scale, data) in enumerate(rows):
        keys[place], scales[place] = key, scale
        numbers[place] = np.frombuffer(data, np.int8)
    return Vectors(keys, scales, numbers)


def fused(rankings: Sequence[Sequence[Any]], constant: int = 60) -> dict[Any, float]:
    """Reciprocal rank fusion: what each name in some rankings is worth over all of them."""
    worth: dict[Any, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, 1):
            worth[name] = worth.get(name, 0.0) + 1 / (constant + rank)
    return worth
