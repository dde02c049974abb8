"""OpenSearch's search with its RAG pipeline: what a request asks, a pipeline says, a hit shows.

"RAG pipeline" of the document, whose sentences the table of parameters follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shared.chat.errors import BadRequest
from shared.chat.events import Source
from shared.chat.overrides import MAX_SEARCH_TEXT
from shared.http.json_encoding import Json
from shared.protocols.opensearch.errors import ParsingError
from shared.protocols.opensearch.memory_json import NEW, OLD, MemoryNames, read

MOST_PATTERNS, LONGEST_PATTERN = 50, 100


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Which fields of a hit are shown: those that a pattern includes and none excludes."""

    shown: bool = True
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def of(self, source: Json) -> Json:
        """The fields of a hit that are shown."""
        return {key: value for key, value in source.items() if self._shows(key)}

    def _shows(self, key: str) -> bool:
        included = not self.includes or any(fits(key, one) for one in self.includes)
        return included and not any(fits(key, one) for one in self.excludes)


def fits(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern says; `*` stands for anything, nothing else is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        position = name.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return at <= end


def parse_source_filter(body: Json, query: Mapping[str, str]) -> SourceFilter:
    """The filter of the query parameters or the body. Raises BadRequest."""
    value: Any = query.get("_source", body.get("_source", True))
    if value in ("true", "false", True, False):
        shown, value = value in ("true", True), {}
    else:
        shown = True
    if isinstance(value, str):
        value = {"includes": value.split(",")}
    if isinstance(value, list):
        value = {"includes": value}
    if not isinstance(value, Mapping):
        raise BadRequest("_source: must be true, false, a name, a list of names or an object")
    kinds = [
        _patterns(query.get(f"_source_{kind}", value.get(kind, value.get(kind[:-1], []))))
        for kind in ("includes", "excludes")
    ]
    return SourceFilter(shown, *kinds)


def _patterns(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest("_source: includes and excludes must be lists of names")
    if len(names) > MOST_PATTERNS or any(len(name) > LONGEST_PATTERN for name in names):
        raise BadRequest(
            f"_source: {MOST_PATTERNS} names at most, of {LONGEST_PATTERN} characters at most"
        )
    return tuple(names)


MOST_HITS = 50
MOST_INTERACTIONS = 100
LONGEST = 20_000  # characters of a pipeline's texts
RAG = "retrieval_augmented_generation"
EXT = "ext.generative_qa_parameters"
FORMS = "match, query_string, match_all, or neural with a query_text"


class Pipeline(BaseModel):
    """The one processor of a pipeline."""

    model_config = ConfigDict(strict=True, frozen=True)
    tag: str | None = Field(default=None, max_length=LONGEST)
    description: str = Field(max_length=LONGEST)
    model_id: str = Field(min_length=1, max_length=LONGEST)
    context_field_list: list[str] = Field(min_length=1, max_length=20)
    system_prompt: str | None = Field(default=None, max_length=LONGEST)
    user_instructions: str | None = Field(default=None, max_length=LONGEST)


class _Parameters(BaseModel):
    model_config = ConfigDict(strict=True)
    llm_question: str
    llm_model: str | None = None
    conversation_id: str | None = None
    memory_id: str | None = None
    context_size: int | None = Field(default=None, ge=1)
    interaction_size: int | None = Field(default=None, ge=0, le=MOST_INTERACTIONS)
    message_size: int | None = Field(default=None, ge=0, le=MOST_INTERACTIONS)
    timeout: float | None = Field(default=None, gt=0)


@dataclass(frozen=True, slots=True)
class Question:
    """What a model shall answer from the hits; `names` are those that its client uses.

    `contexts` is from how many hits, None for all; `interactions` how many of the conversation;
    `seconds` how long the model may take.
    """

    text: str
    model: str | None
    conversation: str | None
    contexts: int | None
    interactions: int
    seconds: float
    names: MemoryNames


@dataclass(frozen=True, slots=True)
class Search:
    """A search: the words, how many hits, which of their fields, and what to answer from them."""

    words: str
    size: int
    fields: SourceFilter
    question: Question | None


def pipeline(body: Json) -> Pipeline:
    """The processor of a pipeline's definition. Raises BadRequest."""
    processors = body.get("response_processors")
    if (
        not isinstance(processors, list)
        or len(processors) != 1
        or not isinstance(processors[0], Mapping)
    ):
        raise BadRequest(f"response_processors: must be a list of one object with {RAG}")
    others = [key for key in (*processors[0], *_phases(body)) if key != RAG]
    if others or RAG not in processors[0]:
        named = f" (not {others[0]})" if others else ""
        raise BadRequest(f"response_processors: {RAG} is the only processor here{named}")
    return read(Pipeline, processors[0][RAG], f"response_processors[0].{RAG}.")


def _phases(body: Mapping[str, Any]) -> list[str]:
    return [name for name in ("request_processors", "phase_results_processors") if body.get(name)]


def definition(processor: Pipeline) -> Json:
    """A pipeline's definition with that processor, and with nothing that does nothing here."""
    return {"response_processors": [{RAG: processor.model_dump(exclude_none=True)}]}


def search(body: Json, query: Mapping[str, str]) -> Search:
    """What a search asks, by its body and its query parameters. Raises BadRequest."""
    question = _question(body)
    field, words = "query", _words(body.get("query"))
    if words is None and "q" in query:
        field, words = "q", query["q"]
    if words is not None and len(words) > MAX_SEARCH_TEXT:
        raise BadRequest(f"{field}: must have {MAX_SEARCH_TEXT} characters at most")
    if words is None and question:
        words = question.text
    if words is None:
        raise ParsingError(f"query: is required without {EXT}.llm_question: {FORMS}")
    if _whole("from", query.get("from", body.get("from")), 0):
        raise BadRequest("from: is not possible here: ask for a larger size")
    size = _whole("size", query.get("size", body.get("size")), 10)
    if size > MOST_HITS:
        raise BadRequest(f"size: must be {MOST_HITS} or less")
    return Search(words, size, parse_source_filter(body, query), question)


def _whole(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest(f"{name}: must be a whole number, 0 or more")
    return int(text)


def _words(query: Any) -> str | None:
    """What is looked for; None where that is the question."""
    if query is None or query == {}:
        return None
    if not isinstance(query, Mapping) or len(query) != 1:
        raise ParsingError(f"query: must be an object with one of {FORMS}")
    ((form, inside),) = query.items()
    if form == "match_all":
        return None
    text = None
    if form in ("match", "neural") and isinstance(inside, Mapping) and len(inside) == 1:
        (text,) = inside.values()
        key = "query" if form == "match" else "query_text"
        text = text.get(key) if isinstance(text, Mapping) else text
    if form == "query_string" and isinstance(inside, Mapping):
        text = inside.get("query")
    if not isinstance(text, str):
        raise ParsingError(f"query: [{str(form)[:60]}] is not understood here: use {FORMS}")
    return text


def _question(body: Mapping[str, Any]) -> Question | None:
    ext = body.get("ext") or {}
    values = ext.get("generative_qa_parameters") if isinstance(ext, Mapping) else ext
    if values is None:
        return None
    parameters = read(_Parameters, values, f"{EXT}.")
    if not parameters.llm_question.strip():
        raise BadRequest(f"{EXT}.llm_question: must not be empty")
    if parameters.conversation_id is not None and parameters.memory_id is not None:
        raise BadRequest(f"{EXT}: conversation_id and memory_id are two names for one thing")
    is_new = bool({"memory_id", "message_size"} & values.keys())
    sizes = (parameters.interaction_size, parameters.message_size, 10)
    return Question(
        text=parameters.llm_question,
        model=parameters.llm_model,
        conversation=parameters.memory_id
        if parameters.conversation_id is None
        else parameters.conversation_id,
        contexts=parameters.context_size,
        interactions=next(size for size in sizes if size is not None),
        seconds=parameters.timeout or 30.0,
        names=NEW if is_new else OLD,
    )


def fields(source: Source) -> Json:
    """A passage as a document of an index."""
    return {
        "title": source.sourcefile.rpartition("/")[2],
        "text": source.content,
        "content": source.content,
        "sourcepage": source.sourcepage,
        "sourcefile": source.sourcefile,
        "category": source.category,
    }


def contexts(sources: Sequence[Source], names: Sequence[str]) -> list[str]:
    """What a pipeline tells a model of some passages: each of the fields that a passage has."""
    texts = (shown.get(name) for shown in map(fields, sources) for name in names)
    return [text for text in texts if isinstance(text, str) and text]


def answer(index: str, search: Search, sources: Sequence[Source], milliseconds: int) -> Json:
    """An ordinary search response."""
    hits = [_hit(index, search.fields, source) for source in sources]
    scores = [source.score for source in sources if source.score is not None]
    return {
        "took": milliseconds,
        "timed_out": False,
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {
            # A full page says nothing of what there is beyond it.
            "total": {"value": len(hits), "relation": "gte" if len(hits) == search.size else "eq"},
            "max_score": max(scores, default=None),
            "hits": hits,
        },
    }


def _hit(index: str, shown: SourceFilter, source: Source) -> Json:
    hit: Json = {"_index": index, "_id": source.id, "_score": source.score}
    return hit | ({"_source": shown.of(fields(source))} if shown.shown else {})


def generated(text: str, names: MemoryNames, interaction: str | None, warning: str | None) -> Json:
    """What a pipeline adds to a search response: the answer, and where it was stored."""
    stored = {names.interaction: interaction} if interaction else {}
    return {"ext": {RAG: {"answer": text, **stored, **({"warning": warning} if warning else {})}}}


def failed(sentence: str) -> Json:
    """What a pipeline adds to a search response where the model failed."""
    return {"ext": {RAG: {"error": sentence}}}
