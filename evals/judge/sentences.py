"""The sentences of an answer, which are judged one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evals.citations import find_citations
from evals.records import Reply
from shared.text import split_sentences

# What begins a list item, a heading or a quotation in Markdown.
MARKER = re.compile(r"\s*(?:(?:[-*+\u2022>]|\d{1,3}[.)]|#{1,6})\s+)*")


def sentences(reply: Reply) -> tuple[str, ...]:
    """Return the sentences, list items and table rows of an answer, without its citations."""
    text = reply.content
    for name in find_citations(reply):
        text = re.sub(rf"\s*{re.escape(f'[{name}]')}", "", text)
    return tuple(sentence for line in text.splitlines() for sentence in _split(line))


def _split(line: str) -> Iterator[str]:
    text = MARKER.sub("", line, count=1)  # it matches at the start, if only nothing
    parts = [text.strip()] if text.startswith("|") else split_sentences(text)
    return (part for part in parts if any(map(str.isalnum, part)))
