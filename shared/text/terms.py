"""Which words of a text are looked for? One normalisation for passages and questions alike.

SQLite's own tokenizer finds no Chinese word inside a sentence and no Straße for strasse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from unicodedata import normalize

from shared.text import stopwords

TOKENIZER = "porter unicode61 remove_diacritics 2"
"""The FTS5 tokenizer that both tables of passages and of sentences are made with."""

MAX_TERMS = 32  # of a query; a longer one finds nothing better and takes longer
MAX_TERM_LENGTH = 64  # characters of a term of a query
MIN_PREFIX_LENGTH = 5  # a shorter word as a prefix finds too much: "car" would find "care"

# Thai, Lao, Burmese, Khmer, kana, Han and Hangul: written without spaces between all words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\U00020000-\U0003ffff"
)
_SPACED_WORDS = re.compile(r"[^\W_]+")
_WORDS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_ARABIC = re.compile(r"[\u0610-\u061a\u0620-\u065f\u0670-\u0672]")
# What Arabic is written with or without: vowel signs, the stretched line, forms of one letter.
_ARABIC_FORMS = {
    **dict.fromkeys(map(chr, [*range(0x610, 0x61B), 0x640, *range(0x64B, 0x660), 0x670]), ""),
    **dict.fromkeys("أإآٱ", "\u0627"),
    "ى": "ي",
    "ة": "\u0647",
}
# "The", and the small words that are written as one with it.
_ARTICLE = re.compile(r"\b(?:[وفبك]?ال|لل)(?=\w{3})")
_GERMAN_SUFFIX = re.compile(r"(?<=\w{5})(?:e[nrs]?|n|s)$")
_ASCII_SEPARATORS = {code: " " for code in range(128) if not chr(code).isalnum()}
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")
_NEGATION = re.compile("n['\u2019]t\\b")

# Forms that the stemmer does not bring together.
_IRREGULAR_FORMS = dict(
    pair.split(":")
    for pair in """
    ate:eat began:begin begun:begin bought:buy broke:break broken:break brought:bring
    built:build children:child chose:choose chosen:choose feet:foot fell:fall fallen:fall
    found:find gave:give given:give gone:go grew:grow grown:grow held:hold kept:keep
    knew:know known:know laid:lay left:leave lent:lend lost:lose made:make meant:mean men:man
    met:meet paid:pay people:person ran:run said:say sent:send sold:sell spent:spend stole:steal
    stolen:steal taken:take taught:teach thought:think told:tell took:take went:go women:woman
    won:win written:write wrote:write annually:annual monthly:month weekly:week yearly:year
    """.split()
)
_MEASURE_WORDS = frozenset("big far fast high large late long often old soon".split())  # "how big"


def extract_terms(text: str) -> list[str]:
    """The words of `text` in order, in one form: strasse for Straße, not for n't.

    A run of a script that is written without spaces gives each pair of its neighbours.
    """
    words = _split_ascii(text) if text.isascii() else _split_unicode(text)
    return list(map(_IRREGULAR_FORMS.get, words, words))


def _split_ascii(text: str) -> list[str]:
    """The words of a text in ASCII: the same as any other's, and fast."""
    return _NEGATION.sub(" not", text.casefold()).translate(_ASCII_SEPARATORS).split()


def _split_unicode(text: str) -> list[str]:
    # The second pass takes the forms apart that casefold made.
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    if _ARABIC.search(folded):
        folded = _ARTICLE.sub("", _normalize_arabic(folded))
    folded = _NEGATION.sub(" not", folded)
    if not _UNSPACED_RUN.search(folded):
        return _SPACED_WORDS.findall(folded)
    return [part for word in _WORDS.findall(folded) for part in _bigrams(word)]


def _normalize_arabic(arabic: str) -> str:
    """Each letter in one form. `str.translate` takes forty times as long."""
    for character, form in _ARABIC_FORMS.items():
        arabic = arabic.replace(character, form)
    return arabic


def _bigrams(run: str) -> Iterable[str]:
    if len(run) == 1 or not _UNSPACED_RUN.match(run):
        return (run,)
    return (run[start : start + 2] for start in range(len(run) - 1))


def key_terms(question: str) -> list[str]:
    """The terms of a question once each, without function words unless nothing else is left."""
    return content_terms(question) or list(dict.fromkeys(extract_terms(question)))


def content_terms(question: str) -> list[str]:
    """The terms of a question, once each, that say what it is about; there may be none."""
    found = extract_terms(question)
    without = stopwords.select_stopwords(found)
    kept = (
        term
        for before, term in zip(("", *found), found, strict=False)
        if term not in without and not (before == "how" and term in _MEASURE_WORDS)
    )
    if without >= stopwords.GERMAN:  # which the stemmer does not know
        kept = (_GERMAN_SUFFIX.sub("", term) for term in kept)
    return list(dict.fromkeys(kept))


def fts_queries(question: str) -> list[str]:
    """The FTS5 queries for each of the terms that are looked for, of any text at all."""
    return list(map(fts_query, islice(key_terms(question), MAX_TERMS)))


def join_fts_queries(queries: Iterable[str]) -> str:
    """The FTS5 query for what any of some queries finds; empty where there are none."""
    return " OR ".join(queries)


def fts_query(term: str) -> str:
    """Make the FTS5 query of a term: a prefix query for a longer word."""
    word = term[:MAX_TERM_LENGTH]
    prefix = len(term) > MAX_TERM_LENGTH or (len(term) >= MIN_PREFIX_LENGTH and term.isalpha())
    return f'"{word}"' + "*" * prefix
