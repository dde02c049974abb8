"""A stream of a model is decoded in a time that grows with its size, and not with its square."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from shared.models.formats.openai import OPENAI
from shared.models.openai.stream_decoder import BodyReader, LineReader, StreamDecoder
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
