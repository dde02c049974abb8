"""Extracts search terms from texts: one normalization for passages and questions.

SQLite's own tokenizer finds no Chinese word inside a sentence, and no Straße for strasse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from unicodedata import normalize

from shared.text import stopwords

TOKENIZER = "porter unicode61 remove_diacritics 2"
"""The FTS5 tokenizer of the tables of passages and of sentences."""

MAX_TERMS = 32  # of a query; more terms are slower and do not improve results
MAX_TERM_LENGTH = 64  # characters
MIN_PREFIX_LENGTH = 5  # shorter prefixes match too much: "car" would match "care"

# Thai, Lao, Burmese, Khmer, kana, Han and Hangul: scripts without spaces between all words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\U00020000-\U0003ffff"
)
_SPACED_WORDS = re.compile(r"[^\W_]+")
_WORDS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_ARABIC = re.compile(r"[\u0610-\u061a\u0620-\u065f\u0670-\u0672]")
# Optional marks and letter variants: vowel signs, kashida, forms of alef, yeh and teh marbuta.
_ARABIC_FORMS = {
    **dict.fromkeys(map(chr, [*range(0x610, 0x61B), 0x640, *range(0x64B, 0x660), 0x670]), ""),
    **dict.fromkeys("أإآٱ", "\u0627"),
    "ى": "ي",
    "ة": "\u0647",
}
# The article, with the conjunctions and prepositions that are attached to it.
_ARTICLE = re.compile(r"\b(?:[وفبك]?ال|لل)(?=\w{3})")
_GERMAN_SUFFIX = re.compile(r"(?<=\w{5})(?:e[nrs]?|n|s)$")
_ASCII_SEPARATORS = {code: " " for code in range(128) if not chr(code).isalnum()}
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")
_NEGATION = re.compile("n['\u2019]t\\b")

# Irregular forms that the stemmer does not reduce.
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
    """Extract the normalized words of `text` in order: strasse for Straße, not for n't.

    A run of a script without spaces gives its bigrams.
    """
    words = _split_ascii(text) if text.isascii() else _split_unicode(text)
    return list(map(_IRREGULAR_FORMS.get, words, words))


def _split_ascii(text: str) -> list[str]:
    """Split an ASCII text: the same result as `_split_unicode`, but faster."""
    return _NEGATION.sub(" not", text.casefold()).translate(_ASCII_SEPARATORS).split()


def _split_unicode(text: str) -> list[str]:
    # The second pass decomposes what casefold composed.
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    if _ARABIC.search(folded):
        folded = _ARTICLE.sub("", _normalize_arabic(folded))
    folded = _NEGATION.sub(" not", folded)
    if not _UNSPACED_RUN.search(folded):
        return _SPACED_WORDS.findall(folded)
    return [part for word in _WORDS.findall(folded) for part in _bigrams(word)]


def _normalize_arabic(arabic: str) -> str:
    """Replace letter variants. `str.translate` is forty times slower."""
    for character, form in _ARABIC_FORMS.items():
        arabic = arabic.replace(character, form)
    return arabic


def _bigrams(run: str) -> Iterable[str]:
    if len(run) == 1 or not _UNSPACED_RUN.match(run):
        return (run,)
    return (run[start : start + 2] for start in range(len(run) - 1))


def key_terms(question: str) -> list[str]:
    """Extract the distinct terms of a question, without stop words unless it has no others."""
    return content_terms(question) or list(dict.fromkeys(extract_terms(question)))


def content_terms(question: str) -> list[str]:
    """Extract the distinct terms of a question that are not stop words; may be empty."""
    all_terms = extract_terms(question)
    stop_words = stopwords.select_stopwords(all_terms)
    terms = (
        term
        for previous, term in zip(("", *all_terms), all_terms, strict=False)
        if term not in stop_words and not (previous == "how" and term in _MEASURE_WORDS)
    )
    if stop_words >= stopwords.GERMAN:  # the stemmer is English
        terms = (_GERMAN_SUFFIX.sub("", term) for term in terms)
    return list(dict.fromkeys(terms))


def fts_queries(question: str) -> list[str]:
    """Make an FTS5 query for each key term of a question."""
    return list(map(fts_query, islice(key_terms(question), MAX_TERMS)))


def join_fts_queries(queries: Iterable[str]) -> str:
    """Join FTS5 queries with OR; empty without any."""
    return " OR ".join(queries)


def fts_query(term: str) -> str:
    """Make the FTS5 query of a term: a prefix query for a longer word."""
    word = term[:MAX_TERM_LENGTH]
    prefix = len(term) > MAX_TERM_LENGTH or (len(term) >= MIN_PREFIX_LENGTH and term.isalpha())
    return f'"{word}"' + "*" * prefix
