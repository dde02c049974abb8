"""A filter over the stream: `[sourcepage]` becomes `[docN]`, wherever tokens cut the marker."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from shared.chat.errors import ChatError
from shared.chat.events import Context, Delta, Done, Events, Source

# What a client takes for a citation by number, and what may become one at the end of a piece.
NUMBERED_CITATION = re.compile(r"\[(doc(\d{1,99}))\]", re.IGNORECASE)
PARTIAL_CITATION = re.compile(r"\[(?:d(?:o(?:c\d{0,99})?)?)?\Z", re.IGNORECASE)


def number_sources(sources: Sequence[Source]) -> dict[str, int]:
    """The place of each sourcepage among what may be cited, from 1: the first passage of it."""
    pages: dict[str, int] = {}
    for place, source in enumerate(sources, 1):
        if source.sourcepage:
            pages.setdefault(source.sourcepage, place)
    return pages


class MarkerRewriter:
    """Rewrites the markers of a text that comes in pieces.

    What is not a marker of a source is unchanged: `[doc1]`, `[x]`, `a[0]`.
    """

    def __init__(self, pages: Mapping[str, int]) -> None:
        # The longest first: one may begin as another does.
        longest = sorted(pages.items(), key=lambda page: -len(page[0]))
        self._markers = {f"[{page}]": f"[doc{place}]" for page, place in longest}
        self._all, self._sorted = tuple(self._markers), sorted(self._markers)
        self._longest = max(map(len, self._markers), default=0)
        self._kept = ""

    def feed(self, text: str) -> str:
        """Takes a piece; returns the text that is decided by now."""
        return self._shown(self._kept + text, ended=False)

    def end(self) -> str:
        """The rest of the text at its end."""
        return self._shown(self._kept, ended=True)

    def _shown(self, text: str, ended: bool) -> str:
        shown, at, self._kept = [], 0, ""
        while (begin := text.find("[", at)) >= 0:
            shown.append(text[at:begin])
            if not ended and self._undecided(text, begin):
                self._kept = text[begin:]
                return "".join(shown)
            marker = self._marker_at(text, begin)
            shown.append(self._markers.get(marker, "["))
            at = begin + len(marker)
        return "".join((*shown, text[at:]))

    def _undecided(self, text: str, begin: int) -> bool:
        """Whether what begins there may still become a marker, or a longer one."""
        rest = text[begin : begin + self._longest]
        # Right behind it in order stand those that begin with it.
        place = bisect_right(self._sorted, rest)
        return place < len(self._sorted) and self._sorted[place].startswith(rest)

    def _marker_at(self, text: str, begin: int) -> str:
        """The longest marker that stands there, else the bracket alone."""
        if not text.startswith(self._all, begin):  # the common case, and fast
            return "["
        return next(marker for marker in self._all if text.startswith(marker, begin))


class CitationRewriter:
    """Rewrites the citations of an answer that comes in pieces: each `[docN]` in it is ours.

    The model is instructed to cite `[sourcepage]`. A `[docN]` that it writes is a copy, such as
    from a passage, and would cite another source: it becomes `(docN)`.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        pages = number_sources(sources)
        self._markers, self._sources = MarkerRewriter(pages), len(sources)
        self._names = {f"[{page}]" for page in pages}
        self._rest = ""

    def feed(self, text: str) -> str:
        """Takes a piece; returns the text that is decided by now."""
        text = self._rest + text
        partial = PARTIAL_CITATION.search(text)
        end = partial.start() if partial else len(text)
        self._rest = text[end:]
        return self._markers.feed(NUMBERED_CITATION.sub(self._rewrite, text[:end]))

    def end(self) -> str:
        """The rest of the text at its end."""
        rest, self._rest = self._rest, ""
        return self._markers.feed(rest) + self._markers.end()

    def _rewrite(self, match: re.Match[str]) -> str:
        cites = 1 <= int(match[2]) <= self._sources and match[0] not in self._names
        return f"({match[1]})" if cites else match[0]


async def number_citations(events: Events) -> Events:
    """The same events, with sources cited by their place."""
    markers = CitationRewriter(())
    async with aclosing(events):
        try:
            async for event in events:
                match event:
                    case Context():
                        markers = CitationRewriter(event.sources)
                    case Delta(content):
                        event = replace(event, content=markers.feed(content))
                    case Done():
                        if rest := markers.end():
                            yield Delta(rest)
                yield event
        except ChatError:  # what came before it is not lost
            if rest := markers.end():
                yield Delta(rest)
            raise
