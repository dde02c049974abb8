"""The prompt of an answer, composed or with the client's messages unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path

from shared.chat.errors import TooLong
from shared.chat.events import Source
from shared.chat.messages import Message
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest
from shared.models.base import Model, Prompt
from shared.retrieval.base import MAX_IMAGES

# What a message costs beside its text: its role and the marks around it (OpenAI's own count).
MESSAGE_TOKENS = 4
IMAGE_TOKENS = 800  # of one image: OpenAI counts 765 for 1024 by 1024 pixels
LABEL_TOKENS = 8  # of " (image 1)" behind a source's text


@dataclass(frozen=True, slots=True)
class Prompts:
    """The instructions for the model: the files of `prompts/`, by name.

    `beyond` replaces `answer` where the model may know more than the sources.
    """

    answer: str
    rewrite: str
    followups: str
    pipeline: str
    beyond: str


def read_prompts(folder: Path) -> Prompts:
    """Read `answer.txt` and the other files that the fields are called by. Raises OSError."""
    names = [field.name for field in fields(Prompts)]
    return Prompts(*((folder / f"{name}.txt").read_text("utf-8").strip() for name in names))


def instructions(texts: Prompts, request: ChatRequest, overrides: Overrides) -> Message:
    """The system message: ours, or the request's template, or ours with the template behind it."""
    template = overrides.prompt_template or ""
    ours = (texts.answer, template[3:]) if template.startswith(">>>") else (template,)
    parts = [*(ours if template else (texts.answer,)), *request.instructions]
    if overrides.suggest_followup_questions:
        parts.append(texts.followups)
    return Message("system", "\n".join(parts))


def split_turns(history: Iterable[Message]) -> list[list[Message]]:
    """The history in turns: a user's message and everything until the next one."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def count_message_tokens(messages: Iterable[Message], count: Callable[[str], int]) -> int:
    """Tokens of some messages, their frames included."""
    return sum(
        count(full_text(message)) + MESSAGE_TOKENS + len(message.images) * IMAGE_TOKENS
        for message in messages
    )


def full_text(message: Message) -> str:
    """The text of a message and of its tool calls."""
    calls = (f"\n{call.name} {call.arguments}" for call in message.tool_calls)
    name = str((message.raw or {}).get("name") or "")
    return message.content + name + "".join(calls)


def newest_turns(history: tuple[Message, ...], room: int, model: Model) -> tuple[Message, ...]:
    """The newest whole turns that fit into `room` tokens, oldest first."""
    newest: list[list[Message]] = []
    for turn in reversed(split_turns(history)):
        room -= count_message_tokens(turn, model.count)
        if room < 0:
            break
        newest.append(turn)
    return tuple(chain.from_iterable(reversed(newest)))


def append_sources(question: Message, lines: Iterable[str]) -> Message:
    """The question, followed by a line `sourcepage: content` for each source."""
    return replace(question, content=f"{question.content}\n\nSources:\n" + "\n".join(lines))


def remaining_tokens(messages: Iterable[Message], model: Model) -> int:
    """How many tokens are left beside these messages. Raises TooLong where they do not fit."""
    room = model.max_prompt_tokens - count_message_tokens(messages, model.count)
    if room < 0:
        raise TooLong(
            f"The question is too long for the model, which takes {model.max_prompt_tokens} "
            f"tokens with its instructions (an image counts {IMAGE_TOKENS}). Ask a shorter one."
        )
    return room


def fit_lines(lines: Iterable[str], room: int, model: Model) -> list[str]:
    """The first lines that fit into `room` tokens together."""
    fitting: list[str] = []
    for line in lines:
        room -= model.count(f"{line}\n")
        if room < 0:
            break
        fitting.append(line)
    return fitting


def check(request: ChatRequest, overrides: Overrides, texts: Prompts, model: Model) -> None:
    """Raise TooLong where a question does not fit the model even without sources and history."""
    _bare(request, instructions(texts, request, overrides), model)


def _bare(request: ChatRequest, system: Message, model: Model) -> int:
    """The room beside instructions and question. Raises TooLong."""
    return remaining_tokens((system, append_sources(request.messages[-1], ())), model)


@dataclass(frozen=True, slots=True)
class BuiltPrompt:
    """A prompt for an answer; it has the first `fitted` sources and these `images` of theirs."""

    prompt: Prompt
    fitted: int
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """One way to build the prompt for an answer; `check` raises TooLong before anything is
    searched."""

    check: Callable[[ChatRequest, Overrides, Prompts, Model], None]
    build: Callable[[ChatRequest, Overrides, Prompts, Model, tuple[Source, ...]], BuiltPrompt]


def build_prompt(
    request: ChatRequest,
    overrides: Overrides,
    texts: Prompts,
    model: Model,
    sources: tuple[Source, ...],
) -> BuiltPrompt:
    """The prompt for an answer.

    Instructions and question come first, then sources, their images, then the newest turns of the
    history: what does not fit is left out in the opposite order. Raises TooLong.
    """
    system, question = instructions(texts, request, overrides), request.messages[-1]
    room = _bare(request, system, model)
    captions = bool(overrides.semantic_captions)
    lines = fit_lines((source.prompt_line(captions) for source in sources), room, model)
    room = remaining_tokens((system, append_sources(question, lines)), model)
    shown = fit_images(sources[: len(lines)], room)
    final = append_images(question, lines, shown, overrides.gpt4v_input == "images")
    history = newest_turns(request.history, remaining_tokens((system, final), model), model)
    messages = (system, *history, final)
    return BuiltPrompt(
        make_prompt(request, messages, overrides), len(lines), tuple(image_urls(shown))
    )


def make_prompt(
    request: ChatRequest, messages: tuple[Message, ...], overrides: Overrides
) -> Prompt:
    """The prompt of these messages, with the request's options for the model."""
    temperature, seed = overrides.temperature or 0.0, overrides.seed
    generation = request.generation
    return Prompt("answer", messages, temperature, seed, generation.tools, generation.parameters)


