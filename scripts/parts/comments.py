"""Removes from comments, and from descriptions in Bicep, what mentions a removed part."""

from __future__ import annotations

import re
import textwrap

from scripts.parts.prose import Mentions, remove_mentions

WIDTHS = {"#": 100, "//": 130}


def remove_from_comments(text: str, marker: str, mentions: Mentions) -> str:
    """A text whose comments begin with a marker, without the sentences that mention."""
    if not mentions(text):
        return text
    text = re.sub(
        rf"(?m)(?:^[ \t]*{marker}(?![!{marker[0]}]).*\n)+",
        lambda match: _without_sentences(match[0], marker, mentions),
        text,
    )
    text = re.sub(
        rf"(?m)(?<=\S)[ \t]+{marker} (.*)$",
        lambda match: _without_trailing(match[0], marker, match[1], mentions),
        text,
    )
    return re.sub(
        r"@description\('((?:[^'\\]|\\.)*)'\)",
        lambda match: f"@description('{remove_mentions(match[1], mentions) or 'Unused.'}')",
        text,
    )


def _without_sentences(block: str, marker: str, mentions: Mentions) -> str:
    if not mentions(block):
        return block
    indent = block[: block.index(marker)]
    lines = [line.strip().removeprefix(marker).strip() for line in block.splitlines()]
    rest = remove_mentions(" ".join(lines), mentions)
    width = WIDTHS[marker] - len(indent) - len(marker) - 1
    return "".join(f"{indent}{marker} {line}\n" for line in textwrap.wrap(rest, width))


def _without_trailing(whole: str, marker: str, comment: str, mentions: Mentions) -> str:
    rest = remove_mentions(comment, mentions)
    return whole if rest == comment else f" {marker} {rest}" if rest else ""
