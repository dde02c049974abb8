"""Removes from a text what mentions a removed part: the smallest item, clause or sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

Span = tuple[int, int]
Mentions = Callable[[str], bool]  # whether a text mentions what is gone

# Their content does not end a sentence or an item.
OPAQUE = re.compile(r"`[^`]*`|!\[[^]]*\]|\]\([^)]*\)|\b(?:e\.g|i\.e|etc)\.")
LEAD_OR_LINK = re.compile(r"^\*\*.+?\*\*|\[[^]]*\]\([^)]*\)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=\S)")
# How a sentence begins that needs the one before.
NEEDS_OTHER = re.compile(r"(So|It|Its|Their|This|These|They|Then|There|Both|Otherwise|Such|Nor)\b")
PARENTHESES = re.compile(r"\s*\(([^()]*)\)")
SEPARATOR = re.compile(
    r"(?:,?\s+(?:and|or|nor)\s+|,\s+)(?!(?:which|who|whose|so|but|because|as|if|it|they|when|where"
    r"|with|without|for|then|than|by|in|on|to|at|from|through|only|not|even|also|including|such)\b)"
)
# Before the first item of a list.
LIST_START = re.compile(
    r"^|(?P<end>:\s+)|\s(?:of|by|for|in|as|with|are|is|to|from|speaks?|use|over|fake)\s+"
)
ITEM = re.compile(
    r"(?!(?:Without|With|In|On|For|From|If|When|After|Before|At|As|By|Under|To|Of|Where|While)\b)"
    r"(?:(?:the|an?|its|your|their|of|to|in|by) )*[\"'`*\[(A-Z0-9<].*|[\w'-]+( [\w'-]+)?"
)
VERB = re.compile(
    r"\b(is|are|has|have|can|may|needs?|does|do|gets?|uses?|takes?|reads?|says?|shows?)\b"
)


def remove_mentions(text: str, mentions: Mentions) -> str:
    """A paragraph, cell or comment without what mentions; "" if nothing else is left."""
    if not mentions(text):
        return text
    parts = split_sentences(text)
    kept: list[str] = []
    for part in parts:
        needs_gone = kept and not kept[-1] and NEEDS_OTHER.match(part)
        kept.append("" if needs_gone else reduce_sentence(part, mentions))
    rest = "".join(kept).strip()
    if not re.search(r"\w", LEAD_OR_LINK.sub("", rest)):
        return ""
    starts_upper = text[:1].isupper() and not kept[0]
    return rest[:1].upper() + rest[1:] if starts_upper else rest


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the space behind it; together they are the text."""
    masked = mask(text)
    ends = [match.end() for match in SENTENCE_END.finditer(masked)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def mask(text: str) -> str:
    """A text of the same length in which code and the targets of links are letters."""
    return OPAQUE.sub(lambda match: "x" * len(match[0]), text)


def reduce_sentence(sentence: str, mentions: Mentions) -> str:
    """A sentence without the parentheses, clause or item that mentions, or ""."""
    if not mentions(sentence):
        return sentence
    starts_upper = sentence[:1].isupper()
    for reduce in (_without_parentheses, _without_items, _without_clauses):
        sentence = reduce(sentence, mentions)
        if not mentions(sentence):
            first = sentence[:1].upper() if starts_upper else sentence[:1]
            return first + sentence[1:] if sentence.strip(" .\n") else ""
    return ""


def _without_parentheses(sentence: str, mentions: Mentions) -> str:
    """Without what is in parentheses, or items of it."""
    for match in reversed([*PARENTHESES.finditer(mask(sentence))]):
        inside = sentence[match.start(1) : match.end(1)]
        if mentions(inside):
            changed = _without_items(f": {inside}", mentions)[2:]  # as after a colon
            start = sentence[match.start() : match.start(1)]
            rest = "" if mentions(changed) else f"{start}{changed})"
            sentence = sentence[: match.start()] + rest + sentence[match.end() :]
    return sentence


def _without_clauses(sentence: str, mentions: Mentions) -> str:
    """Without parts between semicolons."""
    masked = _mask_parentheses(sentence)
    cuts = [0, *(match.end() for match in re.finditer(r";\s+", masked)), len(sentence)]
    clauses = [sentence[a:b] for a, b in pairwise(cuts)]
    rest, gone = [], False
    for clause in clauses:
        gone = mentions(clause) or (gone and NEEDS_OTHER.match(clause.capitalize()) is not None)
        rest += [] if gone else [clause]
    if not rest or len(rest) == len(clauses):
        return sentence
    end = re.search(r"([.:!?]?)\**(\s*)$", sentence)
    assert end
    return re.sub(r";\s+$|[.:!?]?\**\s*$", "", "".join(rest), count=1) + end[1] + end[2]


def _without_items(sentence: str, mentions: Mentions) -> str:
    """Without items of a list of three or more, or of two that fill the sentence."""
    while mentions(sentence):
        changed = _without_item(sentence, mentions)
        if changed == sentence:
            break
        sentence = changed
    return sentence


def _without_item(sentence: str, mentions: Mentions) -> str:
    masked = _mask_parentheses(sentence)
    stop = len(sentence.rstrip(" .:;!?\n"))
    separators = [match.span() for match in SEPARATOR.finditer(masked[:stop])]
    starts = [*LIST_START.finditer(masked[:stop])]
    edges = {match.span() for match in starts}
    ends = sorted({*separators, *(each.span() for each in starts if each["end"]), (stop, stop)})
    for before in sorted({*edges, *separators}):
        after = next(each for each in ends if each[0] >= before[1])
        item = sentence[before[1] : after[0]]
        if not mentions(item):
            continue
        count = _count_items(before, after, edges, ends)
        if count < 2 or not _is_item(item, 7 if count > 2 else 4):
            continue
        if before in edges and _begins_item(sentence[after[1] :], count, is_first=before == (0, 0)):
            return sentence[: before[1]] + sentence[after[1] :]
        if before in edges:
            continue
        rest, joint = sentence[: before[0]], sentence[slice(*before)]
        if rest.endswith("'s"):
            continue
        if joint.strip(" ,\n"):
            rest = _join_last(rest, joint, [each for each in separators if each[1] <= before[0]])
        return rest + sentence[after[0] :]
    return sentence


def _begins_item(rest: str, count: int, is_first: bool) -> bool:
    """Whether an item without a verb follows, so that the first item of a list can go."""
    follows = re.match(r"(?:the |an? )?[\"'`*\[(A-Z]", rest) is not None
    clause = SEPARATOR.split(rest)[0]
    return (count > 2 and follows) if is_first else count > 2 or not VERB.search(clause)


def _mask_parentheses(text: str) -> str:
    return PARENTHESES.sub(lambda match: "x" * len(match[0]), mask(text))


def _is_item(text: str, words: int) -> bool:
    return len(text.split()) <= words and ITEM.fullmatch(text) is not None and not VERB.search(text)


def _count_items(before: Span, after: Span, edges: set[Span], ends: list[Span]) -> int:
    """The number of items in the list that an item between two bounds belongs to."""
    last_edge = max(each for each in edges if each <= before)
    is_last = {each for each in ends if each in edges or each == ends[-1]}
    first_end = min(each for each in is_last if each >= after)
    return sum(1 for each in ends if last_edge[1] <= each[0] <= first_end[0])


def _join_last(text: str, joint: str, separators: list[Span]) -> str:
    """A list whose last item is gone: `and`, or `or`, stands before the one that is last now."""
    if not separators:
        return text
    start, end = separators[-1]
    return text[:start] + joint.lstrip(",") + text[end:]
