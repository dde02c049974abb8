"""The limits of a call."""

from __future__ import annotations

import pytest

from shared.http.call import Limits


@pytest.mark.parametrize(("request_seconds", "seconds"), [(120, 10), (40, 10), (8, 2)])
def test_storing_an_answer_leaves_most_of_the_time_to_the_answer(
    request_seconds: float, seconds: float
) -> None:
    limits = Limits(request_seconds=request_seconds, memory_seconds=10)

    assert limits.storage_seconds == seconds
