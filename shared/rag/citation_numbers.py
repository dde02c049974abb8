"""A transform of the stream: `[sourcepage]` becomes `[docN]`, wherever tokens cut the marker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from shared.domain.events import Context, Delta, Done, Events, Source
from shared.rag.citation_finder import sources_by_name

# What a client takes for a citation by number, and what may become one at the end of a piece.
NUMBERED_CITATION = re.compile(r"\[(?P<name>doc(?P<number>\d{1,99}))\]", re.IGNORECASE)
PARTIAL_CITATION = re.compile(r"\[(?:d(?:o(?:c\d{0,99})?)?)?", re.IGNORECASE)


class CitationRewriter:
    """Rewrites the citations of an answer that comes in pieces: each `[docN]` in it is ours.

    The model is instructed to cite `[sourcepage]`. A `[docN]` that it writes is a copy, such as
    from a passage, and would cite another source: it becomes `(docN)`. Other text is unchanged:
    `[x]`, `a[0]`, `[doc9]` of three sources.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        names = sources_by_name(sources)
        # The longest first: one may begin as another does.
        longest_first = sorted(names, key=len, reverse=True)
        numbers = {name: sources.index(names[name]) + 1 for name in longest_first}
        self._replacements = {f"[{name}]": f"[doc{numbers[name]}]" for name in longest_first}
        self._markers = tuple(self._replacements)
        self._max_length = max(map(len, self._markers), default=0)
        self._number_of_sources = len(sources)
        self._pending = ""  # the end of the text, if it may become a marker

    def feed(self, text: str) -> str:
        """Take a piece; return the text that is decided by now."""
        return self._rewrite(self._pending + text, ended=False)

    def end(self) -> str:
        """Return the rest of the text at its end."""
        return self._rewrite(self._pending, ended=True)

    def _rewrite(self, text: str, ended: bool) -> str:
        decided, position, self._pending = [], 0, ""
        while (begin := text.find("[", position)) >= 0:
            decided.append(text[position:begin])
            if not ended and self._may_grow(text, begin):
                self._pending = text[begin:]
                return "".join(decided)
            marker, replacement = self._match(text, begin)
            decided.append(replacement)
            position = begin + len(marker)
        return "".join((*decided, text[position:]))

    def _may_grow(self, text: str, begin: int) -> bool:
        """Whether the text from there on may become a marker, or a longer one."""
        if PARTIAL_CITATION.fullmatch(text, begin):
            return True
        if len(text) - begin >= self._max_length:
            return False
        rest = text[begin:]
        return any(marker != rest and marker.startswith(rest) for marker in self._markers)

    def _match(self, text: str, begin: int) -> tuple[str, str]:
        """Return the marker that begins there, else the bracket alone, and its replacement."""
        if text.startswith(self._markers, begin):
            marker = next(each for each in self._markers if text.startswith(each, begin))
            return marker, self._replacements[marker]
        citation = NUMBERED_CITATION.match(text, begin)
        if citation and 1 <= int(citation["number"]) <= self._number_of_sources:
            return citation[0], f"({citation['name']})"
        return "[", "["


async def number_citations(events: Events) -> Events:
    """The same events, with sources cited by their number."""
    citations = CitationRewriter(())
    async with aclosing(events):
        try:
            async for event in events:
                match event:
                    case Context():
                        citations = CitationRewriter(event.sources)
                    case Delta(content):
                        event = replace(event, content=citations.feed(content))
                    case Done():
                        if rest := citations.end():
                            yield Delta(rest)
                yield event
        except Exception:  # what came before it is not lost
            if rest := citations.end():
                yield Delta(rest)
            raise
