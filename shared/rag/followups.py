"""A transform of the stream: takes `<<questions>>` out of the text, wherever tokens cut them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

from shared.domain.events import Delta, Done, Event, Events

MAX_QUESTION_LENGTH = 300  # characters between the marks of a question; longer ones are text
MAX_BLANK_LENGTH = 200  # characters of blank space that are held back; longer ones are text

_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_CONTENT = rf"(?!<)(?:(?!<<|>>)[^\n]){{0,{MAX_QUESTION_LENGTH}}}"
_BLANKS = rf"[ \t]{{0,{MAX_BLANK_LENGTH}}}"
_MARKER = re.compile(rf"<<({_CONTENT})>>")
_PARTIAL_MARKER = re.compile(rf"(?:<(?:<{_CONTENT}>?)?)?")
# A model may list its questions: the bullet or number of an item goes with its question.
_ITEM = re.compile(rf"(?:(?:[-*\u2022]|\d{{1,2}}[.)]){_BLANKS})?")
_PARTIAL_ITEM = re.compile(r"\d{1,2}")
_LINE_END = re.compile(rf"{_BLANKS}(?:\n|<<|\Z)")
_PARTIAL_LINE_END = re.compile(rf"{_BLANKS}<?")
_SPACE = re.compile(rf"\s{{0,{MAX_BLANK_LENGTH + 1}}}")
_TEXT = re.compile(r"<<|<|[^\s<]*")


class FollowupParser:
    """Cuts a text that comes in pieces into the text to show and the questions in it.

    The result is the same wherever the text is cut. What is held back is short, so the time grows
    with the text alone.
    """

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.pending = ""  # blank space, and what may become a question: not shown yet
        self._alone = True  # no text was shown in this line, or since the last question

    def feed(self, text: str) -> str:
        """Take a piece; return the text that is decided by now."""
        return self._parse(self.pending + text, ended=False)

    def end(self, cut: bool) -> str:
        """Return the rest of the text at its end; if it was cut, without half a marker."""
        if cut and "<<" in self.pending:
            marker = _MARKER.search(self.pending)
            self.questions += [_question(marker)] if marker else []
            return ""
        rest = self._parse(self.pending, ended=True)
        return rest.rstrip() if self.questions else rest

    def _parse(self, text: str, ended: bool) -> str:
        shown, position, self.pending = [], 0, ""
        while position < len(text):
            start = _end(_SPACE, text, position)
            alone = self._alone or "\n" in text[position:start]
            marker = _MARKER.match(text, _end(_ITEM, text, start) if alone else start)
            if start - position > MAX_BLANK_LENGTH:
                end = start  # too much blank space: text
            elif not ended and _is_undecided(text, start, alone):
                self.pending = text[position:]
                break
            elif marker and _is_question(marker, alone):
                self.questions.append(_question(marker))
                self._alone, position = True, marker.end()
                continue
            else:
                end = _end(_TEXT, text, start)
            shown.append(text[position:end])
            self._alone, position = alone and end == start, end
        return "".join(shown)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Return the end of a pattern's match from `start` on; `start` without one."""
    match = pattern.match(text, start)
    return match.end() if match else start


def _is_undecided(text: str, start: int, alone: bool) -> bool:
    """Whether the text from `start` to its end may become a question."""
    if alone and _PARTIAL_ITEM.fullmatch(text, start):
        return True
    marker_start = _end(_ITEM, text, start) if alone else start
    if _PARTIAL_MARKER.fullmatch(text, marker_start):
        return True
    marker = _MARKER.match(text, marker_start)
    if marker is None or not alone or _question(marker).endswith(_QUESTION_MARKS):
        return False
    return bool(_question(marker)) and bool(_PARTIAL_LINE_END.fullmatch(text, marker.end()))


def _question(marker: re.Match[str]) -> str:
    return marker[1].strip(" \t")


def _is_question(marker: re.Match[str], alone: bool) -> bool:
    """Whether a marker is a question, or text: code, or a placeholder.

    `1 <<n and m>> 2`, `<<name>>`: without a question mark it must stand alone.
    """
    question = _question(marker)
    if question.endswith(_QUESTION_MARKS):
        return True
    return bool(question) and alone and _LINE_END.match(marker.string, marker.end()) is not None


async def extract_followups(events: Events) -> Events:
    """Yield the same events; the questions move from the text into the last one."""
    parser = FollowupParser()
    async with aclosing(events):
        try:
            async for event in events:
                for each in _move_questions(parser, event):
                    yield each
        except Exception:  # what came before it is not lost
            if parser.pending:
                yield Delta(parser.pending)
            raise


def _move_questions(parser: FollowupParser, event: Event) -> Iterator[Event]:
    if isinstance(event, Delta):
        text = parser.feed(event.content)
        if text or event.tool_calls or not event.more:
            yield replace(event, content=text)
        return
    if isinstance(event, Done):
        if rest := parser.end(cut=event.finish_reason == "length"):
            yield Delta(rest)
        event = replace(event, followups=tuple(parser.questions))
    yield event
