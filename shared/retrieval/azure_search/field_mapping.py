"""What does an index call what we call so, and which passage is a hit of it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from shared.chat.citation_paths import encode_path, escape_citation
from shared.chat.events import Source

# The tools of "Azure OpenAI On Your Data" named a passage's number in the one or in the other.
CHUNK, METADATA = "chunk_id", "metadata"
OTHERS = {CHUNK: METADATA, METADATA: CHUNK}


@dataclass(frozen=True, slots=True)
class IndexFields:
    """What the index calls what we call so; empty for what it does not have.

    `title` and `url` are those of an index that was made elsewhere. Where several passages share
    a sourcepage, `chunk` tells them apart: they are cited as `sourcepage#chunk`.
    """

    id: str = "id"
    content: str = "content"
    sourcepage: str = "sourcepage"
    sourcefile: str = "sourcefile"
    category: str = "category"
    oids: str = "oids"
    groups: str = "groups"
    embedding: str = "embedding"
    image: str = "image"
    title: str = ""
    url: str = ""
    chunk: str = ""

    @property
    def restricting(self) -> bool:
        """Whether the index says who may see what."""
        return bool(self.oids or self.groups)

    @property
    def ours(self) -> bool:
        """Whether it can be an index that we make: it has whatever our passages have, no more."""
        needed = (self.category, self.oids, self.groups, self.embedding, self.image)
        return all(needed) and not (self.title or self.url or self.chunk)

    def selected(self, images: bool = False) -> list[str]:
        """The fields that a hit is asked for: all but the vector; the picture's where wanted."""
        names = [self.id, self.content, self.sourcepage, self.sourcefile, self.category]
        names += [self.oids, self.groups, self.title, self.url, self.chunk]
        return list(dict.fromkeys(filter(None, [*names, self.image if images else ""])))

    def source(self, hit: Mapping[str, Any]) -> Source:
        """A hit as a passage."""
        captions = hit.get("@search.captions") or ()
        page, file = self._cited(hit)
        return Source(
            id=self._text(hit, self.id),
            content=self._text(hit, self.content),
            sourcepage=page,
            sourcefile=file,
            category=hit.get(self.category) or None,
            oids=tuple(hit.get(self.oids) or ()),
            groups=tuple(hit.get(self.groups) or ()),
            captions=tuple(caption.text for caption in captions if caption.text),
            score=hit.get("@search.score"),
            reranker_score=hit.get("@search.reranker_score"),
            title=self._text(hit, self.title) or None,
            url=self._url(hit),
        )

    def _cited(self, hit: Mapping[str, Any]) -> tuple[str, str]:
        """The sourcepage and the sourcefile. What came from a page of the web may have no path."""
        id = self._text(hit, self.id)
        page, file = self._text(hit, self.sourcepage), self._text(hit, self.sourcefile)
        name = file or page or self._text(hit, self.title) or id
        if not self.chunk:
            return escape_citation(page or name), name
        number = self._number(hit) if page else id  # a title may be that of many
        return f"{encode_path(page or name)}#{encode_path(number)}", name

    def _number(self, hit: Mapping[str, Any]) -> str:
        """What tells a passage from the others of its file; its id where it has no number."""
        given = hit.get(self.chunk)
        if self.chunk == METADATA:
            try:
                given = from_json(given or "")[CHUNK]
            except (ValueError, KeyError, TypeError, IndexError):
                given = None
        number = isinstance(given, str | int) and not isinstance(given, bool) and str(given)
        return number or self._text(hit, self.id)

    def _url(self, hit: Mapping[str, Any]) -> str | None:
        """Its address, for a browser: None where the index has none, empty where the passage has
        none."""
        if not self.url:
            return None
        given = self._text(hit, self.url)
        return given if given.lower().startswith(("https://", "http://")) else ""

    @staticmethod
    def _text(hit: Mapping[str, Any], name: str) -> str:
        value = hit.get(name)
        return "" if value is None else str(value)
