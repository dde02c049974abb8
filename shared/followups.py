"""A filter over the stream: takes `<<questions>>` out of the text, wherever tokens cut them."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import replace

from shared.chat import Delta, Done, Events

LONGEST = 300  # characters of a question; what is longer is text

_INSIDE = r"(?!<)(?:(?!<<|>>)[^\n])"
MARKER = re.compile(rf"<<[ \t]*({_INSIDE}+?)[ \t]*>>")
# What may still become one.
BEGUN = re.compile(rf"<(?:<(?:{_INSIDE}*>?)?)?")
# A model may list its questions: the mark of an item goes with its question.
_ITEM = r"\n[ \t]*(?:[-*\u2022]|\d{1,2}[.)])[ \t]*"
# Blank space, and what may be a marker behind it: kept back until it is known.
HELD = re.compile(
    rf"\s*(?:{_ITEM})?(?:<<|<\Z)|\s+\Z|\s*\n[ \t]*(?:[-*\u2022]|\d{{1,2}}[.)]?)[ \t]*\Z"
)
ALONE_AFTER = re.compile(r"[ \t]*(?:\n|<<)")
_ASKS = ("?", "\uff1f", "\u061f")


class Splitter:
    """Cuts a text that comes in pieces into what to show and the questions in it."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self._kept = "\n"  # every text begins a line; this one is taken off again
        self._first = True
        self._fresh = True  # nothing was shown since the last marker

    def feed(self, text: str) -> str:
        """Take a piece; give back what can be shown by now."""
        self._kept += text
        return self._show(ended=False)

    def end(self, cut: bool) -> str:
        """What is left to be shown when the text ends; of a text that was cut, no half marker."""
        shown = self._show(ended=False)
        if cut and "<" in self._kept and not MARKER.search(self._kept):
            return shown
        shown += self._show(ended=True)
        rest = self._take(len(self._kept))
        return shown + (rest.rstrip() if self.questions else rest)

    def _show(self, ended: bool) -> str:
        shown = ""
        while held := HELD.search(self._kept):
            marks = held.end() - len(held.group()) + held.group().find("<")
            if "<" not in held.group() or self._undecided(marks, ended):
                return shown + self._take(held.start())
            marker = MARKER.match(self._kept, marks)
            if marker and self._is_question(marker, held):
                shown += self._take(held.start())
                self._drop(marker)
            else:
                shown += self._take(marks + 2)
        return shown + self._take(len(self._kept))

    def _undecided(self, marks: int, ended: bool) -> bool:
        """Whether more text may still decide what begins at `marks`."""
        text = self._kept[marks:]
        if ended:
            return not text.startswith("<<")
        marker = MARKER.match(text)
        if marker:
            return not asks(marker[1]) and not text[marker.end() :].strip(" \t")
        return len(text) <= LONGEST and BEGUN.fullmatch(text) is not None

    def _is_question(self, marker: re.Match[str], held: re.Match[str]) -> bool:
        """A marker, and not code or a place to be filled in: `1 <<n and m>> 2`, `<<name>>`."""
        if len(marker[1]) > LONGEST:
            return False
        begins = "\n" in held.group() or (self._fresh and not held.start())
        after = self._kept[marker.end() :]
        ends = not after.strip(" \t") or ALONE_AFTER.match(after) is not None
        return asks(marker[1]) or (begins and ends)

    def _take(self, number: int) -> str:
        text, self._kept = self._kept[:number], self._kept[number:]
        if text:
            self._fresh = False
        return self._out(text)

    def _drop(self, marker: re.Match[str]) -> None:
        self.questions.append(marker[1])
        self._kept = self._kept[self._kept.index(marker.group()) + len(marker.group()) :]
        self._first, self._fresh = False, True

    def _out(self, text: str) -> str:
        if self._first and text:
            self._first = False
            return text[1:]
        return text


def asks(text: str) -> bool:
    """Whether the words between two marks end as a question does."""
    return text.endswith(_ASKS)


async def taken_out(events: Events) -> Events:
    """The same events, the questions in their text handed over by the last one instead."""
    splitter = Splitter()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delta):
                if (text := splitter.feed(event.content)) or event.tool_calls:
                    yield replace(event, content=text)
                continue
            if isinstance(event, Done):
                if rest := splitter.end(cut=event.finish_reason == "length"):
                    yield Delta(rest)
                event = replace(event, followups=tuple(splitter.questions))
            yield event
