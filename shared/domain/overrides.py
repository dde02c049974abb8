"""The overrides of a request: the fields of `context.overrides`, by their names on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _float_to_int(value: Any) -> Any:
    """Convert 3.0 to 3: JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_set(value: Any) -> bool:
    """Whether a value on the wire sets an override: null and "" do not."""
    return value is not None and value != ""


def _check_printable(value: str) -> str:
    """Reject control characters: the name is logged and sent to clients."""
    if not value.isprintable():
        raise ValueError("must be the name of a model")
    return value


WholeNumber = Annotated[int, BeforeValidator(_float_to_int)]
RetrievalMode = Literal["text", "vectors", "hybrid"]
ImageInput = Literal["text", "textAndImages", "images"]
ModelName = Annotated[str, Field(max_length=200), AfterValidator(_check_printable)]
Policy = Literal["always_remote", "always_local", "default"]
DEFAULT_TOP = 10  # passages of a question, unless a setting says otherwise
INTERNAL_FIELDS = ("filter",)  # fields that no request can set
MAX_SEARCH_TEXT = 2000  # characters: normalization can take quadratic time
Category = Annotated[str, Field(max_length=MAX_SEARCH_TEXT)]


class Overrides(BaseModel):
    """The overrides of one request. None means unset: the deployment's default applies.

    null and "" mean unset, too; 0 is a value. Unknown keys are ignored; a wrong type or range in a
    known key raises pydantic's ValidationError. `filter` is OData that the app has checked to
    narrow the search: in a request it is an unknown key.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: WholeNumber | None = Field(default=None, ge=-(2**63), lt=2**63)
    top: WholeNumber | None = Field(default=None, ge=1, le=50)
    retrieval_mode: RetrievalMode | None = None
    semantic_ranker: bool | None = None
    semantic_captions: bool | None = None
    suggest_followup_questions: bool | None = None
    use_oid_security_filter: bool | None = None
    use_groups_security_filter: bool | None = None
    vector_fields: Annotated[list[str], Field(fail_fast=True, max_length=20)] | None = None
    use_gpt4v: bool | None = None
    gpt4v_input: ImageInput | None = None
    minimum_search_score: float | None = Field(default=None, allow_inf_nan=False)
    minimum_reranker_score: float | None = Field(default=None, allow_inf_nan=False)
    include_category: Category | None = None
    exclude_category: Category | None = None
    prompt_template: str | None = None
    hybrid_policy: Policy | None = None
    model: ModelName | None = None
    thoughts: bool | None = None
    filter: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {
            key: value
            for key, value in data.items()
            if is_set(value) and key not in INTERNAL_FIELDS
        }

    def is_requested(self, name: str) -> bool:
        """Whether the request itself set a field to something other than false."""
        value = getattr(self, name)
        return value is not None and value is not False

    @property
    def includes_images(self) -> bool:
        """Whether the images of the sources are sent to the model."""
        return bool(self.use_gpt4v) and self.gpt4v_input != "text"

    def with_defaults(self, defaults: Overrides) -> Overrides:
        """Return these overrides, with `defaults` for unset fields."""
        return defaults.model_copy(update=self.model_dump(exclude_none=True))


UNSET = Overrides()
"""Overrides without any field set."""