def image_urls(shown: Mapping[int, Source]) -> list[str]:
    """The images of some sources."""
    return [source.image for source in shown.values() if source.image]


def fit_images(sources: Iterable[Source], room: int) -> dict[int, Source]:
    """The sources whose images fit into `room` tokens, by their places."""
    with_image = [(place, source) for place, source in enumerate(sources) if source.image]
    return dict(with_image[: min(MAX_IMAGES, room // (IMAGE_TOKENS + LABEL_TOKENS))])


def append_images(
    question: Message, lines: Iterable[str], shown: Mapping[int, Source], only_images: bool
) -> Message:
    """The question with its sources and their images; each line says which image is its own.

    `only_images`: the image replaces the source's text.
    """
    texts, first = list(lines), len(question.images) + 1  # the user's own come before
    for number, (place, source) in enumerate(shown.items(), first):
        text = f"{source.sourcepage}:" if only_images else texts[place]
        texts[place] = f"{text} (image {number})"
    return replace(
        append_sources(question, texts), images=question.images + tuple(image_urls(shown))
    )


def build_rewrite_prompt(request: ChatRequest, texts: Prompts, model: Model) -> Prompt:
    """The prompt for a search query that makes sense without the history."""
    system = Message("system", texts.rewrite)
    question = Message("user", request.question)
    # Text only: a model to which no tool is offered may refuse tool messages.
    turns = tuple(
        Message(each.role, each.content)
        for each in request.history
        if each.role != "tool" and each.content.strip()
    )
    history = newest_turns(turns, remaining_tokens((system, question), model), model)
    return Prompt("rewrite", (system, *history, question), temperature=0.0)


COMPOSED = PromptBuilder(check, build_prompt)


def check_passthrough(
    request: ChatRequest, _overrides: Overrides, texts: Prompts, model: Model
) -> None:
    """Raise TooLong where a question does not fit the model even without sources and history."""
    _room(request, _system_message(request, texts, ()), model)


def build_passthrough_prompt(
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
    lines = fit_lines((source.prompt_line() for source in sources), room, model)
    system = _system_message(request, texts, lines)
    before = request.messages[: request.question_index]
    history = [each for each in before if each.role != "system"]
    newest = newest_turns(tuple(history), _room(request, system, model), model)
    messages = (*system, *_without(len(history) - len(newest), request.messages))
    return BuiltPrompt(make_prompt(request, messages, overrides), len(lines))


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
    if request.grounding == "none":
        return ()
    instructions = texts.answer if request.grounding == "required" else texts.beyond
    return (append_sources(Message("system", instructions), lines),)


def _fixed(request: ChatRequest) -> list[Message]:
    """The client's instructions, and everything from the question on."""
    place = request.question_index
    return [it for i, it in enumerate(request.messages) if i >= place or it.role == "system"]


def _room(request: ChatRequest, system: Iterable[Message], model: Model) -> int:
    """The tokens left beside what must be there, the offered tools included."""
    generation = request.generation
    extras = (*generation.tools, generation.parameters.get("response_format"))
    as_text = [Message("system", json.dumps(extra)) for extra in extras if extra]
    return remaining_tokens((*system, *_fixed(request), *as_text), model)


PASSTHROUGH = PromptBuilder(check_passthrough, build_passthrough_prompt)
