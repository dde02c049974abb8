"""What comes from outside is read in a time that grows with its size, and not with its square."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import chain
from typing import cast

import pytest
from pypdf import PageObject

from ingest.document import Page
from ingest.readers.pdf import page_text
from ingest.splitting.passages import page_spans
from shared.domain.events import Answer, Delta, Done, collect
from shared.domain.messages import ToolCall
from shared.models.demo import best_quotes, followups, read_excerpt, search_query
from shared.models.formats.openai import OPENAI
from shared.models.openai.stream_decoder import BodyReader, LineReader, StreamDecoder
from tests.support.fakes import ScriptStep, play
from tests.support.growth import check_growth


def read_objects(reader: BodyReader, chunks: Iterable[bytes]) -> list[bytes]:
    return [*chain.from_iterable(map(reader.feed, chunks)), *reader.end()]


def test_a_line_of_a_model_s_stream_may_come_in_many_chunks() -> None:
    def read(count: int) -> Callable[[], list[bytes]]:
        chunks = [*[b"x" * 40] * count, b"\ny", b"", b"\n"]
        return lambda: read_objects(LineReader(), chunks)

    assert check_growth(read, 40_000) == [b"x" * 1_600_000, b"y"]


def test_a_model_s_whole_answer_may_come_in_many_chunks() -> None:
    def read(count: int) -> Callable[[], list[bytes]]:
        return lambda: read_objects(BodyReader(), [b"x" * 20] * count)

    assert check_growth(read, 100_000) == [b"x" * 2_000_000]


def test_the_arguments_of_a_tool_may_come_in_many_parts() -> None:
    def read(count: int) -> Callable[[], Answer]:
        parts = [ToolCall(0, "a", "f"), *[ToolCall(0, arguments="x" * 20)] * count]
        events: list[ScriptStep] = [*(Delta(tool_calls=(part,)) for part in parts), Done()]
        return lambda: asyncio.run(collect(play(events)))

    answer = check_growth(read, 100_000)

    assert answer.tool_calls == (ToolCall(0, "a", "f", "x" * 2_000_000),)


def test_what_stands_beside_a_message_may_come_in_many_parts() -> None:
    part = {"thinking": "x" * 20, "logprobs": [1], "model": {"n": 1}}

    def read(count: int) -> Callable[[], Answer]:
        deltas = [Delta(message_extra=part)] * count
        events: list[ScriptStep] = [*deltas, Delta(message_extra={"model": "m"}), Done()]
        return lambda: asyncio.run(collect(play(events)))

    answer = check_growth(read, 100_000)

    assert answer.message_extra == {
        "thinking": "x" * 2_000_000,
        "logprobs": [1] * 100_000,
        "model": "m",
    }


def test_a_model_may_call_many_tools_without_an_index() -> None:
    called = b'{"choices":[{"delta":{"tool_calls":[{"id":"%d","function":{"name":"f"}}]}}]}'

    def read(count: int) -> Callable[[], list[int]]:
        decoder = StreamDecoder(OPENAI, "m")

        def take() -> list[int]:
            for _ in decoder.decode_all([called % number for number in range(count)]):
                pass
            return list(decoder.calls)

        return take

    assert check_growth(read, 12_000) == list(range(12_000))


def some_words(count: int) -> list[str]:
    """Different words with capitals."""
    return [f"Ab{'abcdefghij'[n % 10]}{n:x}".title() for n in range(count)]


SOURCES: dict[str, Callable[[int], str]] = {
    "shortened words": lambda count: "A. " * count,
    "headings": lambda count: f"{'a > B' * count} {' '.join(some_words(count // 4))}",
    "items": lambda count: "- A" * count,
    "rules": lambda count: "|---|a" * count,
    "a wide rule": lambda count: "| " * 2 * count + "|" + "---|" * count + " a|" * count,
    "half a row": lambda count: "|---|" * 100 + "| a" * 99 + "b" * 10 * count,
    "blanks": lambda count: f"A.{' ' * 4 * count}b{' ' * 4 * count}",
}


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES)
def test_a_source_of_any_form_is_read_and_quoted(text: Callable[[int], str]) -> None:
    def read(count: int) -> Callable[[], list[str]]:
        source = f"plan.md: {text(count)}"
        return lambda: list(best_quotes("the plan", "the plan", [read_excerpt(source)]).values())

    assert check_growth(read, 30_000) == ["plan.md"]


def test_many_passages_are_compared_with_many_words() -> None:
    def read(count: int) -> Callable[[], int]:
        excerpts = [read_excerpt(f"a.md: Plan {number}. Car {number}.") for number in range(count)]
        question = f"car {' '.join(some_words(2 * count))}"
        return lambda: len(best_quotes("plan", question, excerpts))

    assert check_growth(read, 2_000) == 2_000


def test_many_questions_may_each_lean_on_the_one_before() -> None:
    def read(count: int) -> Callable[[], str]:
        questions = ["What is covered?", *(f"and it b{number}?" for number in range(count))]
        return lambda: search_query(questions)

    assert check_growth(read, 2_000).startswith("and it b1999? b1998")


def test_a_long_question_may_lean_on_another() -> None:
    def read(count: int) -> Callable[[], str]:
        long = "and that it " * count
        return lambda: search_query([long, f"{long}{'that ' * count}{' ' * 5 * count}x"])

    assert check_growth(read, 20_000)


def test_many_headings_are_compared_with_some_questions() -> None:
    def read(count: int) -> Callable[[], list[str]]:
        excerpts = [read_excerpt(f"a.md: A > X{number} > B. C.") for number in range(count)]
        questions = [f"What is x{number}?" for number in range(100)]
        return lambda: followups(excerpts, questions)

    assert len(check_growth(read, 2_000)) == 3


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
    def read(count: int) -> Callable[[], str]:
        page = FakePage("sen-", "tence", *["word " * 20] * count)
        return lambda: page_text(cast(PageObject, page), set())

    assert check_growth(read, 6_000).startswith("sen-tence word")


def test_many_headings_may_stand_below_a_long_one() -> None:
    def read(count: int) -> Callable[[], int]:
        page = Page(f"# {'x ' * 4 * count}\n" + "## a\n" * count, markdown=True)
        return lambda: len(page.text) - list(page_spans(page))[-1].end

    assert check_growth(read, 1_000) == 0
