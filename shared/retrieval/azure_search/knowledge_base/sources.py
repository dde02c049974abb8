"""The knowledge sources of `AZURE_SEARCH_KNOWLEDGE_SOURCES`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

Kind = Literal[
    "searchIndex", "azureBlob", "file", "indexedOneLake", "indexedSharePoint", "indexedSql"
]


class KnowledgeSource(BaseModel, frozen=True, extra="forbid"):
    """A knowledge source: an index, or documents elsewhere that the service indexes itself."""

    name: str = Field(min_length=1, max_length=128)
    kind: Kind = "searchIndex"
    # Whether the source took over the permissions of its documents (ingestionPermissionOptions), so
    # that the service checks them by a user's token. Nothing in its responses tells.
    permissions: bool = False

    @property
    def is_index(self) -> bool:
        """Whether it is an index with the fields of the settings: only that can be filtered."""
        return self.kind == "searchIndex"

    @property
    def has_permissions(self) -> bool:
        """Whether the service can check permissions of its documents by a user's token."""
        return self.permissions and self.kind not in ("file", "indexedSql")
