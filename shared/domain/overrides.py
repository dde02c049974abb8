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
MAX_TOP = 50  # passages of a question
INTERNAL_FIELDS = ("filter",)  # fields that no request can set
MAX_SEARCH_TEXT = 2000  # characters: normalization can take quadratic time
Category = Annotated[str, Field(max_length=MAX_SEARCH_TEXT)]


def _describe_wire(schema: dict[str, Any]) -> None:
    """Change a JSON schema to what a request may have: "" is unset, and some fields are not."""
    for name in INTERNAL_FIELDS:
        del schema["properties"][name]
    for field in schema["properties"].values():
        field["anyOf"].append({"const": ""})


class Overrides(BaseModel):
    """What one request changes. null and "" mean unset, as a missing key: the default applies.

    0 is a value. Unknown keys are ignored; a wrong type or range in a known key is an error. What
    the deployment cannot do is reported by a thought "What was used instead".
    """

    # `filter` is OData that the app has checked to narrow the search: in a request an unknown key.
    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", json_schema_extra=_describe_wire
    )

    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="Sent to the model; the demo model and reasoning models do not use it.",
    )
    seed: WholeNumber | None = Field(
        default=None,
        ge=-(2**63),
        lt=2**63,
        description="Sent to the model; the demo model does not use it.",
    )
    top: WholeNumber | None = Field(
        default=None, ge=1, le=MAX_TOP, description="The number of passages; DEFAULT_TOP if unset."
    )
    retrieval_mode: RetrievalMode | None = Field(
        default=None, description="For an index with vectors; hybrid if unset."
    )
    semantic_ranker: bool | None = Field(
        default=None, description="For Azure AI Search with a semantic configuration."
    )
    semantic_captions: bool | None = Field(
        default=None, description="For Azure AI Search with a semantic configuration."
    )
    suggest_followup_questions: bool | None = Field(
        default=None, description="Three questions in `context.followup_questions`."
    )
    use_oid_security_filter: bool | None = Field(
        default=None, description="With sign-in: only passages that name the user."
    )
    use_groups_security_filter: bool | None = Field(
        default=None, description="With sign-in: only passages that name a group of the user."
    )
    vector_fields: Annotated[list[str], Field(fail_fast=True, max_length=20)] | None = Field(
        default=None, description="The one vector field, `embedding`."
    )
    use_gpt4v: bool | None = Field(
        default=None, description="Sends a model that sees images those of the passages."
    )
    gpt4v_input: ImageInput | None = Field(
        default=None, description="Whether the images go with the text of the passages or instead."
    )
    minimum_search_score: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Leaves out passages with a lower score: each index has its own scale.",
    )
    minimum_reranker_score: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Leaves out passages with a lower score of the semantic ranker.",
    )
    include_category: Category | None = Field(
        default=None, description="Only passages of this category, the documents' top folder."
    )
    exclude_category: Category | None = Field(
        default=None, description="No passages of this category."
    )
    prompt_template: str | None = Field(
        default=None,
        description="Replaces the instructions, or is added to them after `>>>`, if "
        "ALLOW_CLIENT_PROMPTS is on.",
    )
    hybrid_policy: Policy | None = Field(
        default=None, description="Which side answers, of a local and a remote model."
    )
    model: ModelName | None = Field(
        default=None,
        description="With several models: the one that answers; a 404 for an unknown name.",
    )
    thoughts: bool | None = Field(
        default=None,
        description="false leaves `context.thoughts` out of the answer; THOUGHTS=off does so for "
        "all.",
    )
    use_whole_documents: bool | None = Field(
        default=None,
        description="true gives the model whole documents, where they fit, in place of the "
        "passages found in them; false gives it passages alone. Unset, documents are whole that "
        "the request names.",
    )
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


def _parse_later(value: Any) -> Any:
    return value


OverridesJson = Annotated[
    dict[str, Any], BeforeValidator(_parse_later, json_schema_input_type=Overrides)
]
"""The overrides in a request, which are parsed when its protocol is known."""
