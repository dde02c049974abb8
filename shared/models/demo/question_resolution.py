"""What is asked by a question that leans on the turns before it: "And in Health Plus?"

English only, by the form of the sentence: in any other language every question stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared.text.terms import content_terms, extract_terms, key_terms

_LEAD = re.compile(
    r"\A\s*(?:(?:and|or|but|also|then|so|ok|okay|what about|how about|what if)\b[\s,]*)+", re.I
)
_BACK = frozenset("it its they them their theirs these those ones this he him she her".split())
# "that" points back in "Is that covered?", and not in "a plan that is cheap".
_THAT = re.compile(r"^(?:is|was|does|did|can|could|will|would|has)\s+that\b|\bthat\W*$", re.I)
_ASKING = frozenset(
    """
    am are can could did do does had has have how is may might must shall should was were what when
    where which who whom whose why will would
    """.split()
)
_PREPOSITIONS = (
    "about after at before between by during for from in of on to under until with without"
)
_JOINT = rf"(?:{_PREPOSITIONS.replace(' ', '|')}|and|or|when|while|if|than)"
_PHRASE = re.compile(
    rf"\b(?P<joint>{_PREPOSITIONS.replace(' ', '|')})\s+(?P<object>.+?)(?=\s+{_JOINT}\s|\W*$)", re.I
)
# Not CT or HR: those are words like any other.
_NAME = re.compile(r"[A-Z][\w&-]*[a-z][\w&-]*(?:\s+[A-Z][\w&-]*[a-z][\w&-]*)*")
_OF_A_THING = ("about", "for", "of")  # "in my plan" says where, not what
_MARKS = " \t\n?!.,;:"
LONGEST = 1000  # characters of a question that are looked at, and of those before it together
_MOST_BARE_WORDS = 3  # of a question without any verb: "hearing aids?"


@dataclass(frozen=True, slots=True)
class ResolvedQuestion:
    """A question that stands alone, and which of its terms were said in its own turn."""

    text: str
    own: frozenset[str]


def asked(questions: Iterable[str]) -> ResolvedQuestion:
    """What the last of a user's questions asks, in the light of the ones before it."""
    text, last = "", ""
    for question in questions:
        # The patterns take the square of a text's length, and hold the whole worker meanwhile.
        last = " ".join(question[:LONGEST].split())
        text = joined(text[:LONGEST], last) if text and leans(last) else last.strip()
    return ResolvedQuestion(text, frozenset(extract_terms(last)))


def leans(question: str) -> bool:
    """Whether a question leaves something to the turn before it."""
    words = extract_terms(question)
    content = content_terms(question)
    bare = question.rstrip().endswith("?") and not _ASKING.intersection(words)
    return (
        bool(_LEAD.match(question) or _THAT.search(question))
        or not _BACK.isdisjoint(words)
        or not content
        or (bare and len(content) <= _MOST_BARE_WORDS)
    )


def joined(before: str, question: str) -> str:
    """One question out of one that stands alone and one that leans on it."""
    before, core = before.rstrip(_MARKS), _LEAD.sub("", question, count=1).strip(_MARKS)
    words = extract_terms(core)
    if not _BACK.isdisjoint(words) or _ASKING.intersection(words) - {"how"} or not core:
        return _beside(before, core)
    new, old = _names(core), _names(before)
    if new and old and not content_terms(_replaced(core, new[-1], " ")):
        return f"{_replaced(before, old[-1], new[-1])}?"
    return _with_phrase(before, core) or _with_object(before, core) or _beside(before, core)


def _beside(before: str, core: str) -> str:
    """The question as it is, and the key words of the one before; a new name replaces the old."""
    if _names(core):
        for name in _names(before):
            before = _replaced(before, name, " ")
    said = extract_terms(core)
    keys = set(key_terms(before)).difference(said)
    kept = [word for word in before.split() if keys.intersection(extract_terms(word))]
    return " ".join((core, *(word.strip(_MARKS) for word in kept))).strip()


def _with_phrase(before: str, core: str) -> str | None:
    """`for fillings` and `for crowns`: the object of the same preposition is replaced."""
    new = _PHRASE.search(core)
    if not new:
        return None
    same = [old for old in _PHRASE.finditer(before) if old["joint"].lower() == new["joint"].lower()]
    phrase = core[new.start() :]
    if not same:
        return f"{before} {phrase}?"
    return f"{before[: same[-1].start()]}{phrase}{before[same[-1].end() :]}?"


def _with_object(before: str, core: str) -> str | None:
    """`for fillings` and `crowns`: the last object that is not a name is replaced."""
    things = (old for old in _PHRASE.finditer(before) if old["joint"].lower() in _OF_A_THING)
    objects = [old for old in things if not _names(old["object"])]
    if not objects or not content_terms(core):
        return None
    start, end = objects[-1].span("object")
    return f"{before[:start]}{core}{before[end:]}?"


def _replaced(text: str, old: str, new: str) -> str:
    return new.join(text.rsplit(old, 1))


def _names(text: str) -> list[str]:
    """Runs of words with a capital, but for function words such as the first of a question."""
    return [found[0] for found in _NAME.finditer(text) if content_terms(found[0])]
