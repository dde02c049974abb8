"""The order of the filters around an answer."""

from __future__ import annotations

from shared.rag import filters


def test_the_filters_stand_in_this_order() -> None:
    names = [each.__name__ for each in filters.FILTERS]

    assert names == [
        "extract_followups",
        "end_model",
        "store_answer",
        "apply_protocol_filters",
        "end_request",
        "observe",
    ]
