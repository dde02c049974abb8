"""What the model is told: instructions, history within its token budget, sources, question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

# What a message costs beside its words: its role and the marks around it (OpenAI's own count).
MESSAGE_TOKENS = 4
IMAGE_TOKENS = 800  # of one image: OpenAI counts 765 for 1024 by 1024 pixels
LABEL_TOKENS = 8  # of " (image 1)" behind a source's text


@dataclass(frozen=True, slots=True)
class Prompts:
    """The words told to the model: the files of `prompts/`, by name.

    `beyond` stands for `answer` where the model may know more than the sources.
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


def instructions(words: Prompts, request: ChatRequest, overrides: Overrides) -> Message:
    """The system message: ours, or the request's template, or ours with the template behind it."""
    template = overrides.prompt_template or ""
    ours = (words.answer, template[3:]) if template.startswith(">>>") else (template,)
    parts = [*(ours if template else (words.answer,)), *request.instructions]
    if overrides.suggest_followup_questions:
        parts.append(words.followups)
    return Message("system", "\n".join(parts))


def turns(history: Iterable[Message]) -> list[list[Message]]:
    """History cut into turns: what a user said, and everything said until the next user."""
    found: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not found:
            found.append([])
        found[-1].append(message)
    return found


def cost(messages: Iterable[Message], count: Callable[[str], int]) -> int:
    """Tokens of some messages, their frames included."""
    return sum(
        count(said(message)) + MESSAGE_TOKENS + len(message.images) * IMAGE_TOKENS
        for message in messages
    )


def said(message: Message) -> str:
    """All that a message says, its calls of tools too."""
    called = (f"\n{call.name} {call.arguments}" for call in message.tool_calls)
    name = str((message.raw or {}).get("name") or "")
    return message.content + name + "".join(called)


def newest(history: tuple[Message, ...], room: int, model: Model) -> tuple[Message, ...]:
    """The newest whole turns that fit into `room` tokens, oldest first."""
    kept: list[list[Message]] = []
    for turn in reversed(turns(history)):
        room -= cost(turn, model.count)
        if room < 0:
            break
        kept.append(turn)
    return tuple(chain.from_iterable(reversed(kept)))


def with_sources(question: Message, lines: Iterable[str]) -> Message:
    """The question as the model gets it: its words, then a line `sourcepage: content` a source."""
    return replace(question, content=f"{question.content}\n\nSources:\n" + "\n".join(lines))


def room_for(messages: Iterable[Message], model: Model) -> int:
    """How many tokens are left beside these messages. Raises TooLong where they do not fit."""
    room = model.max_prompt_tokens - cost(messages, model.count)
    if room < 0:
        raise TooLong(
            f"The question is too long for the model, which takes {model.max_prompt_tokens} "
            f"tokens with its instructions (an image counts {IMAGE_TOKENS}). Ask a shorter one."
        )
    return room


def fitting(lines: Iterable[str], room: int, model: Model) -> list[str]:
    """The first lines that fit into `room` tokens together."""
    kept: list[str] = []
    for line in lines:
        room -= model.count(f"{line}\n")
        if room < 0:
            break
        kept.append(line)
    return kept


def check(request: ChatRequest, overrides: Overrides, words: Prompts, model: Model) -> None:
    """Raise TooLong where a question does not fit the model even without sources and history."""
    _bare(request, instructions(words, request, overrides), model)


def _bare(request: ChatRequest, system: Message, model: Model) -> int:
    """The room beside instructions and question. Raises TooLong."""
    return room_for((system, with_sources(request.messages[-1], ())), model)


@dataclass(frozen=True, slots=True)
class BuiltPrompt:
    """A prompt for an answer, and what it shows of the sources: the first `fitted`, `images`."""

    prompt: Prompt
    fitted: int
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """One way to build the prompt for an answer; `check` raises TooLong before anything is
    searched."""

    check: Callable[[ChatRequest, Overrides, Prompts, Model], None]
    build: Callable[[ChatRequest, Overrides, Prompts, Model, tuple[Source, ...]], BuiltPrompt]


def for_answer(
    request: ChatRequest,
    overrides: Overrides,
    words: Prompts,
    model: Model,
    sources: tuple[Source, ...],
) -> BuiltPrompt:
    """The prompt for an answer.

    Instructions and question come first, then sources, their images, then the newest turns of the
    history: what does not fit is left out in the opposite order. Raises TooLong.
    """
    system, question = instructions(words, request, overrides), request.messages[-1]
    room = _bare(request, system, model)
    captions = bool(overrides.semantic_captions)
    lines = fitting((source.prompt_line(captions) for source in sources), room, model)
    room = room_for((system, with_sources(question, lines)), model)
    seen = pictured(sources[: len(lines)], room)
    asked = with_images(question, lines, seen, overrides.gpt4v_input == "images")
    history = newest(request.history, room_for((system, asked), model), model)
    messages = (system, *history, asked)
    return BuiltPrompt(asking(request, messages, overrides), len(lines), tuple(images_of(seen)))


def asking(request: ChatRequest, messages: tuple[Message, ...], overrides: Overrides) -> Prompt:
    """The prompt for an answer that these messages make, with what the request asks beside it."""
    temperature, seed = overrides.temperature or 0.0, overrides.seed
    generation = request.generation
    return Prompt("answer", messages, temperature, seed, generation.tools, generation.parameters)


def images_of(seen: Mapping[int, Source]) -> list[str]:
    """The images of some sources."""
    return [source.image for source in seen.values() if source.image]


def pictured(sources: Iterable[Source], room: int) -> dict[int, Source]:
    """The sources whose images fit into `room` tokens, by their places."""
    found = [(place, source) for place, source in enumerate(sources) if source.image]
    return dict(found[: min(MAX_IMAGES, room // (IMAGE_TOKENS + LABEL_TOKENS))])


def with_images(
    question: Message, lines: Iterable[str], seen: Mapping[int, Source], alone: bool
) -> Message:
    """The question with its sources and their images; each line says which image is its own.

    `alone`: the image stands for the source's text.
    """
    told, first = list(lines), len(question.images) + 1  # the user's own come before
    for number, (place, source) in enumerate(seen.items(), first):
        text = f"{source.sourcepage}:" if alone else told[place]
        told[place] = f"{text} (image {number})"
    return replace(with_sources(question, told), images=question.images + tuple(images_of(seen)))


def for_rewrite(request: ChatRequest, words: Prompts, model: Model) -> Prompt:
    """The prompt for a search query that says what the question leaves to the turns before it."""
    system = Message("system", words.rewrite)
    question = Message("user", request.question)
    # Words alone: a model to which no tool is offered may refuse what tools said.
    said = tuple(
        Message(each.role, each.content)
        for each in request.history
        if each.role != "tool" and each.content.strip()
    )
    history = newest(said, room_for((system, question), model), model)
    return Prompt("rewrite", (system, *history, question), temperature=0.0)


COMPOSED = PromptBuilder(check, for_answer)
