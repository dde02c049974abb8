"""The prompt of an answer: instructions, passages, history, question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path

from shared.domain.errors import TooLong
from shared.domain.events import Source
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.models.base import Model, Prompt
from shared.retrieval.base import MAX_IMAGES

MESSAGE_TOKENS = 4  # of a message beside its text: its role and delimiters, as OpenAI counts
IMAGE_TOKENS = 800  # of one image: OpenAI counts 765 for 1024 by 1024 pixels
LABEL_TOKENS = 8  # of " (image 1)" behind a source's text
MIN_OVERLAP = 3  # words; fewer may be equal by chance

# An id ends with the number of its passage in the page: `...-p0-3` of ours, `..._pages_3` of the
# search service's own indexer.
_NUMBERED_ID = re.compile(r"(.*[-_])(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The instructions for the model: the files of `prompts/`, by name."""

    answer: str
    rewrite: str
    followups: str
    pipeline: str
    beyond: str  # replaces `answer` where the model may know more than the sources


def read_prompts(folder: Path) -> Prompts:
    """Read `answer.txt` and the other files that the fields are called by. Raises OSError."""
    names = [field.name for field in fields(Prompts)]
    return Prompts(*((folder / f"{name}.txt").read_text("utf-8").strip() for name in names))


def instructions(request: ChatRequest, texts: Prompts) -> Message:
    """Return the system message: the app's, or the request's template, or both if it begins with
    `>>>`; then the client's own instructions."""
    template = request.overrides.prompt_template or ""
    if template.startswith(">>>"):
        parts = [texts.answer, template[3:]]
    else:
        parts = [template or texts.answer]
    parts += request.instructions
    if request.overrides.suggest_followup_questions:
        parts.append(texts.followups)
    return Message("system", "\n".join(parts))


def split_turns(history: Iterable[Message]) -> list[list[Message]]:
    """Split the history into turns: a user's message and everything until the next one."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def count_message_tokens(messages: Iterable[Message], count: Callable[[str], int]) -> int:
    """Count the tokens of some messages, their frames included."""
    messages = tuple(messages)
    texts = [full_text(message) for message in messages]
    images = sum(len(message.images) for message in messages)
    return sum(map(count, texts)) + MESSAGE_TOKENS * len(texts) + IMAGE_TOKENS * images


def full_text(message: Message) -> str:
    """Return the text of a message and of its tool calls."""
    calls = (f"\n{call.name} {call.arguments}" for call in message.tool_calls)
    name = str((message.raw or {}).get("name") or "")
    return message.content + name + "".join(calls)


def newest_turns(history: tuple[Message, ...], room: int, model: Model) -> tuple[Message, ...]:
    """Return the newest whole turns that fit into `room` tokens, oldest first."""
    newest: list[list[Message]] = []
    for turn in reversed(split_turns(history)):
        room -= count_message_tokens(turn, model.count)
        if room < 0:
            break
        newest.append(turn)
    return tuple(chain.from_iterable(reversed(newest)))


def append_sources(question: Message, lines: Iterable[str]) -> Message:
    """Append a line `sourcepage: content` for each source to the question."""
    return replace(question, content=f"{question.content}\n\nSources:\n" + "\n".join(lines))


def remaining_tokens(messages: Iterable[Message], model: Model) -> int:
    """Return how many tokens are left beside these messages. Raises TooLong if they do not fit."""
    room = model.max_prompt_tokens - count_message_tokens(messages, model.count)
    if room < 0:
        raise TooLong(
            f"The question is too long for the model, which takes {model.max_prompt_tokens} "
            f"tokens with its instructions (an image counts {IMAGE_TOKENS}). Ask a shorter one."
        )
    return room


def count_source_tokens(source: Source, model: Model, captions: bool = False) -> int:
    """Count the tokens of a source on its line."""
    return model.count(f"{source.prompt_line(captions)}\n")


def fit_sources(
    sources: Sequence[Source], room: int, model: Model, captions: bool = False
) -> tuple[Source, ...]:
    """Return the first sources that fit into `room` tokens together, each on its line."""
    for number, source in enumerate(sources):
        room -= count_source_tokens(source, model, captions)
        if room < 0:
            return tuple(sources[:number])
    return tuple(sources)


def merge_neighbours(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Merge passages that follow each other, carry the same citation and repeat some text.

    That are the passages of one section, which repeat its headings, and those that overlap: what
    both contain stands there once. `sources` are in the order of their rank; a merged passage has
    the rank of its best one. A passage with an image is not merged.
    """
    runs: list[list[Source]] = []
    for source in sorted(sources, key=_position):
        if runs and _is_continued(runs[-1][-1], source):
            runs[-1].append(source)
        else:
            runs.append([source])
    ranks = {source.id: rank for rank, source in enumerate(sources)}
    runs.sort(key=lambda run: min(ranks[source.id] for source in run))
    return tuple(map(_merge, runs))


