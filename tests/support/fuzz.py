"""Settings and values of the fuzz tests."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))  # of each test
TIMEOUT = 30.0  # seconds a single request may take; only a hang does

# The same examples in each run, however long one takes.
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)
)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
words = st.text(min_size=1, max_size=60).filter(str.strip)


def replaced(body: Any, chance: Random, instead: Any) -> None:
    """Put something else in the place of one value, anywhere in a body, or take it away."""
    place = body
    while keys := list(place) if isinstance(place, dict) else list(range(len(place))):
        key = chance.choice(keys)
        if not isinstance(place[key], dict | list) or chance.random() < 0.3:
            place[key] = instead
            if isinstance(place, dict) and chance.random() < 0.3:
                del place[key]
            return
        place = place[key]


@st.composite
def nearly_right(draw: st.DrawFn, bodies: st.SearchStrategy[Any]) -> bytes:
    """A right body; in four of ten one value somewhere in it is replaced by junk."""
    body: Any = json.loads(json.dumps(draw(bodies)))  # its own: parts of it are other tests'
    chance = draw(st.randoms(use_true_random=True))  # hypothesis' own likes the first choice best
    if chance.random() < 0.4:
        replaced(body, chance, draw(junk))
    data = json.dumps(body).encode()
    return data[: chance.randrange(len(data))] if chance.random() < 0.05 else data
