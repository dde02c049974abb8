"""The prompt of an answer with the client's messages unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from shared.domain.events import Source
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.models.base import Model
from shared.rag.prompt import (
    BuiltPrompt,
    PromptBuilder,
    Prompts,
    append_sources,
    fit_sources,
    make_prompt,
    merge_neighbours,
    newest_turns,
    remaining_tokens,
)


def passthrough_room(
    request: ChatRequest, texts: Prompts, model: Model, lines: Iterable[str] = ()
) -> int:
    """Return the tokens left beside what must be there, the offered tools included.

    That is the app's instructions with the `lines` of sources, the client's instructions, and
    everything from the question on. Raises TooLong.
    """
    first = request.question_index
    before = (message for message in request.messages[:first] if message.role == "system")
    required = (*before, *request.messages[first:])
    generation = request.generation
    extras = (*generation.tools, generation.parameters.get("response_format"))
    as_text = [Message("system", json.dumps(extra)) for extra in extras if extra]
    system = _app_instructions(request, texts, lines)
    return remaining_tokens((*system, *required, *as_text), model)


def build_passthrough_prompt(
    request: ChatRequest, texts: Prompts, model: Model, sources: tuple[Source, ...]
) -> BuiltPrompt:
    """Build the prompt for an answer: the app's instructions and the sources, then the client's
    messages.

    Its `system` messages and everything from the question on are always there; what does not fit
    is left out of the turns before, oldest first, then of the sources. Raises TooLong.
    """
    room = passthrough_room(request, texts, model)
    fitted = fit_sources(sources, room, model)
    lines = [passage.prompt_line() for passage in merge_neighbours(fitted)]
    before = request.messages[: request.question_index]
    history = tuple(message for message in before if message.role != "system")
    newest = history
    if history:
        newest = newest_turns(history, passthrough_room(request, texts, model, lines), model)
    messages = _drop_oldest(len(history) - len(newest), request.messages)
    system = _app_instructions(request, texts, lines)
    return BuiltPrompt(make_prompt(request, (*system, *messages)), len(fitted))


def _drop_oldest(number: int, messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages without `number` of the oldest; instructions are never left out."""
    for message in messages:
        if message.role != "system" and number > 0:
            number -= 1
        else:
            yield message


def _app_instructions(
    request: ChatRequest, texts: Prompts, lines: Iterable[str]
) -> tuple[Message, ...]:
    """Return the app's instructions with the sources; none without a search, as they are about
    the sources."""
    if request.grounding == "none":
        return ()
    text = texts.answer if request.grounding == "required" else texts.beyond
    return (append_sources(Message("system", text), lines),)


PASSTHROUGH = PromptBuilder(passthrough_room, build_passthrough_prompt)