def _position(source: Source) -> tuple[str, str, int]:
    match = _NUMBERED_ID.fullmatch(source.id)
    prefix, number = (match[1], int(match[2])) if match else (source.id, 0)
    return source.sourcepage, prefix, number


def _is_continued(source: Source, following: Source) -> bool:
    page, prefix, number = _position(source)
    if not page or _position(following) != (page, prefix, number + 1):
        return False
    if source.image or following.image:
        return False
    return _without_repetition(source.content, following.content) != following.content


def _merge(run: Sequence[Source]) -> Source:
    first, *rest = run
    texts = [first.content]
    for source, following in zip(run, rest, strict=False):
        texts.append(_without_repetition(source.content, following.content))
    return replace(first, content="\n".join(texts))


def _without_repetition(text: str, following: str) -> str:
    """Return what follows a text, without the headings and the overlap that it repeats."""
    headings, separator, body = following.partition("\n\n")
    if separator and text.startswith(headings + separator):
        following = body
    before, after = text.split(), following.split()
    for length in range(min(len(before), len(after)), MIN_OVERLAP - 1, -1):
        if before[-length:] == after[:length]:
            return " ".join(after[length:])
    return following


@dataclass(frozen=True, slots=True)
class BuiltPrompt:
    """A prompt for an answer."""

    prompt: Prompt
    fitted: int  # how many of the first sources are in it
    images: tuple[str, ...] = ()  # the URLs of those of the sources in it


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """One way to build the prompt for an answer, of a request that is fitted to the model."""

    # Returns the tokens left for sources and history. Both functions raise TooLong.
    room: Callable[[ChatRequest, Prompts, Model], int]
    build: Callable[[ChatRequest, Prompts, Model, tuple[Source, ...]], BuiltPrompt]


def composed_room(request: ChatRequest, texts: Prompts, model: Model) -> int:
    """Return the tokens left beside instructions and question. Raises TooLong."""
    question = append_sources(request.messages[-1], ())
    return remaining_tokens((instructions(request, texts), question), model)


def build_prompt(
    request: ChatRequest, texts: Prompts, model: Model, sources: tuple[Source, ...]
) -> BuiltPrompt:
    """Build the prompt for an answer.

    Instructions and question come first, then sources, their images, then the newest turns of the
    history: what does not fit is left out in the opposite order. Raises TooLong.
    """
    system, question = instructions(request, texts), request.messages[-1]
    captions = bool(request.overrides.semantic_captions)
    room = remaining_tokens((system, append_sources(question, ())), model)
    fitted = fit_sources(sources, room, model, captions)
    passages = fitted if captions else merge_neighbours(fitted)
    lines = [passage.prompt_line(captions) for passage in passages]
    final = append_sources(question, lines)
    if any(passage.image for passage in passages):
        shown = fit_images(passages, remaining_tokens((system, final), model))
        final = append_images(question, lines, shown, request.overrides.gpt4v_input == "images")
    history = request.history
    if history:
        history = newest_turns(history, remaining_tokens((system, final), model), model)
    images = final.images[len(question.images) :]
    return BuiltPrompt(make_prompt(request, (system, *history, final)), len(fitted), images)


def make_prompt(request: ChatRequest, messages: tuple[Message, ...]) -> Prompt:
    """Make the prompt of these messages, with the request's options for the model."""
    temperature, seed = request.overrides.temperature or 0.0, request.overrides.seed
    generation = request.generation
    return Prompt("answer", messages, temperature, seed, generation.tools, generation.parameters)


def fit_images(sources: Iterable[Source], room: int) -> dict[int, Source]:
    """Return the sources whose images fit into `room` tokens, by their indexes."""
    with_image = [(index, source) for index, source in enumerate(sources) if source.image]
    return dict(with_image[: min(MAX_IMAGES, room // (IMAGE_TOKENS + LABEL_TOKENS))])


def append_images(
    question: Message, lines: Iterable[str], shown: Mapping[int, Source], only_images: bool
) -> Message:
    """Append sources and their images to the question; each line says which image is its own.

    `only_images`: the image replaces the source's text.
    """
    texts, first = list(lines), len(question.images) + 1  # the user's own come before
    for number, (index, source) in enumerate(shown.items(), first):
        text = f"{source.sourcepage}:" if only_images else texts[index]
        texts[index] = f"{text} (image {number})"
    images = tuple(source.image for source in shown.values() if source.image)
    return replace(append_sources(question, texts), images=question.images + images)


def build_rewrite_prompt(request: ChatRequest, texts: Prompts, model: Model) -> Prompt:
    """Build the prompt for a search query that makes sense without the history."""
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


COMPOSED = PromptBuilder(composed_room, build_prompt)
