"""Merges passages that follow each other in their document, for the prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from shared.domain.events import Source

MIN_OVERLAP = 3  # words; fewer may be equal by chance

# An id ends with the number of its passage in the page: `...-p0-3` of ours, `..._pages_3` of the
# search service's own indexer.
_NUMBERED_ID = re.compile(r"(.*[-_])(\d{1,9})", re.DOTALL)


def merge_neighbours(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Merge passages that follow each other, carry the same citation and repeat some text.

    That are the passages of one section, which repeat its headings, and those that overlap: what
    both contain stands there once. `sources` are in the order of their rank; a merged passage has
    the rank of its best one. A passage with an image is not merged.
    """
    runs: list[list[Source]] = []
    for source in sorted(sources, key=_position):
        if runs and _is_continued(runs[-1][-1], source):
            runs[-1].append(source)
        else:
            runs.append([source])
    ranks = {source.id: rank for rank, source in enumerate(sources)}
    runs.sort(key=lambda run: min(ranks[source.id] for source in run))
    return tuple(map(_merge, runs))


def _position(source: Source) -> tuple[str, str, int]:
    match = _NUMBERED_ID.fullmatch(source.id)
    prefix, number = (match[1], int(match[2])) if match else (source.id, 0)
    return source.sourcepage, prefix, number


def _is_continued(source: Source, following: Source) -> bool:
    page, prefix, number = _position(source)
    if not page or _position(following) != (page, prefix, number + 1):
        return False
    if source.image or following.image:
        return False
    return _without_repetition(source.content, following.content) != following.content


def _merge(run: Sequence[Source]) -> Source:
    first, *rest = run
    texts = [first.content]
    for source, following in zip(run, rest, strict=False):
        texts.append(_without_repetition(source.content, following.content))
    return replace(first, content="\n".join(texts))


def _without_repetition(text: str, following: str) -> str:
    """Return what follows a text, without the headings and the overlap that it repeats."""
    headings, separator, body = following.partition("\n\n")
    if separator and text.startswith(headings + separator):
        following = body
    before, after = text.split(), following.split()
    for length in range(min(len(before), len(after)), MIN_OVERLAP - 1, -1):
        if before[-length:] == after[:length]:
            return " ".join(after[length:])
    return following
