"""How each protocol asks a question, and where its answers have their text, end and error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.app import ROUTES

Turns = Sequence[tuple[str, str]]  # the questions and answers of a session so far
RAG = "retrieval_augmented_generation"


@dataclass(frozen=True, slots=True)
class Question:
    """A question in a session; `conversation` is the id of its stored conversation, if any."""

    text: str
    turns: Turns
    conversation: str | None
    streams: bool

    @property
    def message(self) -> list[dict[str, str]]:
        """The question alone, for an app that stores the history."""
        return [{"role": "user", "content": self.text}]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The question with its history."""
        roles = ("user", "assistant")
        history = [zip(roles, turn, strict=True) for turn in self.turns]
        pairs = [{"role": role, "content": text} for turn in history for role, text in turn]
        return pairs + self.message

    @property
    def state(self) -> dict[str, str | None]:
        """The state that asks to store the answer."""
        return {"conversation_id": self.conversation}


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol: the request of a question, and whether a JSON value is its error.

    `stream_path` is for streams, None if there are none.
    """

    name: str
    path: str
    stream_path: str | None
    body: Callable[[Question], dict[str, Any]]
    is_error: Callable[[Any], bool]

    def path_of(self, question: Question) -> str:
        """The path to which a question is sent."""
        return (self.stream_path if question.streams else None) or self.path


def find(value: Any, key: str) -> Iterator[Any]:
    """The values of a key anywhere in a JSON value."""
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict) and key in value:
        yield value[key]
    if isinstance(value, dict | list):
        for child in children:
            yield from find(child, key)


def text_of(value: Any) -> str:
    """The text of an answer, or of an event of a stream."""
    if "ext" in value:
        return str(value["ext"][RAG].get("answer", ""))
    part = (value.get("choices") or [value])[0]
    text = part.get("output_text") or part.get("delta") or part.get("message") or {}
    return str(text if isinstance(text, str) else text.get("content") or "")


def is_end(value: Any) -> bool:
    """Whether an event is the last one of a whole answer."""
    return any(find(value, "finish_reason"))


def read_line(line: bytes) -> Any:
    """The event in a line of a stream; None in a line without one."""
    data = line.strip().removeprefix(b"data: ")
    return json.loads(data) if data and data != b"[DONE]" else None


def _is_sentence(value: Any) -> bool:
    return isinstance(value.get("error"), str)


def _is_openai_error(value: Any) -> bool:
    error = value.get("error")
    return isinstance(error, dict) and error.keys() == {"message", "type", "param", "code"}


def _is_aog_error(value: Any) -> bool:
    return isinstance(value.get("business_code"), int) and isinstance(value.get("message"), str)


def _is_opensearch_error(value: Any) -> bool:
    beside_hits = value.get("ext", {}).get(RAG, {}).get("error")
    return isinstance(beside_hits, str) or "root_cause" in value.get("error", {})


def _with_history(question: Question) -> dict[str, Any]:
    return {"messages": question.messages, "stream": question.streams}


def _search(question: Question) -> dict[str, Any]:
    parameters = {"llm_question": question.text, "memory_id": question.conversation}
    ext = {"generative_qa_parameters": parameters}
    return {"size": 3, "query": {"match": {"text": question.text}}, "ext": ext}


AOG_PATH, OPENAI_PATH = "/aog/v0.2/services/chat", "/v1/chat/completions"
SEARCH = Protocol("OpenSearch", "/_search", None, _search, _is_opensearch_error)
EVERY_PROTOCOL = (
    Protocol(
        "AI chat, sessionState",
        "/chat",
        "/chat/stream",
        lambda it: {"messages": it.message, "sessionState": it.state},
        _is_sentence,
    ),
    Protocol(
        "AI chat, session_state",
        "/chat",
        "/chat/stream",
        lambda it: {"messages": it.message, "session_state": it.state},
        _is_sentence,
    ),
    Protocol(
        "AI chat, stream key",
        "/chat",
        "/chat",
        lambda it: {"messages": it.message, "session_state": it.state, "stream": it.streams},
        _is_sentence,
    ),
    Protocol(
        "AI chat, input",
        "/chat",
        "/chat/stream",
        lambda it: {"input": it.message, "session_state": it.state},
        _is_sentence,
    ),
    Protocol("AI chat, /ask", "/ask", "/ask", _with_history, _is_sentence),
    Protocol("AOG", AOG_PATH, AOG_PATH, _with_history, _is_aog_error),
    Protocol("OpenAI", OPENAI_PATH, OPENAI_PATH, _with_history, _is_openai_error),
    SEARCH,
)
ROOTS = {route.split("/")[1] for route in ROUTES}
PROTOCOLS = [each for each in EVERY_PROTOCOL if each.path.split("/")[1] in ROOTS]
HAS_MEMORY_ROUTES = "_plugins" in ROOTS  # a protocol can be deleted
