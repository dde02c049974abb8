"""The parsers of what comes from outside, each with inputs that are meant to be slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bench.rows import Row
from bench.schemas import keys
from shared.azure.errors import retry_after_seconds
from shared.domain.events import ByteStream, Delta, Done, Source, collect
from shared.domain.messages import ToolCall
from shared.files.base import File
from shared.files.headers import is_not_modified, parse_range
from shared.http.body import Body, parse_json, read_body
from shared.http.call import Json, Limits, dumps, negotiate_media_type
from shared.models.demo import best_quotes, read_excerpt, search_query
from shared.models.formats.openai import OPENAI
from shared.models.openai.stream_decoder import EventReader, StreamDecoder
from shared.protocols.openai.data_sources import check_filter
from shared.protocols.openai.request import CITATION
from shared.protocols.opensearch.search import parse_search
from shared.rag.citations import CitationRewriter
from shared.rag.followups import FollowupParser
from shared.retrieval.base import shorten_query
from shared.text import count_tokens, extract_terms
from tests.support.calls import call
from tests.support.fakes import play

Parser = Callable[[Any], object]
Input = Callable[[int], Any]

LIMITS = Limits(json_bytes=2**30, form_bytes=2**30)
PAGES = [f"plans/{'p' * 100}{number}.md" for number in range(50)]
SOURCES = [Source(page, "", page, page) for page in PAGES]
ALL: Json = {"query": {"match_all": {}}, "ext": {"generative_qa_parameters": {"llm_question": "a"}}}
PART = Delta("a", (ToolCall(0, arguments="a"),), message_extra={"text": "a", "parts": [1]})
CALL = b'data: {"choices":[{"delta":{"tool_calls":[{"id":"%d","function":{"name":"f"}}]}}]}\n'
LARGEST = 128_000  # characters or entries


def read_typed(kind: str, data: bytes = b"{}") -> Body:
    """The body of a request, of a content type."""

    async def read() -> Body:
        return await read_body(call("/chat", data, {"content-type": kind}), LIMITS)

    return asyncio.run(read())


def form(inside: bytes) -> bytes:
    """A form with one part."""
    return b'--b\r\nContent-Disposition: form-data; name="json"' + inside + b"\r\n--b--\r\n"


def condition(name: str) -> Parser:
    """Reads a header of a request for a file."""

    def nothing(_start: int, _stop: int) -> ByteStream:
        raise AssertionError("nothing is read")

    file = File(1000, '"a"', 0, nothing)
    read = parse_range if name == "range" else is_not_modified
    return lambda value: read({name: value}, file)


def count_calls(chunks: Iterable[bytes]) -> int:
    """How many calls of tools a model's stream holds."""

    reader, decoder = EventReader(), StreamDecoder(OPENAI, "m")
    for chunk in chunks:
        for _ in decoder.decode_all(reader.feed(chunk)):
            pass
    return len(decoder.calls)


PARSERS: Mapping[str, Parser] = {
    "read_json": parse_json,
    "a form": partial(read_typed, "multipart/form-data; boundary=b"),
    "Content-Type": read_typed,
    "Accept": lambda value: negotiate_media_type(value, "application/jsonl"),
    "Range": condition("range"),
    "If-None-Match": condition("if-none-match"),
    "If-Modified-Since": condition("if-modified-since"),
    "Retry-After": lambda value: retry_after_seconds({"retry-after": value}),
    "OData": lambda value: check_filter(value, ("oids", "groups")),
    "_search": lambda body: parse_search(body, {}).source_filter.apply({"a" * 1000: ""}),
    "an earlier answer": lambda text: CITATION.sub("", text),
    "follow-ups": lambda pieces: "".join(map(FollowupParser().feed, pieces)),
    "citations": lambda pieces: "".join(map(CitationRewriter(SOURCES).feed, pieces)),
    "a model's stream": count_calls,
    "an answer": lambda deltas: asyncio.run(collect(play([*deltas, Done()]))),
    "count_tokens": count_tokens,
    "terms": lambda text: extract_terms(shorten_query(text)),
    "the demo model": lambda text: best_quotes(
        text, search_query([text] * 20), [read_excerpt(f"a.md: {text}")]
    ),
}
INPUTS: Sequence[tuple[str, str, Input]] = (
    ("read_json", "digits", lambda n: b"1" * n),
    ("read_json", "a fraction", lambda n: b"0." + b"1" * n),
    ("read_json", "brackets", lambda n: b"[" * n),
    ("read_json", "escapes", lambda n: b'["' + b"\\u00e9" * n),
    ("read_json", "keys", lambda n: dumps(keys(n))),
    ("a form", "half boundaries", lambda n: form(b"\r\n\r\n" + b"\r\n--" * n)),
    ("a form", "headers", lambda n: form(b"\r\na: b" * n)),
    ("a form", "a header", lambda n: form(b'; a="\\"' * n)),
    ("a form", "before it", lambda n: b"\r\n-" * n + form(b"\r\n\r\n{}")),
    ("Content-Type", "quotes", lambda n: "application/json" + ';a="' * n),
    ("Content-Type", "parameters", lambda n: "application/json" + "; a*0=b" * n),
    ("Accept", "qualities", lambda n: ";q=0.00" * n),
    ("Accept", "kinds", lambda n: "a/b;q=0 , " * n),
    ("Range", "blanks", lambda n: "bytes=" + " " * n + "x"),
    ("Range", "digits", lambda n: "bytes=" + "1" * n),
    ("If-None-Match", "quotes", lambda n: '"' * n),
    ("If-Modified-Since", "commas", lambda n: "Mon, " * n),
    ("Retry-After", "colons", lambda n: "Mon, 01 Jan 2000 " + "1:" * n),
    ("OData", "conditions", lambda n: "a eq 'b' or " * n),
    ("OData", "brackets", lambda n: "(" * n + ")" * n),
    ("_search", "names", lambda n: {"_source": "a," * n, **ALL}),
    ("an earlier answer", "citations", lambda n: " [doc1" * n),
    ("follow-ups", "lines", lambda n: ["\n" * n + "a"]),
    ("follow-ups", "a marker", lambda n: [f"<<a{' ' * n}x>>"]),
    ("follow-ups", "marks", lambda n: "<<a" * n),
    ("follow-ups", "items", lambda n: "\n- <<a>>" * n),
    ("citations", "brackets", lambda n: ["[" * n]),
    ("citations", "single brackets", lambda n: "[" * n),
    ("citations", "numbers", lambda n: "[doc1" * n),
    ("citations", "half markers", lambda n: f"[plans/{'p' * 100}" * (n // 100)),
    ("a model's stream", "chunks", lambda n: [b"data: 1" * 3] * n),
    ("a model's stream", "calls", lambda n: [CALL % place for place in range(n)]),
    ("an answer", "parts", lambda n: [PART] * n),
    ("count_tokens", "blanks", lambda n: " " * n + "x"),
    ("count_tokens", "mixed", lambda n: "aA1_\n  " * n),
    ("terms", "combining marks", lambda n: "a" + "\u0301\u0323" * n),
    ("the demo model", "letters", lambda n: "A. " * n),
    ("the demo model", "rules", lambda n: "|---|a" * n),
)


def list_parsers() -> Iterator[Row]:
    """Yield the inputs of the parsers."""
    for name, kind, make in INPUTS:
        yield Row(name, kind, make, partial(_discard, PARSERS[name]), LARGEST)


def _discard(parser: Parser, value: Any) -> None:
    parser(value)
