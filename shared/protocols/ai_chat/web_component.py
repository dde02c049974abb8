"""Answers of the oldest version for the web component of azure-search-openai-javascript.

It sends `context.approach`, and reads other forms than the document describes: the context in
`message`, thoughts as one string of HTML, and follow-up questions as `<<question>>` in the text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from shared.domain.events import (
    Answer,
    Context,
    Delta,
    Done,
    Event,
    Events,
    Source,
    Step,
)
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.http.call import Json
from shared.protocols.ai_chat import response
from shared.protocols.handler import ChatProtocol, Stream


def is_web_component(body: Any) -> bool:
    """Return whether a request's body is the web component's."""
    context = body.get("context") if isinstance(body, dict) else None
    return isinstance(context, dict) and isinstance(context.get("approach"), str)


def adapt(protocol: ChatProtocol) -> ChatProtocol:
    """Return the oldest version of the protocol as the web component reads it."""
    return replace(protocol, write_answer=write_answer, write_stream=write_stream)


def write_answer(request: ChatRequest, result: Answer) -> Json:
    """Return an answer."""
    content = result.content + "".join(mark_questions(result.done.followups or ()))
    envelope = response.write_rag_chat_answer(request, replace(result, content=content))
    return _with_context("message", envelope, result.context)


def write_stream(request: ChatRequest, events: Events) -> Stream:
    """Encode a stream as JSON lines."""
    return response.write_stream(write_chunk, request, _with_questions(events))


def write_chunk(request: ChatRequest, context: Context, event: Event) -> Json | None:
    """Return a line of a stream."""
    envelope = response.write_rag_chat_chunk(request, context, event)
    if envelope is None or not isinstance(event, Context):
        return envelope
    return _with_context("delta", envelope, event)


def _with_context(key: str, envelope: Json, context: Context) -> Json:
    (choice,) = envelope["choices"]
    thoughts = {"thoughts": format_thoughts(context.steps)} if context.shows_steps else {}
    inner = {**choice["context"], **thoughts}
    choice = {**choice, key: {**choice[key], "context": inner}, "context": inner}
    return {**envelope, "choices": [choice]}


async def _with_questions(events: Events) -> Events:
    """Yield the same events, and the follow-up questions as text before the last one."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Done):
                for piece in mark_questions(event.followups or ()):
                    yield Delta(piece)
            yield event


def mark_questions(questions: Sequence[str]) -> Iterator[str]:
    """Yield questions in double brackets.

    The component takes a question to begin after the piece with `<<` and to end with `>` and a line
    feed in one piece, and ignores a piece with a digit: so a piece is a mark, or one word.
    """
    for number, question in enumerate(questions):
        yield "<<" if number else "\n<<"
        yield from re.findall(r"\s*\S+", question)
        yield ">>\n"


def format_thoughts(steps: Sequence[Step]) -> str:
    """Return the steps as HTML. All text in it is escaped: the component inserts it unchanged."""
    texts = (f"{step.title}:\n{_describe(step)}" for step in steps)
    return html.escape("\n\n".join(texts)).replace("\n", "<br>")


def _describe(step: Step) -> str:
    if isinstance(step.description, str):
        return step.description
    return "\n".join(map(_describe_part, step.description))


def _describe_part(part: str | Source | Message) -> str:
    match part:
        case Source():
            return part.sourcepage
        case Message():
            return f"{part.role}: {part.content}"
        case _:
            return part
