"""Fakes of Azure AI Search and Azure OpenAI that echo a question's marker, and fail by a seed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.support.fake_search import FakeSearch, document
from tests.support.prompts import APP_PROMPTS
from tests.support.upstream import (
    Exchange,
    RecordedRequest,
    Step,
    Upstream,
    answer_events,
    error_response,
    http_chunk,
    json_response,
    sse_event,
    stream_response,
)

MARKER = re.compile(r"s\d+q\d+\b")  # of a question: the number of its session, and its own
REFUSALS = ("429", "429 for long", "500", "503", "reset", "stall")
JSON_FAULTS = (*REFUSALS, "cut")
STREAM_FAULTS = (*REFUSALS, "cut", "reset within", "stall within", "error event")
TOKEN = {"access_token": "token", "expires_on": "4070908800", "resource": "azure"}
ERROR_EVENT = http_chunk(sse_event({"error": {"code": "server_error", "message": "words"}}))


def answer_tokens(marker: str) -> list[str]:
    """The tokens of the answer to the question with this marker."""
    return [f"{marker} \N{MIDDLE DOT}{number} " for number in range(Random(marker).randint(2, 40))]


@dataclass
class Faults:
    """Chooses which requests fail, and how. The same seed chooses the same for a question."""

    seed: int
    share: float
    active: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)

    def apply(
        self, service: str, marker: str, kinds: Sequence[str], steps: list[Step]
    ) -> list[Step]:
        """The steps of a response, or those of a failure instead."""
        call = f"{service} {marker}"
        self.attempts[call] += 1
        random = Random(f"{self.seed} {call} {self.attempts[call]}")
        if not self.active or random.random() >= self.share:
            return steps
        kind = random.choice(kinds)
        self.counts[f"{service}: {kind}"] += 1
        return make_fault(kind, steps, random.randrange(1, len(steps) - 1))


def make_fault(kind: str, steps: list[Step], place: int) -> list[Step]:
    """The steps of a failure; `place` is the step of the response at which it fails."""
    cut = steps[place]
    assert isinstance(cut, bytes)
    faults: dict[str, list[Step]] = {
        "429": error_response(429, {"Retry-After": "0"}),
        "429 for long": error_response(429, {"Retry-After": "30"}),
        "500": error_response(500),
        "503": error_response(503),
        "reset": [Exchange.rst],
        "stall": [Exchange.stall],
        "cut": [*steps[:place], cut[: len(cut) // 2], Exchange.reset],
        "reset within": [*steps[:place], cut[: len(cut) // 2], Exchange.rst],
        "stall within": [*steps[:place], cut[: len(cut) // 2], Exchange.stall],
        "error event": [*steps[:place], ERROR_EVENT, b"0\r\n\r\n"],
    }
    return faults[kind]


def find_marker(text: str) -> str:
    """The last marker in a text: that of the question."""
    return str(MARKER.findall(text)[-1])


@dataclass
class EchoModel(Upstream):
    """A deployment whose every token has the marker of the question, one for embeddings, and the
    app's identity."""

    faults: Faults = field(default_factory=lambda: Faults(0, 0))

    def respond(self, request: RecordedRequest) -> list[Step]:
        self.requests.clear()
        self.order.clear()
        if request.path.startswith("/token"):
            return json_response(TOKEN)
        if request.path.endswith("/embeddings"):
            marker = find_marker(request.body["input"][0])
            steps = super().respond(request)
            return self.faults.apply("embedding", marker, JSON_FAULTS, steps)
        if not request.path.endswith("/chat/completions"):
            return super().respond(request)
        messages = request.body["messages"]
        marker = find_marker("\n".join(str(message["content"]) for message in messages))
        if messages[0]["content"] == APP_PROMPTS.rewrite:
            steps = stream_response(answer_events(f"{marker} ", "dental"))
            return self.faults.apply("rewrite", marker, STREAM_FAULTS, steps)
        steps = stream_response(answer_events(*answer_tokens(marker)))
        return self.faults.apply("model", marker, STREAM_FAULTS, steps)


@dataclass
class EchoSearch(FakeSearch):
    """An index whose passages have the marker of the question."""

    faults: Faults = field(default_factory=lambda: Faults(0, 0))

    def respond(self, request: RecordedRequest) -> list[Step]:
        self.requests.clear()
        self.order.clear()
        if request.body["top"] == 0:
            return super().respond(request)
        marker = find_marker(request.body["search"])
        docs = [document(f"{marker}-{number}") for number in range(3)]
        steps = json_response({"value": [self.hit(doc, False, False) for doc in docs]})
        return self.faults.apply("search", marker, JSON_FAULTS, steps)
