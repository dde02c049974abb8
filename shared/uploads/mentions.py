"""Finds the uploads whose file names a question contains."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from shared.retrieval.base import shorten_query
from shared.uploads.base import Upload

# Scripts without spaces between words: Thai and Lao, Japanese, Chinese; Korean adds endings.
_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LETTER = rf"[^\W{_UNSPACED}]"
# What stands before and after a name. With it, the name would be a part of another one.
_BEFORE = rf"(?<!{_LETTER})(?<!\w[-.])(?<![/\\])"
_AFTER = rf"(?!\.?{_LETTER})"
_EXTENSION = re.compile(r"\.\w")


def may_mention(question: str) -> bool:
    """Whether a question may contain a file name: False only if it contains none."""
    return _EXTENSION.search(shorten_query(question)) is not None


def find_mentioned(question: str, uploads: Iterable[Upload]) -> tuple[str, ...]:
    """Return the encoded paths of those ready uploads whose names a question contains.

    They are in the order of the question; of uploads with one name it is the last. Upper and lower
    case are the same. Of a long question the beginning and the end count, as in a search.
    """
    paths = {_fold(each.name): each.sourcefile for each in uploads if each.state == "ready"}
    if not paths:
        return ()
    names = map(re.escape, sorted(paths, key=len, reverse=True))  # a longer one goes first
    matches = re.finditer(f"{_BEFORE}(?:{'|'.join(names)}){_AFTER}", _fold(shorten_query(question)))
    return tuple(dict.fromkeys(paths[match[0]] for match in matches))


def _fold(text: str) -> str:
    """Return a text without differences of white space, of case, and of how accents are stored."""
    return unicodedata.normalize("NFC", re.sub(r"\s", " ", text)).casefold()
