"""A model that runs inside the app and only quotes: the template answers before any is set up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain, islice

from shared.chat.events import Delta, Done, Usage
from shared.chat.messages import Message
from shared.models.base import ModelStream, Prompt
from shared.models.demo.question_resolution import asked
from shared.models.demo.sentence_ranking import quotes
from shared.models.demo.sentence_splitter import Sentence, sentences
from shared.text.stopwords import ENGLISH
from shared.text.terms import extract_terms
from shared.text.tokens import count_tokens

INTRODUCTION = "From the documents (the demo model only quotes):"
UNKNOWN = "I don't know: the documents that were found do not answer this."
FOLLOWUPS = 3
MAX_EARLIER_QUESTIONS = 50  # questions, the newest, that are not proposed again
SOURCES = "\n\nSources:\n"
WANTED = "double angle brackets"  # how a prompt asks for follow-up questions

# How a search pipeline puts its question.
RESULT = re.compile(r"SEARCH RESULT \d+: ")
ASKS, ANSWERS = "QUESTION: ", "ANSWER:"

_EXTENSION = re.compile(r"\.\w+$")
_MOST_TOPIC_WORDS = 6
_MOST_LABEL_WORDS = 3


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
    # In a thread: finding the sentences would hold up every other answer of this worker.
    text = await asyncio.to_thread(reply, prompt.task, prompt.messages)
    for word in re.findall(r"\s*\S+", text):
        yield Delta(word)
        await asyncio.sleep(0)
    told = sum(count_tokens(message.content) for message in prompt.messages)
    yield Done(usage=Usage(told, count_tokens(text)), model=DemoModel.name)


def reply(task: str, messages: Sequence[Message]) -> str:
    """The whole answer to a prompt's messages."""
    before = messages[-2].content if len(messages) > 1 else ""
    if messages[-1].content == ANSWERS and before.startswith(ASKS):
        return of_results([message.content for message in messages if message.role == "user"])
    questions, told = asked_about(messages)
    if task == "rewrite":
        return " ".join(asked(questions).text.split())
    found = sentences(told.split("\n") if told else ())
    answer = quoted(quotes(asked(questions), found))
    wanted = any(message.role == "system" and WANTED in message.content for message in messages)
    return "\n".join((answer, *followups(found, questions))) if wanted else answer


def asked_about(messages: Sequence[Message]) -> tuple[list[str], str]:
    """What the user asks, and the sources: they stand behind the question, or in the first message
    where the messages are a client's own."""
    questions = [message.content for message in messages if message.role == "user"]
    before, marker, sources = (questions or [""])[-1].rpartition(SOURCES)
    if marker:
        return [*questions[:-1], before], sources
    first = messages[0]
    return questions, first.content.rpartition(SOURCES)[2] if _tells(first) else ""


def _tells(first: Message) -> bool:
    return first.role == "system" and SOURCES in first.content


def of_results(told: Sequence[str]) -> str:
    """The answer to a search pipeline's prompt: what it tells as a user, in order."""
    results = [" ".join(text.split()) for text in told if RESULT.match(text)]
    places = [place for place, text in enumerate(told) if RESULT.match(text)]
    earlier = told[max(places, default=0) + 1 : -2]
    questions = [*earlier, told[-2].removeprefix(ASKS)]
    return quoted(quotes(asked(questions), sentences(results)))


def quoted(chosen: Sequence[Sentence]) -> str:
    """The answer that some sentences make, each with its citation."""
    said = [f"{_unbracketed(sentence.text)} [{sentence.source}]" for sentence in chosen]
    if not said:
        return UNKNOWN
    return f"{INTRODUCTION} {said[0]}" if len(said) == 1 else "\n- ".join((INTRODUCTION, *said))


def _unbracketed(text: str) -> str:
    """Brackets mark citations and questions; in a quotation they would be taken for one."""
    return text.translate(str.maketrans("[]", "()")).replace("<<", "< <")


def followups(found: Sequence[Sentence], questions: Sequence[str]) -> list[str]:
    """Questions that the sources can answer and that have not been asked, in double brackets."""
    before = [set(extract_terms(question)) for question in questions[-MAX_EARLIER_QUESTIONS:]]
    new = (
        question
        for topic, question in _askable(found)
        if not any(map(set(extract_terms(topic)).issubset, before))
    )
    return [f"<<{question}>>" for question in islice(dict.fromkeys(new), FOLLOWUPS)]


def _askable(found: Sequence[Sentence]) -> Iterator[tuple[str, str]]:
    """Topics and the questions about them: headings, then labels, then whole files."""
    labels = ((label, held.source) for held in found if (label := _label(held.text)))
    headings = ((held.heading.rpartition(" > ")[2], held.source) for held in found)
    for topic, source in chain(headings, labels):
        title = _title(source)
        if _is_topic(topic) and not set(extract_terms(title)) <= set(extract_terms(topic)):
            yield topic, f"What does {title} say about {_inside(topic)}?"
    for form in ("What is {} about?", "What else is in {}?"):
        for held in found:
            yield (question := form.format(_title(held.source))), question


def _label(text: str) -> str:
    """What stands before the colon of `Eye exam: 1 a year`, where it is short."""
    label, colon, _ = text.partition(":")
    return label if colon and len(label.split()) <= _MOST_LABEL_WORDS else ""


def _is_topic(text: str) -> bool:
    words = text.split()
    first = words[0].lower() if words else ""
    return 0 < len(words) <= _MOST_TOPIC_WORDS and first not in ENGLISH | {"no", "not"}


def _inside(topic: str) -> str:
    """A heading as words inside a sentence: its first capital stays only with a name."""
    first, *rest = topic.split()
    name = len(first) > 1 and first.isupper()
    if name or any(word[0].isupper() for word in rest):
        return topic
    return topic[0].lower() + topic[1:]


def _title(source: str) -> str:
    """`plans/health_plus.pdf#page=2` as a title: Health Plus."""
    file = source.partition("#")[0].rpartition("/")[2]
    words = re.split(r"[\W_]+", _EXTENSION.sub("", file))
    return " ".join(word[0].upper() + word[1:] for word in words if word)
