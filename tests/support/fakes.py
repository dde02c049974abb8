"""The only doubles: a model and a retriever that follow a script and record their calls.

`FakeModel` is scripted by a test in the same process. `command_model` makes a model for a server
in another process (`CHAT_MODEL=tests.support.fakes:command_model`): the question contains the
commands that it executes.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

from shared.domain import errors
from shared.domain.events import Delta, Done, Source, Usage
from shared.domain.messages import ToolCall
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.memory.base import (
    Conversation,
    Conversations,
    GeneratedId,
    Interaction,
    Interactions,
    PageRequest,
    Turn,
)
from shared.models.base import Model, ModelStream, Prompt
from shared.models.router import Router
from shared.rag.inputs import Rag
from shared.rag.prompt import Prompts
from shared.rag.search import select_search_step
from shared.retrieval.base import WHOLE_FILE, FilePart, IndexStatistics, SearchResult
from shared.settings import Settings

ScriptStep = Delta | Done | BaseException | asyncio.Event

PLUS = Source(
    id="plus-2",
    content="Health Plus adds dental care.\nIt pays for crowns.",
    sourcepage="plans/plus.pdf#page=2",
    sourcefile="plans/plus.pdf",
    category="plans",
    score=2.5,
)
STANDARD = Source(
    id="standard-1",
    content="Standard has no dental care.",
    sourcepage="plans/standard.md",
    sourcefile="plans/standard.md",
    category="plans",
    score=1.25,
)
USAGE = Usage(prompt_tokens=40, completion_tokens=9)
ANSWER = (Delta("Dental care "), Delta("[plans/plus.pdf#page=2]."), Done("stop", usage=USAGE))
PROMPTS = Prompts(
    answer="Answer.",
    rewrite="Rewrite.",
    followups="Ask <<more?>>",
    pipeline="Search.",
    beyond="Answer beyond.",
)


class FakeModel:
    """Plays a script: yields events, raises exceptions and awaits asyncio.Events.

    A script that begins with an exception rejects the prompt. A rewrite returns `query`.
    """

    name = "fake"

    def __init__(
        self,
        script: Sequence[ScriptStep] = ANSWER,
        query: ScriptStep | str = "dental care in Health Plus",
        limits: Mapping[str, str] | None = None,
        max_prompt_tokens: int = 1000,
    ) -> None:
        self.script, self.query = script, query
        self.limits = limits or {}
        self.max_prompt_tokens = max_prompt_tokens
        self.calls: list[Prompt] = []
        self.open_streams = 0

    def count(self, text: str) -> int:
        return len(text.split())

    async def ready(self) -> None:
        pass

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        self.calls.append(prompt)
        script = self.script if prompt.task == "answer" else rewrite_script(self.query)
        if script and isinstance(script[0], BaseException):
            raise script[0]
        self.open_streams += 1
        stream = play(script)
        try:
            yield stream
        finally:
            await stream.aclose()
            self.open_streams -= 1


def rewrite_script(query: ScriptStep | str) -> Sequence[ScriptStep]:
    return (Delta(query), Done()) if isinstance(query, str) else (query,)


async def play(script: Sequence[ScriptStep]) -> AsyncGenerator[Delta | Done, None]:
    for entry in script:
        if isinstance(entry, BaseException):
            raise entry
        if isinstance(entry, asyncio.Event):
            await entry.wait()
        else:
            yield entry


class FakeRetriever:
    """Returns the same passages, or raises; records each call."""

    name = "fake"

    def __init__(
        self, sources: Sequence[Source] = (PLUS, STANDARD), error: Exception | None = None
    ) -> None:
        self.result = SearchResult(
            tuple(sources), {"has_vector": False, "use_semantic_captions": False, "top": 3}
        )
        self.error = error
        self.calls: list[tuple[User, str, Overrides]] = []

    async def ready(self) -> None:
        if self.error is not None:
            raise self.error

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        self.calls.append((user, query, overrides))
        if self.error is not None:
            raise self.error
        if overrides.includes_images:
            return self.result
        return replace(
            self.result, sources=tuple(replace(s, image=None) for s in self.result.sources)
        )

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        self.calls.append((user, sourcefile, overrides))
        if self.error is not None:
            raise self.error
        return any(source.sourcefile == sourcefile for source in self.result.sources)

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        self.calls.append((user, sourcefile, overrides))
        if self.error is not None:
            raise self.error
        return tuple(source for source in self.result.sources if source.sourcefile == sourcefile)

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        self.calls.append((user, after, overrides))
        if self.error is not None:
            raise self.error
        names = sorted({source.sourcefile for source in self.result.sources})
        return tuple(name for name in names if name > after)[:limit]

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        if self.error is not None:
            raise self.error
        return tuple(sorted({source.category or "" for source in self.result.sources} - {""}))

    def statistics(self) -> IndexStatistics | None:
        return None


# Settings of an app whose index is a FakeRetriever.
FAKE_INDEX = {"RETRIEVER": "tests.support.fakes:make_retriever"}


def make_retriever(_settings: Settings) -> FakeRetriever:
    """The factory of FAKE_INDEX."""
    return FakeRetriever()


def fake_retriever(_settings: object) -> FakeRetriever:
    """The factory for `RETRIEVER`."""
    return FakeRetriever()


def make_rag(
    model: Model | None = None,
    retriever: FakeRetriever | None = None,
    client_prompts: bool = False,
) -> Rag:
    """A Rag over fakes."""
    defaults = Overrides(top=3, temperature=0.3)
    models = Router.for_model(model or FakeModel())
    retriever = retriever or FakeRetriever()
    return Rag(
        retriever,
        models,
        PROMPTS,
        defaults,
        client_prompts,
        search_step=select_search_step(retriever),
    )


class FailingConversations:
    """Conversations of a memory whose `create` raises."""

    def __init__(self, inner: Conversations, error: Exception) -> None:
        self.error = error
        self.get, self.list, self.rename, self.delete = (
            inner.get,
            inner.list,
            inner.rename,
            inner.delete,
        )

    async def create(self, owner: str, name: str) -> Conversation:
        raise self.error


class FailingInteractions:
    """Interactions of a memory whose `add` raises, and `list` too where `reading`."""

    def __init__(self, inner: Interactions, error: Exception, reading: bool = False) -> None:
        self.inner, self.error, self.reading = inner, error, reading
        self.get, self.find, self.delete = inner.get, inner.find, inner.delete
        self.annotate, self.rate = inner.annotate, inner.rate

    async def add(
        self, owner: str, conversation: str, turn: Turn, id: GeneratedId | None = None
    ) -> Interaction:
        raise self.error

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        if self.reading:
            raise self.error
        return await self.inner.list(owner, conversation, page, newest_first)


# A question may contain commands: `say some words; wait for a; release a; fail with 429`.
FAILURES: Mapping[str, Callable[[], Exception]] = {
    "content filter": errors.ContentFiltered,
    "too long": errors.TooLong,
    "429": errors.TooManyRequests,
    "429 after 7": partial(errors.TooManyRequests, retry_after=6.2),
    "outage": errors.Unavailable,
    "outage after 7": partial(errors.Unavailable, retry_after=7),
    "misconfigured": errors.Misconfigured,
    "timeout": errors.DeadlineExceeded,
    "bug": partial(RuntimeError, "a secret of the inside"),
}
COMMANDS = (
    "say call list_questions wait_for release fail_with refuse_with end_with report open_as "
    "log_requests flood"
)
COMMAND = re.compile(rf"({COMMANDS.replace(' ', '|').replace('_', ' ')}) ?(.*)")


class CommandModel:
    """Executes the commands of the question; `report NAME` writes the state of stream NAME."""

    name = "command_model"
    max_prompt_tokens = 100_000
    limits: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.state: dict[str, str] = {}

    def count(self, text: str) -> int:
        return len(text) // 4

    async def ready(self) -> None:
        pass

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        commands = read_commands(prompt)
        name = dict(commands).get("open as", "")
        self.state[name] = "waiting"
        try:
            for command, argument in commands:
                if command == "refuse with":
                    raise FAILURES[argument]()
                if command == "open as":
                    await self._wait_until_released(argument)
            self.state[name] = "open"
            stream = self._execute(commands)
            yield stream
            await stream.aclose()
        finally:
            self.state[name] = "closed"

    async def _wait_until_released(self, name: str) -> None:
        if name.startswith("held"):
            await self.released[name].wait()

    async def _execute(
        self, commands: Sequence[tuple[str, str]]
    ) -> AsyncGenerator[Delta | Done, None]:
        for command, argument in commands:
            if command in ("say", "report"):
                yield Delta(argument if command == "say" else self.state.get(argument, "unknown"))
            elif command == "call":  # of a tool, in two parts
                yield Delta("", (ToolCall(0, "call_1", argument, '{"q"'),))
                yield Delta("", (ToolCall(0, arguments=": 1}"),))
                yield Done("tool_calls", usage=USAGE)
                return
            elif command == "flood":  # more than any buffer on the way takes
                for _ in range(1000):
                    yield Delta("\0" * 60_000)  # six bytes each as JSON
            elif command == "end with":
                if argument != "nothing":
                    yield Done(argument)
                return
            else:
                await self._control(command, argument)
        yield Done("stop", usage=USAGE)

    async def _control(self, command: str, argument: str) -> None:
        if command == "fail with":
            raise FAILURES[argument]()
        if command == "wait for":
            await self.released[argument].wait()
        if command == "release":
            self.released[argument].set()
        if command == "log requests":  # as the platform's web server does; ours have it off
            access = logging.getLogger("uvicorn.access")
            access.addHandler(logging.StreamHandler(sys.stdout))
            access.setLevel(logging.INFO)


def read_commands(prompt: Prompt) -> list[tuple[str, str]]:
    """Returns the commands in the question of an answer or of a rewrite.

    `list questions` becomes a `say` of the earlier ones.
    """
    question = prompt.messages[-1].content.partition("\n\nSources:")[0]
    if question == "ANSWER:":  # as a search pipeline asks
        question = prompt.messages[-2].content.removeprefix("QUESTION: ")
    matches = [COMMAND.fullmatch(part) for part in question.split("; ")]
    commands = [(match[1], match[2]) for match in matches if match is not None]
    users = [message.content for message in prompt.messages if message.role == "user"]
    history = ("say", " | ".join(users[:-1]))
    return [history if command[0] == "list questions" else command for command in commands]


# Settings of an app whose model is a CommandModel.
FAKE_MODEL = {"CHAT_MODEL": "tests.support.fakes:command_model"}
FAKES = FAKE_INDEX | FAKE_MODEL


def command_model(_settings: object) -> CommandModel:
    """The factory of FAKE_MODEL."""
    return CommandModel()


class TextModel(CommandModel):
    """Answers each prompt with a text that depends on the prompt alone."""

    name = "text_model"

    def __init__(self, write: Callable[[Prompt], str]) -> None:
        super().__init__()
        self.write = write

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        async def stream() -> AsyncGenerator[Delta | Done, None]:
            yield Delta(self.write(prompt))
            yield Done("stop", usage=USAGE)

        async with aclosing(stream()) as events:
            yield events


def echo_model(_settings: object) -> TextModel:
    """Repeats its prompt: instructions, question and sources."""
    return TextModel(lambda prompt: "\n".join(message.content for message in prompt.messages))


def abstaining_model(_settings: object) -> TextModel:
    """Never knows an answer."""
    return TextModel(lambda _prompt: "I don't know.")
