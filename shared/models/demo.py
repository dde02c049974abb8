"""The demo model: without a language model, it quotes the sentences that fit a question best."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from itertools import islice, pairwise, zip_longest
from math import log
from operator import mul
from typing import NamedTuple

from shared.domain.events import Delta, Done, Usage
from shared.domain.messages import Message
from shared.models.base import ModelStream, Prompt
from shared.text import (
    ENGLISH,
    MAX_TERMS,
    SENTENCE_END,
    TOKENIZER,
    content_terms,
    count_tokens,
    extract_terms,
    fts_query,
    select_stopwords,
    split_sentences,
)

HEADING = "The demo model does not answer, it only quotes. From the documents:"
UNKNOWN = "I don't know: no passage about this was found in the documents."
MINIMUM_RELEVANCE = 1.0  # of the passages; with less they are about something else
MAX_QUOTES = 3
NEAR_BEST = 0.7  # of the best part's score: another part of an excerpt that is quoted too
MAX_FOLLOWUPS = 3

Encode = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns a vector of length 1 for each text."""
MAX_LINKED_QUESTIONS = 4  # each referring to the one before it
SOURCES = "\n\nSources:\n"
FOLLOWUP_MARKS = re.compile("<<.*>>", re.DOTALL)  # in the instructions that ask for questions


NO_EFFECT = (
    *("temperature", "seed", "top_p", "stop", "max_tokens"),
    *("frequency_penalty", "presence_penalty", "reasoning_effort", "verbosity"),
)


class DemoModel:
    """A Model without a network or a memory: it quotes the sources that its prompt holds."""

    name = "demo"
    max_prompt_tokens = 8000
    limits: Mapping[str, str] = {
        "images": "The images were left out: the demo model cannot see them.",
        "tools": "tools were left out: the demo model cannot call them.",
        "response_format": "response_format was left out: the demo model answers in plain text.",
        **{
            name: f"{name} was left out: the demo model quotes, so it has no effect."
            for name in NO_EFFECT
        },
    }

    def __init__(self, encode: Encode | None = None) -> None:
        """Quote by words; with `encode` also the best source if it shares no word."""
        self._encode = encode

    def count(self, text: str) -> int:
        """Return how many tokens `text` has at most."""
        return count_tokens(text)

    async def ready(self) -> None:
        """Do nothing: it always answers."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Accept any prompt; yield the answer word by word, and one Done."""
        async with aclosing(_stream(prompt, self._encode)) as stream:
            yield stream


async def _stream(prompt: Prompt, encode: Encode | None) -> ModelStream:
    # In a thread: matching the sources would hold up every other answer of this worker.
    text = await asyncio.to_thread(reply, prompt.task, prompt.messages, encode)
    for word in re.findall(r"\s*\S+", text):
        yield Delta(word)
        await asyncio.sleep(0)
    prompt_tokens = sum(count_tokens(message.content) for message in prompt.messages)
    yield Done(usage=Usage(prompt_tokens, count_tokens(text)), model=DemoModel.name)


def reply(task: str, messages: Sequence[Message], encode: Encode | None = None) -> str:
    """Return the whole answer to a prompt's messages."""
    questions, lines = read_prompt(messages)
    query = search_query(questions)
    if task == "rewrite":
        return query
    excerpts = [read_excerpt(line) for line in lines]
    quotes = best_quotes(questions[-1], query, excerpts)
    if encode and excerpts and excerpts[0].parts and excerpts[0].citation not in quotes.values():
        quotes = {nearest_part(query, excerpts[0], encode): excerpts[0].citation} | quotes
    answer = [f"- {text} [{citation}]" for text, citation in islice(quotes.items(), MAX_QUOTES)]
    answer = [HEADING, *answer] if answer else [UNKNOWN]
    if asks_for_followups(messages):
        answer += followups(excerpts, questions)
    return "\n".join(answer)


