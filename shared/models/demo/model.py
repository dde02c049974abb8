"""A model that runs inside the app and only quotes: the template answers before any is set up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import islice

from shared.chat.events import Delta, Done, Usage
from shared.chat.messages import Message
from shared.models.base import ModelStream, Prompt
from shared.models.demo.quotes import Excerpt, best_quotes, read_excerpt
from shared.text.stopwords import select_stopwords
from shared.text.terms import content_terms, extract_terms
from shared.text.tokens import count_tokens

HEADING = "The demo model does not answer, it only quotes. From the documents:"
UNKNOWN = "I don't know: no passage was found that shares a word with the question."
MAX_QUOTES = 3
MAX_FOLLOWUPS = 3
MAX_LINKED_QUESTIONS = 4  # each leaning on the one before it
SOURCES = "\n\nSources:\n"
FOLLOWUP_MARKS = "double angle brackets"  # how a prompt asks for follow-up questions

# The messages of a search pipeline's prompt.
RESULT = re.compile(r"SEARCH RESULT \d+: ")
QUESTION, ANSWERS = "QUESTION: ", "ANSWER:"

# The form of a question that leans on the one before it: "And in Health Plus?", "Is it free?"
_LEANING = re.compile(
    r"^\W*(?:and|or|but|also|then|so|what about|how about|what if|und|et|y)\b"
    r"|\b(?:it|its|they|them|theirs?|these|those|ones|this|he|him|she|her)\b"
    r"|^\W*(?:is|was|does|did|can|will|has) that\b|\bthat\W*$",
    re.IGNORECASE,
)


class DemoModel:
    """A Model without a network or a memory: it quotes the sources that its prompt holds."""

    name = "demo"
    max_prompt_tokens = 8000
    limits: Mapping[str, str] = {
        "images": "The images were left out: the demo model cannot see them.",
        "temperature": "temperature was left out: the demo model quotes, so it has no effect.",
        "seed": "seed was left out: the demo model quotes, so it has no effect.",
    }

    def count(self, text: str) -> int:
        """How many tokens `text` is at most."""
        return count_tokens(text)

    async def ready(self) -> None:
        """It always answers."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Accept any prompt; give the answer word by word, and one Done."""
        async with aclosing(_stream(prompt)) as stream:
            yield stream


async def _stream(prompt: Prompt) -> ModelStream:
    # In a thread: matching the sources would hold up every other answer of this worker.
    text = await asyncio.to_thread(reply, prompt.task, prompt.messages)
    for word in re.findall(r"\s*\S+", text):
        yield Delta(word)
        await asyncio.sleep(0)
    prompt_tokens = sum(count_tokens(message.content) for message in prompt.messages)
    yield Done(usage=Usage(prompt_tokens, count_tokens(text)), model=DemoModel.name)


def reply(task: str, messages: Sequence[Message]) -> str:
    """The whole answer to a prompt's messages."""
    questions, lines = read_prompt(messages)
    query = search_query(questions)
    if task == "rewrite":
        return query
    excerpts = [read_excerpt(line) for line in lines]
    quotes = best_quotes(questions[-1], query, excerpts).items()
    answer = [f"- {text} [{citation}]" for text, citation in islice(quotes, MAX_QUOTES)]
    answer = [HEADING, *answer] if answer else [UNKNOWN]
    if any(message.role == "system" and FOLLOWUP_MARKS in message.content for message in messages):
        answer += followups(excerpts, questions)
    return "\n".join(answer)


def read_prompt(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """The user's questions, and the sources, a line each.

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
    """The last question; where it leans on the one before, with the telling words of that."""
    *earlier, question = (" ".join(each.split()) for each in questions[-MAX_LINKED_QUESTIONS:])
    if not earlier or (content_terms(question) and not _LEANING.search(question)):
        return question
    before = search_query(earlier)
    stopwords = select_stopwords(extract_terms(before))
    words = (word.strip(".,:;!?") for word in before.split())
    telling = (word for word in words if not stopwords.issuperset(extract_terms(word)))
    return " ".join((question, *telling))


def followups(excerpts: Sequence[Excerpt], questions: Sequence[str]) -> list[str]:
    """Questions about headings that no question has named yet, in double brackets."""
    earlier = [set(extract_terms(question)) for question in questions]
    headings = dict.fromkeys(excerpt.headings[-1] for excerpt in excerpts if excerpt.headings)
    new = (each for each in headings if not any(map(set(extract_terms(each)).issubset, earlier)))
    return [f'<<Is there more about "{each}"?>>' for each in islice(new, MAX_FOLLOWUPS)]
