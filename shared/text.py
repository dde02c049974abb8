"""Words and sentences of a text: tokens for budgets, terms for a search, stop words.

Imports nothing of the app.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from math import ceil
from unicodedata import normalize

# Runs that tokenizers rarely join into one token: three digits, words split at capitals, runs of
# another script, punctuation, line breaks, runs of spaces.
_RUNS = re.compile(r"\d{1,3}|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+|[^\w\s]|_|\n|\s{2,}")

SHORT_LENGTH = 4096  # characters
SLICE_LENGTH = 64 * 1024  # characters; a run across a boundary counts twice


def count_tokens(text: str) -> int:
    """Estimate the tokens of `text`; overestimates rather than underestimates.

    The factors 3 (bytes per token) and 1.35 (reserve) were fitted to o200k, the tokenizer of
    GPT-4o: no underestimate for English, German, Arabic, Chinese, Hindi, code, tables, JSON, ids,
    emoji and long base64. Plain English is overestimated about twofold; random letters, as in a
    key, can be underestimated by up to a third.
    """
    return _count_short(text) if len(text) <= SHORT_LENGTH else _count(text)


def _count(text: str) -> int:
    # In slices: the pattern holds the GIL, and megabytes at once would block other requests.
    slices = (text[start : start + SLICE_LENGTH] for start in range(0, len(text), SLICE_LENGTH))
    runs = sum(_RUNS.subn("", part)[1] for part in slices)  # the fastest way to count matches
    # Lone surrogates cannot be encoded strictly; they count as three bytes.
    size = len(text.encode("utf-8", "surrogatepass"))
    return ceil(1.35 * max(size / 3, runs))


# The instructions are counted for each request. A short text is kept: the memory is limited.
_count_short = lru_cache(maxsize=64)(_count)


TOKENIZER = "porter unicode61 remove_diacritics 2"
"""The FTS5 tokenizer of the tables of passages and of sentences."""

MAX_TERMS = 32  # of a query; more terms are slower and do not improve results
MAX_TERM_LENGTH = 64  # characters
MIN_PREFIX_LENGTH = 4  # shorter prefixes match too much: "car" would match "care"

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
# The suffixes of Larkey's light stemmer, as `extract_terms` normalizes them.
_ARABIC_SUFFIX = re.compile(
    "(?<=\\w{4})(?:\u0647\u0627|\u0627[\u0646\u062a]|[\u0648\u064a]\u0646|\u064a?\u0647|\u064a)$"
)
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
    stop_words = select_stopwords(all_terms)
    terms = (
        term
        for previous, term in zip(("", *all_terms), all_terms, strict=False)
        if term not in stop_words and not (previous == "how" and term in _MEASURE_WORDS)
    )
    if stop_words >= GERMAN:  # the stemmer is English
        terms = (_GERMAN_SUFFIX.sub("", term) for term in terms)
    return list(dict.fromkeys(_ARABIC_SUFFIX.sub("", term) for term in terms))


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


def shorten_fts_query(query: str) -> Iterator[str]:
    """Yield prefix queries of ever shorter beginnings of a prefix query's word, to its half.

    They have more letters than other prefix queries, because a beginning is no word.
    """
    word = query[1:-2] if query.endswith("*") else ""
    for length in range(len(word) - 1, max(MIN_PREFIX_LENGTH, (len(word) - 1) // 2), -1):
        yield fts_query(word[:length])


ENGLISH = frozenset(
    """
    a about above after all also am an and another any anybody anyone anything are as at be
    because been before being below between both but by ca can could did do does doing during
    each either else even ever every few for from further get gets getting had has have having
    he her here hers him his how i if in into is it its just let ll m many may me might mine
    more most much must my myself near neither nor of off on once one ones only onto or other
    our ours out over own per please re s same shall she should since so some somebody someone
    something still such than that the their theirs them then there these they this those
    through to too under until up upon us ve very was we were what when where whether which
    while who whom whose why will with within without wo would you your yours
    """.split()
)
"""Without "not", which changes the meaning."""

GERMAN = frozenset(
    """
    aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis
    bist da dabei dafür damit dann das dass dazu dem den denn der des dessen die dies diese diesem
    diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es etwas für gegen
    gibt hab habe haben hat hatte hier hoch ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins
    ist ja jede jedem jeden jeder jedes kann kannst können man mein meine meinem meinen meiner mich
    mir mit muss müssen nach noch nun nur ob oder ohne sein seine seinem seinen seiner sich sie sind
    so soll sollen sollte sonst um und uns unser unsere unter viel viele vom von vor wann war warum
    was weil welche welchem welchen welcher welches wem wen wenn wer werde werden weshalb wie wieso
    will wir wird wo wurde wurden während zu zum zur zwischen über
    """.replace("ß", "ss").split()
)

_FRENCH = frozenset(
    """
    a ai ainsi as au aucun aux avec avoir c ce cela ces cet cette ceux chaque chez ci combien comme
    comment d dans de depuis des donc dont du elle elles en entre est et eu faire fait faut il ils
    j je l la laquelle le lequel les leur leurs lors lui m ma mais me mes moi mon même n ne ni nos
    notre nous on ont ou où par pas pendant peut peux plus pour pourquoi puis qu quand que quel
    quelle quelles quels qui quoi s sa sans se selon sera ses si soit son sont sous suis sur t ta te
    tes toi ton tous tout toute toutes tu un une vers vos votre vous y à été être
    """.split()
)

_SPANISH = frozenset(
    """
    a al algo como con cual cuales cuando cuanta cuanto cuál cuáles cuándo cuánta cuánto cómo de
    del desde donde durante dónde e el ella ellas ellos en entre era es esa ese eso esta estas este
    esto estos está están fue ha han hasta hay la las le les lo los me mi mis muy más ni no nos o
    para pero por porque puede puedo que quien quién qué se sea ser si sin sobre son su sus sí
    también te tiene tengo todo todos tu tus un una unas uno unos y ya yo él
    """.split()
)

# As `extract_terms` normalizes them: alef without hamza, words without the article.
_ARABIC_WORDS = frozenset(
    """
    الي ان او اي اين اذا التي الذي ذين اللي انا انت ايضا بعد بل بين تكون تلك ثم حتي حيث ذلك عل علي
    عن عند عندما غير فان في قبل قد كان كانت كل كم كما كيف لا لكن لم لما لماذا لن له لها لي ليس ما
    ماذا متي مع من منذ نحن هذا هذه هل هم هنا هناك هو هي و وقد يكون يمكن
    """.split()
)

_OTHERS = (GERMAN, _FRENCH, _SPANISH, _ARABIC_WORDS)


def select_stopwords(terms: Sequence[str]) -> frozenset[str]:
    """Return the English stop words, and those of another language that has more of the terms.

    Not those of all languages: "die" and "war" are German stop words and English content words.
    """
    question = set(terms)
    best = max(_OTHERS, key=lambda words: len(question & words))
    return ENGLISH | best if len(question & best) > len(question & ENGLISH) else ENGLISH


# Between two sentences; not behind a shortened word or the number of a list item.
SENTENCE_END = re.compile(
    r"(?:(?<=[.!?\u061f\u0964])|(?<=[.!?][\"')\]\u201d]))\s+"
    r"(?<!\b[A-Z]\.\s)(?<!\b(?:Dr|Mr|Ms|No|Nr|St|vs|cf)\.\s)(?<!\b(?:Mrs|Inc|e\.g|i\.e)\.\s)"
    r"(?<![.:;!?]\s\d\.\s)(?![a-z\u00df-\u00ff\u03ac-\u03ce\u0430-\u045f])"
    r"|(?<=[\u3002\uff01\uff1f])"
)
_ITEM = re.compile(r"(?:^|\s)[-*\u2022]\s+(?![a-z])")
_MIN_ITEMS = 3  # fewer dashes may stand in sentences: "Monday - Friday"


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences and the list items of a text without line breaks."""
    items = _ITEM.split(text)
    for item in items if len(items) > _MIN_ITEMS else [text]:
        yield from filter(None, map(str.strip, SENTENCE_END.split(item)))
