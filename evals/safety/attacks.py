"""The attacks: one JSON object a line, with what must hold of the response."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from evals.files import FileError, read_lines

ATTACKS = Path(__file__).with_name("attacks.jsonl")

Text = Annotated[str, Field(min_length=1)]
Kind = Literal[
    "prompt injection",
    "prompt leaks",
    "documents of others",
    "conversations of others",
    "forged citations",
    "markup",
    "paths",
    "requests",
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Turn(_Model):
    """A message of the history, with any role."""

    role: str
    content: str


class Request(_Model):
    """What is sent: a question by the AI Chat Protocol, or anything else, unchanged.

    `app`: the deployment with sign-in, or the one without. `user`: whose sign-in headers are sent.
    `path`, `headers` and `text` are sent as they are, `text` so many times in a row. `save_id`:
    where the response has the id that later requests of the attack name as $ID.
    """

    app: Literal["sign-in", "open"] = "sign-in"
    user: Literal["anna", "bert"] | None = None
    method: Literal["GET", "POST", "PUT", "DELETE"] = "POST"
    path: Text = "/chat"
    headers: Mapping[str, str] = {}
    question: Text | None = None
    history: tuple[Turn, ...] = ()
    overrides: Mapping[str, JsonValue] = {}
    body: JsonValue = None
    text: Text | None = None
    times: Annotated[int, Field(ge=1)] = 1
    save_id: Text | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        contents = [self.question, self.body, self.text]
        if sum(content is not None for content in contents) > 1:
            raise ValueError("has more than one of question, body and text")
        if self.question is None and (self.history or self.overrides):
            raise ValueError("history and overrides need a question")
        return self


class Expectation(_Model):
    """What must hold of the response. No server error meets an expectation.

    `absent` and `present`: texts of the body or a header; `absent_from_answer`: of the answer
    alone. Among absent texts, $PROMPT stands for each sentence of the app's instructions.
    `retrieved` and `not_cited`: names that must, and must not be among the response's citations or
    results. `cites_retrieved`: each citation in the answer's text names one of those. `headers`: a
    text that each has; null if there must be no such header.
    """

    status: Annotated[int, Field(ge=200, lt=500)] = 200
    absent: tuple[Text, ...] = ()
    present: tuple[Text, ...] = ()
    absent_from_answer: tuple[Text, ...] = ()
    retrieved: tuple[Text, ...] = ()
    not_cited: tuple[Text, ...] = ()
    cites_retrieved: bool = False
    headers: Mapping[str, str | None] = {}

    @property
    def needs_answer(self) -> bool:
        """Whether something is expected of an answer or of its citations."""
        names = (*self.absent_from_answer, *self.retrieved, *self.not_cited)
        return bool(names) or self.cites_retrieved


class Attack(_Model):
    """An attack. `needs_model`: only a language model can fall for it.

    `before`: requests that prepare it, and must succeed. `control`: a request of somebody who may,
    sent afterwards; its response must have every `absent` text, or the attack proves nothing.
    `same_as`: a request whose response must not differ, so that nothing is to be learned.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    kind: Kind
    needs_model: bool = False
    before: tuple[Request, ...] = ()
    request: Request
    expect: Expectation
    control: Request | None = None
    same_as: Request | None = None

    @model_validator(mode="after")
    def _check_control(self) -> Self:
        if self.control and not self.expect.absent:
            raise ValueError("a control needs texts in expect.absent")
        return self


def read_attacks(path: Path = ATTACKS) -> tuple[Attack, ...]:
    """Read a file of attacks. Raises FileError."""
    attacks: dict[str, Attack] = {}
    for place, attack in read_lines(path, Attack):
        if attack.id in attacks:
            raise FileError(f"{place}: the id {attack.id} is there twice.")
        attacks[attack.id] = attack
    if not attacks:
        raise FileError(f"{path} has no attack.")
    return tuple(attacks.values())
