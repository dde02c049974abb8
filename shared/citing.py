"""A filter over the stream: `[sourcepage]` becomes `[docN]`, wherever tokens cut the marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from shared.chat import Context, Delta, Done, Events, Source
from shared.errors import ChatError


def numbered(sources: Sequence[Source]) -> dict[str, int]:
    """The place of each sourcepage among what may be cited, from 1: the first passage of it."""
    pages: dict[str, int] = {}
    for place, source in enumerate(sources, 1):
        if source.sourcepage:
            pages.setdefault(source.sourcepage, place)
    return pages


class Markers:
    """Rewrites the markers of a text that comes in pieces.

    What is not a marker of a source that was found stays as it is: `[doc1]`, `[x]`, `a[0]`.
    """

    def __init__(self, pages: Mapping[str, int]) -> None:
        # The longest first: one may begin as another does.
        longest = sorted(pages.items(), key=lambda page: -len(page[0]))
        self._markers = {f"[{page}]": f"[doc{place}]" for page, place in longest}
        self._kept = ""

    def feed(self, text: str) -> str:
        """Take a piece; give back what can be shown by now."""
        return self._shown(self._kept + text, ended=False)

    def end(self) -> str:
        """What is left when the text ends."""
        return self._shown(self._kept, ended=True)

    def _shown(self, text: str, ended: bool) -> str:
        shown, at, self._kept = [], 0, ""
        while (begin := text.find("[", at)) >= 0:
            shown.append(text[at:begin])
            if not ended and self._undecided(text, begin):
                self._kept = text[begin:]
                return "".join(shown)
            marker = next((it for it in self._markers if text.startswith(it, begin)), "[")
            shown.append(self._markers.get(marker, "["))
            at = begin + len(marker)
        return "".join((*shown, text[at:]))

    def _undecided(self, text: str, begin: int) -> bool:
        """Whether what begins there may still become a marker, or a longer one."""
        rest = len(text) - begin
        longer = (marker for marker in self._markers if rest < len(marker))
        return any(marker.startswith(text[begin:]) for marker in longer)


async def by_number(events: Events) -> Events:
    """The same events, with sources cited by their place."""
    markers = Markers({})
    async with aclosing(events):
        try:
            async for event in events:
                match event:
                    case Context():
                        markers = Markers(numbered(event.sources))
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
