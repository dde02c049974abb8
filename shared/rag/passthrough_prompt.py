"""What a model is told where the messages are its client's as they are: ours is one in front."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from shared.chat.events import Source
from shared.chat.messages import Message
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest
from shared.models.base import Model
from shared.rag import prompt as prompts
from shared.rag.prompt import BuiltPrompt, PromptBuilder, Prompts


def check(request: ChatRequest, _overrides: Overrides, words: Prompts, model: Model) -> None:
    """Raise TooLong where a question does not fit the model even without sources and history."""
    _room(request, _in_front(request, words, ()), model)


def for_answer(
    request: ChatRequest,
    overrides: Overrides,
    words: Prompts,
    model: Model,
    sources: tuple[Source, ...],
) -> BuiltPrompt:
    """The prompt for an answer: our instructions and the sources, then the client's messages.

    Its `system` messages and everything from the question on are always there; what does not fit
    is left out of the turns before, oldest first, then of the sources. Raises TooLong.
    """
    room = _room(request, _in_front(request, words, ()), model)
    lines = prompts.fitting((source.prompt_line() for source in sources), room, model)
    system = _in_front(request, words, lines)
    before = [said for said in request.messages[: request.question_index] if said.role != "system"]
    kept = prompts.newest(tuple(before), _room(request, system, model), model)
    messages = (*system, *_without(len(before) - len(kept), request.messages))
    return BuiltPrompt(prompts.asking(request, messages, overrides), len(lines))


def _without(number: int, messages: Iterable[Message]) -> Iterator[Message]:
    """The same messages without so many of the oldest; instructions are never left out."""
    for message in messages:
        if message.role != "system" and number > 0:
            number -= 1
        else:
            yield message


def _in_front(request: ChatRequest, words: Prompts, lines: Iterable[str]) -> tuple[Message, ...]:
    """Our message. Without retrieval there is none: ours are about the sources."""
    if request.search is None:
        return ()
    told = words.answer if request.search.in_scope else words.beyond
    return (prompts.with_sources(Message("system", told), lines),)


def _fixed(request: ChatRequest) -> list[Message]:
    """The client's instructions, and everything from the question on."""
    place = request.question_index
    return [said for i, said in enumerate(request.messages) if i >= place or said.role == "system"]


def _room(request: ChatRequest, system: Iterable[Message], model: Model) -> int:
    """The tokens beside what must be there, the tools that are offered among it."""
    form = request.generation.parameters.get("response_format")
    offered = [Message("system", json.dumps(it)) for it in (*request.generation.tools, form) if it]
    return prompts.room_for((*system, *_fixed(request), *offered), model)


PASSTHROUGH = PromptBuilder(check, for_answer)
