"""How a search was really done, and a sentence for whatever was asked and cannot be done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shared.chat.overrides import Overrides

USUAL_FIELD = "embedding"  # clients name it in every request, also for a search by text

NO_VECTORS = "there are no vectors here"

_RANKED = {
    "semantic_ranker": "there is no ranker here; the passages are in the order of the search",
    "semantic_captions": "there are no captions without a ranker; the passages are given whole",
    "minimum_reranker_score": "there is no ranker here that gives such a score",
}


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What a search did: its mode, whether a ranker went over its hits, its vector field.

    `unlike` says why the mode is another than the one that was asked for; `images`
    whether it gives the pictures of its passages where they are asked for, `categories` whether
    they have any.
    """

    mode: str = "text"
    ranked: bool = False
    field: str = USUAL_FIELD
    unlike: str = NO_VECTORS
    images: bool = False
    categories: bool = True

    def props(self, overrides: Overrides) -> dict[str, Any]:
        """For the thought about the search."""
        names = ["minimum_search_score"]
        if self.categories:
            names = ["include_category", "exclude_category", *names]
        asked = {name: getattr(overrides, name) for name in names if overrides.is_requested(name)}
        return {
            "has_vector": self.mode != "text",
            "use_semantic_captions": self.ranked and bool(overrides.semantic_captions),
            "retrieval_mode": self.mode,
            "top": overrides.top,
            **({"semantic_ranker": True} if self.ranked else {}),
            **asked,
        }

    def notes(self, overrides: Overrides) -> tuple[str, ...]:
        """What was asked and not done."""
        return (*self._about_vectors(overrides), *self._about_the_rest(overrides))

    def _about_vectors(self, overrides: Overrides) -> Iterator[str]:
        asked = overrides.retrieval_mode
        if asked not in (None, self.mode):
            yield f"retrieval_mode {asked} was left out: {self.unlike}; text was used."
        unused = self.mode == "text" and asked != "text"
        fields = overrides.vector_fields or ()
        if unknown := [name for name in fields if unused or name != self.field]:
            yield f"vector_fields was left out: this index has no field {', '.join(unknown)}."

    def _about_the_rest(self, overrides: Overrides) -> Iterator[str]:
        for name, reason in _RANKED.items():
            if overrides.is_requested(name) and not self.ranked:
                yield f"{name} was left out: {reason}."
        for name in ("include_category", "exclude_category"):
            if overrides.is_requested(name) and not self.categories:
                yield f"{name} was left out: this index has no categories."
        if overrides.is_requested("use_gpt4v") and not self.images:
            yield "use_gpt4v was left out: there are no images of the documents here."
        seen = self.images and overrides.is_requested("use_gpt4v")
        if overrides.gpt4v_input not in (None, "text") and not seen:
            yield f"gpt4v_input {overrides.gpt4v_input} was left out: only text was used."
