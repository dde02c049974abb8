"""The body of POST /feedback."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator

ID = "[A-Za-z0-9_-]{1,64}"
MAX_COMMENT_LENGTH = 2000  # characters
Reason = Literal["incorrect", "incomplete", "irrelevant", "unsupported"]


def is_answer_id(value: str) -> bool:
    """Return whether an `x-request-id` can be rated: it is logged, and has no other characters."""
    return re.fullmatch(ID, value) is not None


def _check_id(value: str) -> str:
    if not is_answer_id(value):
        raise ValueError("must be the x-request-id of an answer")
    return value


class FeedbackFields(BaseModel, strict=True):
    """The feedback on an answer."""

    request_id: Annotated[
        str,
        AfterValidator(_check_id),
        Field(
            description="The `x-request-id` of the answer.",
            json_schema_extra={"pattern": f"^{ID}$"},
        ),
    ]
    rating: Literal["up", "down"]
    reasons: Annotated[
        list[Reason],
        Field(
            max_length=len(get_args(Reason)),
            description="What was wrong; `unsupported`: the passages do not say it.",
        ),
    ] = []
    comment: str = Field(
        default="",
        max_length=MAX_COMMENT_LENGTH,
        description="For an answer in a stored conversation, where it is stored.",
    )
    keep_copy: bool = Field(
        default=False,
        description="The user's consent to a copy of the question and the answer, and of up to "
        "three turns before them, without their name. Feedback without it deletes an earlier copy.",
    )

    @field_validator("reasons")
    @classmethod
    def _check_reasons(cls, value: list[Reason], info: ValidationInfo) -> list[Reason]:
        if value and info.data.get("rating") == "up":
            raise ValueError("are for the rating down")
        return list(dict.fromkeys(value))

    @field_validator("comment")
    @classmethod
    def _strip_comment(cls, value: str) -> str:
        return value.strip()

    @property
    def needs_store(self) -> bool:
        """Whether it has more than the log can take."""
        return bool(self.comment or self.keep_copy)
