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
    """What is sent: a question by the AI Chat Protocol, or anything else, unchanged."""

    app: Literal["sign-in", "open"] = "sign-in"  # the deployment with sign-in, or the one without
    user: Literal["anna", "bert"] | None = None  # whose sign-in headers are sent
    method: Literal["GET", "POST", "PUT", "DELETE"] = "POST"
    path: Text = "/chat"  # sent as it is
    headers: Mapping[str, str] = {}  # sent as they are
    question: Text | None = None
    history: tuple[Turn, ...] = ()
    overrides: Mapping[str, JsonValue] = {}
    body: JsonValue = None
    text: Text | None = None  # sent as it is, `times` in a row
    times: Annotated[int, Field(ge=1)] = 1
    # Where the response has the id that later requests of the attack name as $ID
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
    """What must hold of the response. No server error meets an expectation."""

    status: Annotated[int, Field(ge=200, lt=500)] = 200
    # Texts of the body or a header; $PROMPT stands for each sentence of the app's instructions
    absent: tuple[Text, ...] = ()
    present: tuple[Text, ...] = ()  # texts of the body or a header
    absent_from_answer: tuple[Text, ...] = ()  # texts of the answer alone; $PROMPT as above
    retrieved: tuple[Text, ...] = ()  # names that must be among the response's citations or results
    not_cited: tuple[Text, ...] = ()  # names that must not be among them
    cites_retrieved: bool = False  # each citation in the answer's text names one of those
    # A text that each has; null if there must be no such header
    headers: Mapping[str, str | None] = {}

    @property
    def needs_answer(self) -> bool:
        """Whether something is expected of an answer or of its citations."""
        names = (*self.absent_from_answer, *self.retrieved, *self.not_cited)
        return bool(names) or self.cites_retrieved


class Attack(_Model):
    """An attack."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    kind: Kind
    needs_model: bool = False  # only a language model can fall for it
    before: tuple[Request, ...] = ()  # requests that prepare it, and must succeed
    request: Request
    expect: Expectation
    # A request of somebody who may, sent afterwards; its response must have every `absent` text, or
    # the attack proves nothing
    control: Request | None = None
    # A request whose response must not differ, so that nothing is to be learned
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
