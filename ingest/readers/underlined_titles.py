"""Turns underlined titles into headings such as `## Dental`, at which a text is split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*$")
_MARKDOWN_RULE = re.compile(r"(=+|-+)[ \t]*$")
_MARKDOWN_BLOCK = re.compile(r"\s|[-+*>|#=~`]|\d+[.)]\s")  # the start of a list, a table or code
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_DEEPEST = 6


def rst_headings(text: str) -> str:
    """Convert the titles of reStructuredText; their levels follow from their order."""
    lines = text.splitlines()
    return "\n".join(_rst_lines(lines))


def _rst_lines(lines: Sequence[str]) -> Iterator[str]:
    styles: list[str] = []
    place = 0
    while place < len(lines):
        overline = _is_rule(lines, place) and _is_underlined(lines, place + 1)
        title = place + overline
        is_title = _is_underlined(lines, title) and (
            overline or (not lines[title][0].isspace() and _is_blank(lines, place - 1))
        )
        if is_title:
            style = ("over" if overline else "") + lines[title + 1][0]
            styles += [] if style in styles else [style]
            level = min(styles.index(style) + 1, _DEEPEST)
            yield f"{'#' * level} {lines[title].strip()}"
            place = title + 2
        else:
            # A comment in code is no heading: four spaces say so.
            yield f"    {lines[place]}" if _HEADING.match(lines[place]) else lines[place]
            place += 1


def _is_rule(lines: Sequence[str], place: int) -> bool:
    return place < len(lines) and _RULE.match(lines[place]) is not None


def _is_underlined(lines: Sequence[str], place: int) -> bool:
    """Whether a line is a text with a rule of at least its length below it."""
    if not _is_rule(lines, place + 1) or _is_rule(lines, place):
        return False
    title, rule = lines[place].strip(), lines[place + 1].rstrip()
    return bool(title) and len(rule) >= len(title)


def _is_blank(lines: Sequence[str], place: int) -> bool:
    return place < 0 or not lines[place].strip()


def markdown_headings(text: str) -> str:
    """Convert the titles of Markdown with `===` or `---` below them."""
    lines = text.split("\n")
    fenced = False
    for place, line in enumerate(lines):
        fenced ^= bool(_FENCE.match(line))
        rule = _MARKDOWN_RULE.match(line)
        if not fenced and rule and _is_markdown_title(lines, place - 1):
            mark = "#" if rule[1][0] == "=" else "##"
            lines[place - 1], lines[place] = f"{mark} {lines[place - 1].strip()}", ""
    return "\n".join(lines)


def _is_markdown_title(lines: Sequence[str], place: int) -> bool:
    is_text = place >= 0 and bool(lines[place].strip()) and not _MARKDOWN_BLOCK.match(lines[place])
    return is_text and _is_blank(lines, place - 1)
