"""A filter over the stream: takes `<<questions>>` out of the text, wherever tokens cut them."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import replace

from shared.chat import Delta, Done, Events

LONGEST = 300  # characters of a question; what is longer is text

# A question stands on one line and touches its marks, which `cout << x` and `a << 2 >> b` do not.
MARKER = re.compile(r"<<(?=\S)([^<>\n]+)(?<=\S)>>")
# What may still become one: nothing in it that a question cannot hold.
BEGUN = re.compile(r"<(?:<(?:(?=\S)[^<>\n]*>?)?)?")
# Blank space, and what may be a marker behind it: kept back until it is known.
HELD = re.compile(r"\s*(?:<<|<\Z)|\s+\Z")


class Splitter:
    """Cuts a text that comes in pieces into what to show and the questions in it."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self._kept = ""

    def feed(self, text: str) -> str:
        """Take a piece; give back what can be shown by now."""
        self._kept += text
        return self._shown()

    def end(self, cut: bool) -> str:
        """What is left to be shown when the text ends; of a text that was cut, no half marker."""
        rest, self._kept = self._kept, ""
        if cut and rest.lstrip().startswith("<"):
            return ""
        return rest.rstrip() if self.questions else rest

    def _shown(self) -> str:
        shown = ""
        while held := HELD.search(self._kept):
            marks = held.group().lstrip()
            start = held.end() - len(marks)
            marker = MARKER.match(self._kept, start)
            if marker and is_question(marker[1]):
                self.questions.append(marker[1])
                shown += self._kept[: held.start()]
                self._kept = self._kept[marker.end() :]
            elif not marks or undecided(self._kept[start:]):
                shown += self._kept[: held.start()]
                self._kept = self._kept[held.start() :]
                return shown
            else:
                shown += self._kept[: held.end()]
                self._kept = self._kept[held.end() :]
        shown, self._kept = shown + self._kept, ""
        return shown


def undecided(text: str) -> bool:
    """Whether a text that begins with a mark may still become a question's."""
    return len(text) <= LONGEST and BEGUN.fullmatch(text) is not None


def is_question(text: str) -> bool:
    """Whether the words between two marks are a question, and not code: `x <<2 + y>> z`."""
    if len(text) > LONGEST:
        return False
    return text.endswith(("?", "\uff1f", "\u061f")) or bool(re.match(r"[^\W\d_]+\s[^;{}=]+$", text))


async def taken_out(events: Events) -> Events:
    """The same events, the questions in their text handed over by the last one instead."""
    splitter = Splitter()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delta):
                if text := splitter.feed(event.content):
                    yield Delta(text)
                continue
            if isinstance(event, Done):
                if rest := splitter.end(cut=event.finish_reason == "length"):
                    yield Delta(rest)
                event = replace(event, followups=tuple(splitter.questions))
            yield event
