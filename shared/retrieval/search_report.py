"""Reports how a search was done, with a note for each requested option that is unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shared.chat.overrides import Overrides

DEFAULT_VECTOR_FIELD = "embedding"  # clients name it in every request, also in a text search

NO_VECTORS = "the index has no vectors"

_WITHOUT_RANKER = {
    "semantic_ranker": "no ranker is available; the passages are in the order of the search",
    "semantic_captions": "captions need a ranker; the whole passages were used",
    "minimum_reranker_score": "no ranker is available, so there is no such score",
}


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How a search was done: its mode, whether a ranker reordered the hits, its vector field.

    `fallback_reason` says why the mode differs from the requested one. `has_images` is whether the
    images of passages are available, `has_categories` whether passages have categories.
    """

    mode: str = "text"
    reranked: bool = False
    vector_field: str = DEFAULT_VECTOR_FIELD
    fallback_reason: str = NO_VECTORS
    has_images: bool = False
    has_categories: bool = True

    def props(self, overrides: Overrides) -> dict[str, Any]:
        """The properties of the thought about the search."""
        names = ["minimum_search_score"]
        if self.has_categories:
            names = ["include_category", "exclude_category", *names]
        requested = {
            name: getattr(overrides, name) for name in names if overrides.is_requested(name)
        }
        return {
            "has_vector": self.mode != "text",
            "use_semantic_captions": self.reranked and bool(overrides.semantic_captions),
            "retrieval_mode": self.mode,
            "top": overrides.top,
            **({"semantic_ranker": True} if self.reranked else {}),
            **requested,
        }

    def notes(self, overrides: Overrides) -> tuple[str, ...]:
        """One sentence for each requested option that was not used."""
        return (*self._vector_notes(overrides), *self._other_notes(overrides))

    def _vector_notes(self, overrides: Overrides) -> Iterator[str]:
        requested = overrides.retrieval_mode
        if requested not in (None, self.mode):
            yield f"retrieval_mode {requested} was left out: {self.fallback_reason}; text was used."
        no_vectors = self.mode == "text" and requested != "text"
        fields = overrides.vector_fields or ()
        if unknown := [name for name in fields if no_vectors or name != self.vector_field]:
            yield f"vector_fields was left out: this index has no field {', '.join(unknown)}."

    def _other_notes(self, overrides: Overrides) -> Iterator[str]:
        for name, reason in _WITHOUT_RANKER.items():
            if overrides.is_requested(name) and not self.reranked:
                yield f"{name} was left out: {reason}."
        for name in ("include_category", "exclude_category"):
            if overrides.is_requested(name) and not self.has_categories:
                yield f"{name} was left out: this index has no categories."
        if overrides.is_requested("use_gpt4v") and not self.has_images:
            yield "use_gpt4v was left out: no images of the documents are available."
        uses_images = self.has_images and overrides.is_requested("use_gpt4v")
        if overrides.gpt4v_input not in (None, "text") and not uses_images:
            yield f"gpt4v_input {overrides.gpt4v_input} was left out: only text was used."
