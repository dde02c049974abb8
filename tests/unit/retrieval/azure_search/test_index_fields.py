"""The fields of an index as those of a source."""

from __future__ import annotations

from typing import Any

import pytest

from shared.retrieval.azure_search.index_fields import CHUNK_FIELD, IndexFields

OTHER_TOOL = {"title": "title", "url": "url", "sourcepage": "filepath", "sourcefile": ""}


@pytest.mark.parametrize(
    ("chunk", "hit", "names"),
    [
        ("", {"id": "1", "filepath": "a b.md"}, ("a b.md", "a b.md")),
        ("", {"id": "1", "title": "T"}, ("T", "T")),
        (CHUNK_FIELD, {"id": "1", "filepath": "a.md", "chunk_id": "7"}, ("a.md#7", "a.md")),
        (CHUNK_FIELD, {"id": "1", "title": "T", "chunk_id": "7"}, ("T#1", "T")),
        (CHUNK_FIELD, {"id": "1", "chunk_id": "7"}, ("1#1", "1")),
    ],
)
def test_passage_of_another_tool_is_cited_by_what_it_has(
    chunk: str, hit: dict[str, Any], names: tuple[str, str]
) -> None:
    source = IndexFields(**OTHER_TOOL, chunk=chunk).to_source({"content": "text", **hit})

    assert (source.sourcepage, source.sourcefile) == names


def test_source_has_the_scores_of_its_hit() -> None:
    hit = {"id": "1", "content": "x", "@search.score": 1.5, "@search.rerankerScore": 2.5}
    source = IndexFields().to_source(hit)

    assert (source.score, source.reranker_score) == (1.5, 2.5)
