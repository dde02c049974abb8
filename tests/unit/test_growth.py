"""What comes from outside is read in a time that grows with its size, and not with its square.

The limit of each is wide: what grew like the square took many times as long at these sizes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import TypeVar, cast

import pytest
from pypdf import PageObject

from shared.chat.events import Delta, Done, collect
from shared.chat.messages import ToolCall
from shared.ingest.document import Page
from shared.ingest.readers.pdf import page_text
from shared.ingest.splitting.passages import page_spans
from shared.models.demo.model import followups, search_query
from shared.models.demo.quotes import best_quotes, read_excerpt
from shared.models.formats.openai import OPENAI
from shared.models.openai.stream_decoder import StreamDecoder, read_body, split_lines
from tests.support.fakes import play

T = TypeVar("T")
SECONDS = 5


@contextmanager
def in_time() -> Iterator[None]:
    before = process_time()
    yield
    assert process_time() - before < SECONDS


async def stream_of(pieces: Iterable[T]) -> AsyncGenerator[T, None]:
    for piece in pieces:
        yield piece


async def all_of(stream: AsyncGenerator[T, None]) -> list[T]:
    return [each async for each in stream]


def test_a_line_of_a_model_s_stream_may_come_in_many_chunks() -> None:
    chunks = [b"x" * 40] * 100_000
    with in_time():
        got = asyncio.run(all_of(split_lines(stream_of([*chunks, b"\ny", b"", b"\n"]))))

    assert got == [b"".join(chunks), b"y", b""]


def test_a_model_s_whole_answer_may_come_in_many_chunks() -> None:
    chunks = [b"x" * 20] * 200_000
    with in_time():
        got = asyncio.run(all_of(read_body(stream_of(chunks))))

    assert got == [b"".join(chunks)]


def test_the_arguments_of_a_tool_may_come_in_many_parts() -> None:
    parts = [ToolCall(0, "a", "f"), *[ToolCall(0, arguments="x" * 20)] * 200_000]
    with in_time():
        got = asyncio.run(collect(play([*(Delta(tool_calls=(part,)) for part in parts), Done()])))

    assert got.tool_calls == (ToolCall(0, "a", "f", "x" * 4_000_000),)


def test_what_stands_beside_a_message_may_come_in_many_parts() -> None:
    part = {"thinking": "x" * 20, "logprobs": [1], "model": {"n": 1}}
    deltas = [Delta(message_extra=part)] * 200_000
    with in_time():
        got = asyncio.run(collect(play([*deltas, Delta(message_extra={"model": "m"}), Done()])))

    assert got.message_extra == {
        "thinking": "x" * 4_000_000,
        "logprobs": [1] * 200_000,
        "model": "m",
    }


def test_a_model_may_call_many_tools_without_an_index() -> None:
    reading = StreamDecoder(OPENAI, "m")
    called = b'{"choices":[{"delta":{"tool_calls":[{"id":"%d","function":{"name":"f"}}]}}]}'
    with in_time():
        for number in range(30_000):
            reading.decode(called % number)

    assert list(reading.calls) == list(range(30_000))


WORDS = [f"Ab{'abcdefghij'[n % 10]}{n:x}".title() for n in range(8_000)]
SOURCES = {
    "shortened words": "A. " * 30_000,
    "headings": f"{'a > B' * 30_000} {' '.join(WORDS)}",
    "items": "- A" * 30_000,
    "rules": "|---|a" * 30_000,
    "a wide rule": "| " * 60_000 + "|" + "---|" * 30_000 + " a|" * 30_000,
    "half a row": "|---|" * 100 + "| a" * 99 + "b" * 300_000,
    "blanks": f"A.{' ' * 100_000}b{' ' * 100_000}",
}


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES)
def test_a_source_of_any_form_is_read_and_quoted(text: str) -> None:
    with in_time():
        quotes = best_quotes("the plan", "the plan", [read_excerpt(f"plan.md: {text}")])

    assert list(quotes.values()) == ["plan.md"]


def test_many_passages_are_compared_with_many_words() -> None:
    excerpts = [read_excerpt(f"a.md: Plan {number}. Car {number}.") for number in range(4_000)]
    with in_time():
        quotes = best_quotes("plan", f"car {' '.join(WORDS)}", excerpts)

    assert len(quotes) == 4_000


def test_many_questions_may_each_lean_on_the_one_before() -> None:
    with in_time():
        query = search_query(["What is covered?", *(f"and it b{n}?" for n in range(8_000))])

    assert query.startswith("and it b7999? b7998")


def test_a_long_question_may_lean_on_another() -> None:
    long = "and that it " * 20_000
    with in_time():
        query = search_query([long, f"{long}{'that ' * 20_000}{' ' * 100_000}x"])

    assert query


def test_many_headings_are_compared_with_many_questions() -> None:
    excerpts = [read_excerpt(f"a.md: A > X{number} > B. C.") for number in range(2_000)]
    with in_time():
        questions = followups(excerpts, [f"What is x{number}?" for number in range(2_000)])

    assert questions == []


class FakePage:
    """A page of a PDF, of lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def extract_text(self, visitor_text: Callable[..., None], **_: object) -> None:
        """Give each line."""
        for number, line in enumerate(self.lines):
            place = [1.0, 0.0, 0.0, 1.0, 0.0, -float(number)]
            visitor_text(f"{line}\n", place, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], None, 10.0)


def test_a_page_of_a_pdf_may_have_many_lines() -> None:
    page = FakePage("sen-", "tence", *["word " * 20] * 6_000)
    with in_time():
        text = page_text(cast(PageObject, page))

    assert text.startswith("sen-tence word")


def test_many_headings_may_stand_below_a_long_one() -> None:
    text = f"# {'x ' * 15_000}\n" + "## a\n" * 4_000
    with in_time():
        got = list(page_spans(Page(text, markdown=True)))

    assert got[-1].end == len(text)
