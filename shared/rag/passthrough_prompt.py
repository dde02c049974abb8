"""The prompt where the client's messages go to the model unchanged, behind ours."""

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


def check(request: ChatRequest, _overrides: Overrides, texts: Prompts, model: Model) -> None:
    """Raise TooLong where a question does not fit the model even without sources and history."""
    _room(request, _system_message(request, texts, ()), model)


def build_prompt(
    request: ChatRequest,
    overrides: Overrides,
    texts: Prompts,
    model: Model,
    sources: tuple[Source, ...],
) -> BuiltPrompt:
    """The prompt for an answer: our instructions and the sources, then the client's messages.

    Its `system` messages and everything from the question on are always there; what does not fit
    is left out of the turns before, oldest first, then of the sources. Raises TooLong.
    """
    room = _room(request, _system_message(request, texts, ()), model)
    lines = prompts.fit_lines((source.prompt_line() for source in sources), room, model)
    system = _system_message(request, texts, lines)
    before = request.messages[: request.question_index]
    history = [each for each in before if each.role != "system"]
    newest = prompts.newest_turns(tuple(history), _room(request, system, model), model)
    messages = (*system, *_without(len(history) - len(newest), request.messages))
    return BuiltPrompt(prompts.make_prompt(request, messages, overrides), len(lines))


def _without(number: int, messages: Iterable[Message]) -> Iterator[Message]:
    """The same messages without so many of the oldest; instructions are never left out."""
    for message in messages:
        if message.role != "system" and number > 0:
            number -= 1
        else:
            yield message


def _system_message(
    request: ChatRequest, texts: Prompts, lines: Iterable[str]
) -> tuple[Message, ...]:
    """Our instructions with the sources. None without a search, as they are about the sources."""
    if request.search is None:
        return ()
    instructions = texts.answer if request.search.in_scope else texts.beyond
    return (prompts.append_sources(Message("system", instructions), lines),)


def _fixed(request: ChatRequest) -> list[Message]:
    """The client's instructions, and everything from the question on."""
    place = request.question_index
    return [it for i, it in enumerate(request.messages) if i >= place or it.role == "system"]


def _room(request: ChatRequest, system: Iterable[Message], model: Model) -> int:
    """The tokens left beside what must be there, the offered tools included."""
    generation = request.generation
    extras = (*generation.tools, generation.parameters.get("response_format"))
    as_text = [Message("system", json.dumps(extra)) for extra in extras if extra]
    return prompts.remaining_tokens((*system, *_fixed(request), *as_text), model)


PASSTHROUGH = PromptBuilder(check, build_prompt)