# The messages of a search pipeline's prompt.
RESULT = re.compile(r"SEARCH RESULT \d+: ")
QUESTION, ANSWERS = "QUESTION: ", "ANSWER:"

# A question that refers to the one before it: "And in Health Plus?", "Is it free?"
_REFERRING = re.compile(
    r"^\W*(?:and|or|but|also|then|so|what about|how about|what if|und|et|y)\b"
    r"|\b(?:it|its|they|them|theirs?|these|those|ones|this|he|him|she|her)\b"
    r"|^\W*(?:is|was|does|did|can|will|has) that\b|\bthat\W*$",
    re.IGNORECASE,
)


def read_prompt(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """Return the user's questions, and the sources, a line each.

    The sources stand behind the last question, or in the first message where the messages are a
    client's own; in the prompt of a search pipeline they are messages.
    """
    texts = [message.content for message in messages if message.role == "user"] or [""]
    if len(texts) > 1 and texts[-1] == ANSWERS and texts[-2].startswith(QUESTION):
        results = [" ".join(text.split()) for text in texts if RESULT.match(text)]
        earlier = [text for text in texts[:-2] if not RESULT.match(text)]
        return [*earlier, texts[-2].removeprefix(QUESTION)], results
    question, marker, sources = texts[-1].rpartition(SOURCES)
    if marker:
        texts[-1] = question
    elif messages[0].role == "system":
        _, marker, sources = messages[0].content.rpartition(SOURCES)
    return texts, sources.split("\n") if marker else []


def search_query(questions: Sequence[str]) -> str:
    """Return the last question, with the terms of the one before if it refers to that."""
    *earlier, question = (" ".join(each.split()) for each in questions[-MAX_LINKED_QUESTIONS:])
    if not earlier or (content_terms(question) and not _REFERRING.search(question)):
        return question
    before = search_query(earlier)
    stopwords = select_stopwords(extract_terms(before))
    words = (word.strip(".,:;!?") for word in before.split())
    content_words = (word for word in words if not stopwords.issuperset(extract_terms(word)))
    return " ".join((question, *content_words))


def asks_for_followups(messages: Iterable[Message]) -> bool:
    """Whether instructions, in whatever words, show the brackets of a follow-up question."""
    systems = (message.content for message in messages if message.role == "system")
    return any(FOLLOWUP_MARKS.search(text.partition(SOURCES)[0]) for text in systems)


def followups(excerpts: Sequence[Excerpt], questions: Sequence[str]) -> list[str]:
    """Make questions about headings that no question has named yet, in double brackets."""
    earlier = [set(extract_terms(question)) for question in questions]
    headings = dict.fromkeys(excerpt.heading for excerpt in excerpts if excerpt.heading)
    new = (each for each in headings if not any(map(set(extract_terms(each)).issubset, earlier)))
    return [f'<<Is there more about "{each}"?>>' for each in islice(new, MAX_FOLLOWUPS)]


def best_quotes(question: str, query: str, excerpts: Sequence[Excerpt]) -> dict[str, str]:
    """Return the best parts of the excerpts, with their citations, best first.

    The question's own terms count first, then those that the query adds to them. An excerpt that
    shares no term with the query has no quote, nor has one that shares none with the question
    where others do.
    """
    texts = {excerpt.line: excerpt.line for excerpt in excerpts}
    for excerpt in excerpts:
        texts |= excerpt.parts
    with closing(sqlite3.connect(":memory:")) as table:
        # The tokenizer of the index, so that the same words match.
        columns = f'text, part UNINDEXED, tokenize="{TOKENIZER}"'
        table.execute(f"CREATE VIRTUAL TABLE t USING fts5({columns})")
        rows = ((" ".join(extract_terms(text)), part) for part, text in texts.items())
        table.executemany("INSERT INTO t VALUES (?, ?)", rows)
        own, scores = (_scores(table, words, len(texts)) for words in (question, query))

    def rank(part: str) -> tuple[float, float]:
        return own[part], scores[part]

    citations = dict[str, str]()
    for excerpt in excerpts:
        if excerpt.parts and excerpt.line in (own or scores):
            best, *others = sorted(excerpt.parts, key=rank, reverse=True)
            near = (part for part in others if own[part] >= NEAR_BEST * own[best] > 0)
            for part in (best, *near):
                citations.setdefault(part, excerpt.citation)
    return {part: citations[part] for part in sorted(citations, key=rank, reverse=True)}


def nearest_part(query: str, excerpt: Excerpt, encode: Encode) -> str:
    """Return the part of an excerpt whose meaning is nearest to that of the query."""
    vector, *vectors = encode([query, *excerpt.parts])
    cosines = (sum(map(mul, vector, each)) for each in vectors)
    return max(zip(cosines, excerpt.parts, strict=True))[1]


def _scores(table: sqlite3.Connection, question: str, total: int) -> Mapping[str, float]:
    """Score each text by the terms that it shares with a question: rare ones count more."""
    scores = defaultdict[str, float](float)
    for term in islice(content_terms(question), MAX_TERMS):
        rows = table.execute("SELECT part FROM t WHERE t MATCH ?", (fts_query(term),)).fetchall()
        for (part,) in rows:
            scores[part] += log(1 + total / len(rows))
    return scores


_TABLE_RULE = re.compile(r"\|(?:\s*(?::-+:?|-{3,}:?|-+:)\s*\|){1,100}")
_HEADING_PATH = re.compile(r"(?:[^.!?|<>]{1,120} > (?=[^\W\d_])(?![a-z]))+")
_MAX_HEADING_WORDS = 8


class Excerpt(NamedTuple):
    """A source of a prompt: its line, its heading, and the text that each part is matched by."""

    line: str
    citation: str
    heading: str
    parts: Mapping[str, str]


def read_excerpt(line: str) -> Excerpt:
    """Read a source: `sourcepage: content` on one line."""
    citation, _, content = line.partition(": ")
    path = _HEADING_PATH.match(content)
    end = path.end() + _heading_end(content[path.end() :]) if path else 0
    heading = content[:end].rstrip(" >:").rpartition(" > ")[2]
    return Excerpt(line, citation, heading, _parts(content[end:]))


def _heading_end(content: str) -> int:
    """Return where the heading at the start of a text ends; 0 if that cannot be determined."""
    heading, colon, _ = content.partition(": ")
    if colon and len(heading.split()) <= _MAX_HEADING_WORDS and not re.search("[.!?|]", heading):
        return len(heading + colon)
    # Other languages have capitals inside sentences too.
    if select_stopwords(extract_terms(content)) is not ENGLISH:
        return 0
    words = SENTENCE_END.split(content, 1)[0].split(" ")[: _MAX_HEADING_WORDS + 1]
    for number, (before, word) in enumerate(pairwise(words), 1):
        begins = word.istitle() and (before.islower() or word.lower() in ENGLISH)
        if begins and before[-1:].isalnum() and before.lower() not in ENGLISH:
            return len(" ".join(words[:number])) + 1
    return 0


def _parts(content: str) -> dict[str, str]:
    """Split a text into sentences and rows; a row is matched together with its table's header."""
    rule = _TABLE_RULE.search(content)
    if rule is None:
        return {sentence: sentence for sentence in split_sentences(content)}
    row = rf"(\|(?:[^|]*\|){{{rule[0].count('|') - 1}}})"
    pieces = re.split(row, content)  # each second one is a row
    parts, header = dict[str, str](), ""
    for piece, following in zip_longest(pieces, pieces[2:], fillvalue=""):
        if not piece.startswith("|"):
            parts |= {sentence: sentence for sentence in split_sentences(piece)}
        elif _TABLE_RULE.fullmatch(following):
            header = piece
        elif not _TABLE_RULE.fullmatch(piece):
            parts[piece] = header + piece
    return parts
