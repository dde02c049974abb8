"""No transform of a stream loses or repeats text, wherever the text is split and however it ends.

The transforms are found by their annotations: they take the events of an answer, and return events
or bytes. One that takes an argument of another type needs a value for it in `arguments`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import pkgutil
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shared
from shared.domain.errors import Unavailable
from shared.domain.events import Context, Delta, Done, Event
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.http.call import json_line
from shared.memory.base import Memory
from shared.memory.chat_history import ChatHistory
from shared.protocols.ai_chat import response as ai_chat
from shared.protocols.handler import Stream
from shared.protocols.openai.request import RequestState
from shared.protocols.openai.responses.request import ResponseState
from shared.protocols.openai.responses.storage import ResponseStore, StoredAnswer
from shared.protocols.ui_message_stream.history import PageHistory
from shared.rag.citations import number_citations
from shared.telemetry.access_log import NOOP_TRACER, AccessLog
from tests.support.fakes import PLUS, STANDARD
from tests.support.stores import sqlite_memory

STREAMS = {"Events", "ModelStream", "AsyncGenerator[T, None]"}
RESULTS = STREAMS | {"ByteStream", "Stream"}
WHOLE = "mcp.routes._stream"  # its answer is one result, behind the stream's end
LATE = 1e9  # a time of the event loop's clock


def functions(module: Any) -> Iterator[tuple[str, Any]]:
    """The functions of a module, and the methods of its classes that are no interfaces."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(value):
            yield f"{module.__name__}.{name}", value
        elif inspect.isclass(value) and not getattr(value, "_is_protocol", False):
            for method in filter(inspect.isfunction, vars(value).values()):
                yield f"{module.__name__}.{name}.{method.__name__}", method


def find_transforms() -> Iterator[tuple[str, Any]]:
    for module in pkgutil.walk_packages(shared.__path__, "shared."):
        for name, function in functions(importlib.import_module(module.name)):
            annotations = dict(function.__annotations__)
            result = annotations.pop("return", None)
            is_transform = result in RESULTS and STREAMS & set(annotations.values())
            if is_transform and not name.endswith(WHOLE):
                yield name, function


TRANSFORMS = dict(find_transforms())
everywhere = pytest.mark.parametrize("name", sorted(TRANSFORMS))


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with sqlite_memory(tmp_path_factory.mktemp("memory")) as memory:
        yield memory


def write_text(_: Context, event: Event) -> bytes:
    return json_line({"delta": {"content": event.content}}) if isinstance(event, Delta) else b""


def arguments(name: str, memory: Memory) -> Mapping[str, Any]:
    """The values of arguments, by their annotations; of `self`, by the name of its class."""
    state: Any = None
    if ".openai." in name:
        state = RequestState(include_usage=True)
    if ".responses." in name:
        state = ResponseState(id="1")
    overrides = Overrides(suggest_followup_questions=True)
    request = ChatRequest((Message("user", "How much?"),), overrides, state=state)
    record = AccessLog("call-1", "POST", "/chat")
    return {
        "ChatRequest": request,
        "ChunkWriter": partial(ai_chat.write_chunk, "sessionState"),
        "Callable[[Context, Event], bytes]": write_text,
        "Delta | Done": Delta(),
        "dict[str, str]": {},
        "float": LATE,
        "Span": NOOP_TRACER,
        "AccessLog": record,
        "ChatHistory": ChatHistory(memory, "anna", "missing", streams=True),
        "PageHistory": PageHistory(ChatHistory(memory, "anna", "missing", streams=True), True),
        "StoredAnswer": StoredAnswer(ResponseStore(memory, "anna"), memory.new_id(), ()),
    }


def apply(name: str, memory: Memory, events: AsyncGenerator[Any, None]) -> Any:
    """Apply a transform to events."""
    function, known = TRANSFORMS[name], arguments(name, memory)
    owner = name.split(".")[-2]
    kinds = [
        function.__annotations__.get(each, owner) for each in inspect.signature(function).parameters
    ]
    result = function(*(events if kind in STREAMS else known[kind] for kind in kinds))
    return result.chunks if isinstance(result, Stream) else result


End = Done | type[Exception]


async def play(name: str, pieces: Sequence[str], end: End) -> AsyncGenerator[Any, None]:
    if "ModelStream" not in TRANSFORMS[name].__annotations__.values():
        yield Context((PLUS, STANDARD), (), "m")
    for place, piece in enumerate(pieces, 1):
        yield Delta(piece, more=place % 3 != 0 and place < len(pieces))
    if not isinstance(end, Done):
        raise end
    yield end


def text_of(output: Any) -> str:
    """The text of an event, or of bytes in the form of any protocol."""
    if isinstance(output, Delta):
        return output.content
    if not isinstance(output, bytes):
        return ""
    lines = (line.removeprefix(b"data: ") for line in output.splitlines())
    return "".join(text_of_line(json.loads(line)) for line in lines if line.startswith(b"{"))


def text_of_line(line: Any) -> str:
    value = next(iter(line.get("choices", ())), line)
    delta = value.get("delta", value.get("message", {}))
    return str(delta if isinstance(delta, str) else delta.get("content") or "")


def run(name: str, memory: Memory, pieces: Sequence[str], end: End) -> tuple[str, bool]:
    """The text behind a transform, and whether the failure is behind it, if there is one."""

    async def go() -> tuple[str, bool]:
        text, failed = "", False
        try:
            async with aclosing(apply(name, memory, play(name, pieces, end))) as outputs:
                async for output in outputs:
                    text += text_of(output)
        except (Unavailable, RuntimeError) as error:
            assert type(error) is end
            failed = True
        return text, failed

    return asyncio.run(go())


# Parts of what transforms look for, which are text if the rest is missing.
PARTS = ["<", "<<", "<<How", "[", "[doc", "1", "[plans/", "plus.pdf#page=2", " ", "\n", "- ", "?"]
PARTS += [". ", "a", "😀", "\u2028", ""]
RESTS = ["]", "?>>", ">", "<<How?>>", "[plans/plus.pdf#page=2]"]
FAILURES = [Unavailable, RuntimeError]


def test_transforms_of_the_flow_are_found() -> None:
    assert {
        "shared.domain.concurrency.with_deadline",
        "shared.rag.followups.extract_followups",
        "shared.memory.chat_history.ChatHistory.store_answer",
        f"{number_citations.__module__}.number_citations",
        "shared.telemetry.access_log.AccessLog.observe",
    } <= TRANSFORMS.keys()


@everywhere
@given(pieces=st.lists(st.sampled_from(PARTS)), end=st.sampled_from([Done(), *FAILURES]))
def test_no_text_is_lost_or_repeated(
    memory: Memory, name: str, pieces: list[str], end: End
) -> None:
    pieces = ["Yes", *pieces]

    assert run(name, memory, pieces, end) == ("".join(pieces), not isinstance(end, Done))


@everywhere
@given(
    pieces=st.lists(st.sampled_from([*PARTS, *RESTS])),
    end=st.sampled_from([Done(), Done("length"), *FAILURES]),
)
def test_the_text_is_the_same_wherever_it_is_split(
    memory: Memory, name: str, pieces: list[str], end: End
) -> None:
    pieces = ["Yes", *pieces]

    assert run(name, memory, pieces, end) == run(name, memory, ["".join(pieces)], end)
