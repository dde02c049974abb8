"""A judge behind OpenAI's chat completions that says what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.judge.labels import LABELS, read_labels
from evals.judge.sentences import sentences
from tests.support.upstream import (
    RecordedRequest,
    Step,
    Upstream,
    answer_events,
    chunk,
    sse_event,
    stream_response,
)

Content = Mapping[str, Any]
Judge = Callable[[Content], Any]

ALL_LABELS = read_labels(LABELS)
BY_SENTENCES = {sentences(label.reply): label for label in ALL_LABELS}
BY_ANSWER = {label.answer: label for label in ALL_LABELS}


def grounding(verdicts: Sequence[str], passage: str | None) -> dict[str, Any]:
    """Verdicts on the sentences of an answer; one passage supports all that are supported."""
    return {
        "sentences": [
            {
                "number": number,
                "verdict": verdict,
                "passage": passage if verdict == "supported" else None,
            }
            for number, verdict in enumerate(verdicts, 1)
        ]
    }


def rating(value: Any) -> dict[str, Any]:
    return {"reason": "It is so.", "rating": value}


def expert(content: Content) -> Any:
    """The verdicts of the labels; of other answers, that everything is right."""
    if "sentences" in content:
        parts = tuple(each["sentence"] for each in content["sentences"])
        label = BY_SENTENCES.get(parts)
        names = [each["name"] for each in content["passages"]]
        verdict = "supported" if names else "not_supported"
        verdicts = label.verdicts if label else [verdict] * len(parts)
        return grounding(verdicts, names[0] if names else None)
    label = BY_ANSWER.get(content["answer"])
    if label is None:
        return rating(5)
    return rating(5 if (label.complete if "reference" in content else label.relevant) else 2)


def finished(text: str, reason: str) -> list[Step]:
    """An answer that ends for this reason."""
    return stream_response([sse_event(chunk(text)), sse_event(chunk(finish_reason=reason))])


@dataclass
class JudgeServer(Upstream):
    """A server of judges: `judge` returns an object, a text, or the steps of a response."""

    judge: Judge = expert

    def respond(self, request: RecordedRequest) -> list[Step]:
        if not request.path.endswith("/chat/completions"):
            return super().respond(request)
        reply = self.judge(read_content(request))
        if isinstance(reply, list):
            return reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return stream_response(answer_events(text[:7], text[7:]))

    def contents(self) -> list[Content]:
        """What the judge was asked to judge."""
        return [read_content(each) for each in self.requests if each.body]


def read_content(request: RecordedRequest) -> Content:
    content: Content = json.loads(request.body["messages"][1]["content"])
    return content
