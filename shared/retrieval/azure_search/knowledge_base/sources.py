"""Parses `AZURE_SEARCH_KNOWLEDGE_SOURCES`, the knowledge sources that are searched."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class KnowledgeSource(BaseModel, frozen=True, extra="forbid"):
    """A knowledge source: one over an index whose fields have the names of the settings."""

    name: str = Field(min_length=1, max_length=128)
    kind: Literal["searchIndex"] = "searchIndex"
