"""The tools: their descriptions and schemas, their arguments, the form of their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from shared.domain.errors import BadRequest, ChatError
from shared.domain.events import Answer, Source
from shared.domain.overrides import MAX_TOP, Category, Overrides, WholeNumber
from shared.http.body import InvalidField, validate, without_nulls
from shared.http.call import Json
from shared.protocols.exchange import ErrorFormat
from shared.protocols.mcp import documents
from shared.protocols.mcp.messages import InvalidParams, RpcMessage, response
from shared.rag.citations import CitationFinder, sources_by_name

A = TypeVar("A", bound=BaseModel)
ANNOTATIONS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Text = Annotated[str, AfterValidator(_check_not_blank)]


class Options(BaseModel, strict=True):
    """The optional arguments of a search."""

    top: WholeNumber | None = Field(default=None, ge=1, le=MAX_TOP)
    category: Category | None = None

    @property
    def overrides(self) -> Overrides:
        """The overrides of the search."""
        return Overrides(top=self.top, include_category=self.category)


class Search(Options):
    """The arguments of `search`."""

    query: Text


class Fetch(BaseModel, strict=True):
    """The arguments of `fetch`."""

    id: Text


class Ask(Options):
    """The arguments of `ask`."""

    question: Text


def _text(description: str) -> Json:
    return {"type": "string", "minLength": 1, "description": description}


def _object(properties: Json, required: Sequence[str]) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


ID = _text("The citation of a place in a document: its path, and its page if it has pages.")
OPTIONS: Json = {
    "top": {
        "type": "integer",
        "minimum": 1,
        "maximum": 50,
        "description": "How many passages to search for.",
    },
    "category": {
        "type": "string",
        "description": "Search only documents of this category, which is their top folder.",
    },
}
HIT = {
    "id": ID,
    "title": _text("The title of the document, or the id."),
    "url": _text("Opens the document."),
    "text": _text("The text of the place, as the index has it."),
}
METADATA = {
    "document": _text("The path of the document."),
    "category": _text("The category of the document."),
    "truncated": {
        "type": "string",
        "enum": ["true", "false"],
        "description": "Whether the text was cut: fetch single pages then.",
    },
}
HITS: Json = {"type": "array", "items": _object(HIT, tuple(HIT))}


def _tool(name: str, title: str, description: str, **schemas: Json) -> Json:
    texts = {"name": name, "title": title, "description": description}
    return {**texts, **schemas, "annotations": ANNOTATIONS}


TOOLS = (
    _tool(
        "search",
        "Search the documents",
        "Searches the documents of this server for passages. Use it to find out what they say "
        "about something; fetch reads more of a result.",
        inputSchema=_object({"query": _text("What to search for."), **OPTIONS}, ["query"]),
        outputSchema=_object({"results": HITS}, ["results"]),
    ),
    _tool(
        "fetch",
        "Read a document",
        "Returns the text of a document, or of a page of it. Use it with an id from the results "
        "of search, or with the id's path alone for the whole document.",
        inputSchema=_object({"id": _text("The id of a result, or the path of a file.")}, ["id"]),
        outputSchema=_object(
            {**HIT, "metadata": _object(METADATA, ["document", "truncated"])},
            [*HIT, "metadata"],
        ),
    ),
    _tool(
        "ask",
        "Ask the documents",
        "Answers a question from the documents of this server, with citations in brackets. Use "
        "it for a complete answer; search is faster and returns the passages themselves.",
        inputSchema=_object(
            {"question": _text("A question in plain words."), **OPTIONS}, ["question"]
        ),
        outputSchema=_object(
            {"answer": {"type": "string", "description": "The answer."}, "citations": HITS},
            ["answer", "citations"],
        ),
    ),
)


def parse_arguments(model: type[A], arguments: Mapping[str, Any]) -> A:
    """Parse the arguments of a tool; null means missing. Raises BadRequest with the argument."""

    def fail(fields: Sequence[InvalidField]) -> BadRequest:
        return BadRequest(fields[0].message, field=fields[0].path)

    return validate(model, without_nulls(arguments), fail=fail)


def get_arguments(message: RpcMessage) -> Mapping[str, Any]:
    """Return the arguments of a call, not parsed. Raises InvalidParams."""
    arguments = message.params.get("arguments")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise InvalidParams("arguments: must be an object")
    return arguments


def result(message: RpcMessage, value: Json) -> Json:
    """Return the response with a value, as JSON and as text."""
    return _result(message, value, [_text_item(json.dumps(value, ensure_ascii=False))])


def answer_result(message: RpcMessage, answer: Answer, base_url: str) -> Json:
    """Return the response with an answer, and a link to each document that it cites."""
    hits = documents.format_hits(_cited_sources(answer), base_url)
    value: Json = {"answer": answer.content, "citations": hits}
    return _result(message, value, [_text_item(answer.content), *map(_link, hits)])


def _result(message: RpcMessage, value: Json, content: Sequence[Json]) -> Json:
    fields = {"content": content, "structuredContent": value, "isError": False}
    return response(message, fields)


def _text_item(text: str) -> Json:
    return {"type": "text", "text": text}


def _link(hit: Json) -> Json:
    return {
        "type": "resource_link",
        "uri": documents.to_uri(hit["id"]),
        "name": hit["id"],
        "title": hit["title"],
        "mimeType": documents.TEXT_TYPE,
    }


def _cited_sources(answer: Answer) -> list[Source]:
    """Return the sources whose place the answer cites, in the order of the citations."""
    sources = answer.context.sources
    citations = CitationFinder(sources_by_name(sources)).feed(answer.content)
    places = dict.fromkeys(citation.source.sourcepage for citation in citations)
    return [source for place in places for source in sources if source.sourcepage == place]


# Arguments by the names that they have in the overrides.
_ARGUMENTS = {"include_category": "category"}


def _write_error(failure: ChatError, message: RpcMessage) -> Json:
    """Return the result of a tool that failed, which a model can read."""
    field = _ARGUMENTS.get(failure.field or "", failure.field)
    text = f"{field}: {failure.message}" if field else failure.message
    return response(message, {"content": [_text_item(text)], "isError": True})


def error_format(name: str) -> ErrorFormat:
    """Return how the errors of a tool are written: as its results."""
    return ErrorFormat(
        name=f"mcp/{name}",
        write_error=_write_error,
        status=lambda _failure, _message: 200,
        headers=lambda _failure: {},
    )
