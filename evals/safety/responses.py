"""Reads the responses of the app: their texts, and the answer in each protocol's form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from pydantic import BaseModel, ValidationError


class _DataPoints(BaseModel):
    citations: tuple[str, ...] = ()


class _Place(BaseModel):
    """A citation or a result."""

    filepath: str | None = None  # of OpenAI's citations
    title: str | None = None  # of annotations
    id: str | None = None  # of MCP's results

    @property
    def name(self) -> str:
        return self.id or self.filepath or self.title or ""


class _Context(BaseModel):
    data_points: _DataPoints | None = None
    citations: tuple[_Place, ...] = ()


class _Message(BaseModel):
    content: str | None = None
    context: _Context | None = None


class _Part(BaseModel):
    text: str = ""
    annotations: tuple[_Place, ...] = ()


class _Item(BaseModel):
    content: tuple[_Part, ...] = ()


class _Tool(BaseModel):
    answer: str = ""
    citations: tuple[_Place, ...] = ()
    results: tuple[_Place, ...] = ()


class _Result(BaseModel):
    structuredContent: _Tool | None = None


class _Choice(BaseModel):
    message: _Message | None = None
    delta: _Message | None = None
    context: _Context | None = None


class _Document(_Choice):
    """A response, or a line of a stream, in the form of any protocol."""

    choices: tuple[_Choice, ...] = ()
    output_text: str | None = None
    output: tuple[_Item, ...] = ()
    result: _Result | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its text, and the names that the response lists as citations or results."""

    content: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Response:
    """A response; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    @cached_property
    def documents(self) -> Sequence[Any]:
        """The JSON objects of the body: one, or one for each line; empty for anything else."""
        for texts in ([self.text], self.text.splitlines()):
            try:
                documents = [json.loads(text) for text in texts]
            except (ValueError, RecursionError):
                continue
            if all(isinstance(document, dict) for document in documents):
                return documents
        return []

    @cached_property
    def answer(self) -> Answer | None:
        """The answer; None if the response has none, or a stream ends with an error."""
        if any("error" in document for document in self.documents):
            return None
        try:
            documents = [_Document.model_validate(document) for document in self.documents]
        except ValidationError:
            return None
        content = "".join(chain.from_iterable(map(_contents, documents)))
        names = tuple(dict.fromkeys(chain.from_iterable(map(_names, documents))))
        return Answer(content, names) if content or _has_results(documents) else None

    @cached_property
    def searchable(self) -> str:
        """All texts of the response, also as they are without the escapes of JSON and streams."""
        headers = (f"{name}: {value}" for name, value in self.headers.items())
        answer = self.answer.content if self.answer else ""
        return "\n".join((self.text, answer, *headers, *_strings(self.documents)))


def _messages(document: _Document) -> Iterator[_Message]:
    for choice in (document, *document.choices):
        yield from (message for message in (choice.message, choice.delta) if message)


def _contents(document: _Document) -> Iterator[str]:
    yield from (message.content or "" for message in _messages(document))
    yield document.output_text or ""
    yield from (part.text for item in document.output for part in item.content)
    if document.result and document.result.structuredContent:
        yield document.result.structuredContent.answer


def _names(document: _Document) -> Iterator[str]:
    contexts = [choice.context for choice in (document, *document.choices)]
    contexts += [message.context for message in _messages(document)]
    for context in filter(None, contexts):
        yield from context.data_points.citations if context.data_points else ()
        yield from (place.name for place in context.citations)
    parts = (part for item in document.output for part in item.content)
    yield from (place.name for part in parts for place in part.annotations)
    if document.result and (tool := document.result.structuredContent):
        yield from (place.name for place in (*tool.citations, *tool.results))


def _has_results(documents: Iterable[_Document]) -> bool:
    """Whether a tool has responded, if only with no results."""
    return any(each.result and each.result.structuredContent for each in documents)


def _strings(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        match stack.pop():
            case str(text):
                yield text
            case dict(fields):
                stack += [*fields, *fields.values()]
            case list(items):
                stack += items
