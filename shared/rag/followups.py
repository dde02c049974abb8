"""A filter over the stream: takes `<<questions>>` out of the text, wherever tokens cut them."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import replace

from shared.chat.events import Delta, Done, Events

MAX_QUESTION_LENGTH = 300  # characters between the marks of a question; longer ones are text
MAX_BLANK_LENGTH = 200  # characters of blank space that are held back; longer ones are text
BULLETS = "-*\u2022"  # a model may list its questions: the mark of an item goes with its question

_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_PLAIN = re.compile(r"[^\s<]+")


class FollowupParser:
    """Cuts a text that comes in pieces into what to show and the questions in it.

    Reads one character after the other and never again: the time grows with the text alone, and
    the result is the same wherever the text is cut. What is held back is short.
    """

    def __init__(self) -> None:
        self.questions: list[str] = []
        self._space = ""  # blank space that is held back, and the mark of an item in it
        self._item = ""  # that mark alone
        self._marker = ""  # what may become a marker, or a whole one
        self._behind = ""  # what follows a whole marker: blank space, then perhaps a "<"
        self._alone = True  # no text was shown in this line, or since the last question

    def feed(self, text: str) -> str:
        """Take a piece; return the text that is decided by now."""
        shown, at = [], 0
        while at < len(text):
            plain = None if self._alone or self._space or self._marker else _PLAIN.match(text, at)
            shown.append(plain[0] if plain else self._read(text[at]))
            at = plain.end() if plain else at + 1
        return "".join(shown)

    def end(self, cut: bool) -> str:
        """Return the rest of the text at its end; if it was cut, without half a marker."""
        if self._is_whole() and (cut or not self._behind.endswith("<")):
            self._accept()
        if cut and self._marker:
            return ""
        rest = self._space + self._marker + self._behind
        return rest.rstrip() if self.questions else rest

    def _read(self, character: str) -> str:
        """Take a character; return the text that is decided by now."""
        if self._is_whole():
            return self._read_behind(character)
        if self._marker:
            return self._read_marker(character)
        return self._read_item(character) if self._item else self._read_text(character)

    def _read_text(self, character: str) -> str:
        if character == "<":
            self._marker = character
            return ""
        if self._alone and (character in BULLETS or character.isdecimal()):
            self._item = character
        elif not character.isspace():
            shown, self._space, self._alone = self._space + character, "", False
            return shown
        self._alone |= character == "\n"
        return self._hold(character)

    def _read_item(self, character: str) -> str:
        """Take a character after a bullet or a digit: an item's number has two digits at most."""
        number = self._item.isdecimal()
        if number and (character in ".)" or (character.isdecimal() and len(self._item) == 1)):
            self._item += character
        elif character == "<" and not number:
            self._marker = character
            return ""
        elif number or character not in " \t":
            return self._show() + self._read(character)
        return self._hold(character)

    def _hold(self, character: str) -> str:
        self._space += character
        if len(self._space) <= MAX_BLANK_LENGTH:
            return ""
        if self._item:
            return self._show()
        shown, self._space = self._space, ""
        return shown

    def _read_marker(self, character: str) -> str:
        """Take a character after a "<" or in a marker, which has neither a line end nor "<<"."""
        begins = self._marker == "<"
        doubled = character == "<" and self._marker.endswith("<")
        if begins != doubled or character == "\n":
            return self._show() + self._read(character)
        self._marker += character
        if len(self._marker) == MAX_QUESTION_LENGTH + 4 and not self._is_whole():
            return self._show()
        return self._decide() if self._is_whole() else ""

    def _decide(self) -> str:
        """Decide whether a whole marker is a question, or text: code, or a placeholder.

        `1 <<n and m>> 2`, `<<name>>`: without a question mark it must stand alone.
        """
        question = self._question()
        if is_question(question):
            self._accept()
        return "" if not self._marker or (question and self._alone) else self._show()

    def _read_behind(self, character: str) -> str:
        """Take a character after a marker: a question only if a line end or a marker follows."""
        begun = self._behind.endswith("<")
        if character == ("<" if begun else "\n"):
            self._accept()
            return self._read(character)
        if begun or character not in " \t<" or len(self._behind) == MAX_BLANK_LENGTH:
            return self._show() + self._read(character)
        self._behind += character
        return ""

    def _is_whole(self) -> bool:
        return self._marker.endswith(">>")

    def _question(self) -> str:
        return self._marker[2:-2].strip(" \t")

    def _accept(self) -> None:
        """Take the marker out of the text, with the blank space before it."""
        self.questions.append(self._question())
        self._keep(self._behind, alone=True)

    def _show(self) -> str:
        """Return the pending text, but for its end that may stand before another marker."""
        fixed = self._space + self._marker[:2] if self._marker else ""
        rest = self._marker[2:] + self._behind if self._marker else self._space
        text = rest.removesuffix("<").rstrip()
        self._keep(rest[len(text) :], alone=False)
        return fixed + text

    def _keep(self, rest: str, alone: bool) -> None:
        """Hold back nothing but blank space and perhaps a "<"."""
        self._space = rest.removesuffix("<")
        self._marker = "<" if rest.endswith("<") else ""
        self._item, self._behind, self._alone = "", "", alone


def is_question(text: str) -> bool:
    """Whether a text ends with a question mark."""
    return text.endswith(_QUESTION_MARKS)


async def extract_followups(events: Events) -> Events:
    """Yield the same events; the questions move from the text into the last one."""
    parser = FollowupParser()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delta):
                if (text := parser.feed(event.content)) or event.tool_calls:
                    yield replace(event, content=text)
                continue
            if isinstance(event, Done):
                if rest := parser.end(cut=event.finish_reason == "length"):
                    yield Delta(rest)
                event = replace(event, followups=tuple(parser.questions))
            yield event
