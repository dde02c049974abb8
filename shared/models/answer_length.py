"""The limit on the length of an answer: a model's server may send one without an end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.domain.errors import Unavailable
from shared.domain.events import Delta

# Characters. The longest answers of models have 128,000 tokens, of about 5 characters each.
MAX_LENGTH = 4 * 1024 * 1024
PART_LENGTH = 16  # what a part counts beside its text: an empty one takes memory, too
EXCEEDED = f"The model's answer is longer than the limit of {MAX_LENGTH:,} characters."


@dataclass(slots=True)
class AnswerLength:
    """The length of an answer in characters, so far: its text, tool calls and other fields."""

    total: int = 0
    fields: dict[str, int] = field(default_factory=dict)  # the lengths of the fields of `extra`

    def add(self, delta: Delta) -> None:
        """Add a Delta. Raises Unavailable if the answer is longer than MAX_LENGTH."""
        self.total += PART_LENGTH + len(delta.content)
        for call in delta.tool_calls:
            self.total += PART_LENGTH + _length(call.id, call.name, call.arguments)
        if delta.message_extra:  # whose values are joined
            self.total += _length(*delta.message_extra, *delta.message_extra.values())
        self.replace(delta.extra)

    def replace(self, fields: Mapping[str, Any]) -> None:
        """Add fields, each in place of an earlier one of its name. Raises Unavailable."""
        for name, value in fields.items():
            length = PART_LENGTH + _length(name, value)
            self.total += length - self.fields.get(name, 0)
            self.fields[name] = length
        if self.total > MAX_LENGTH:
            raise Unavailable(f"{EXCEEDED} Ask for a shorter one.", cause=EXCEEDED)


def _length(*values: Any) -> int:
    return sum(len(str(value)) for value in values)
