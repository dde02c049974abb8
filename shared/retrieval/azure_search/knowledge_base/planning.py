"""The Retriever of a knowledge base with the effort `low` or `medium`: its model plans queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.knowledge_base.retriever import KnowledgeBaseRetriever
from shared.retrieval.base import SearchResult


@dataclass(slots=True)
class PlanningRetriever(KnowledgeBaseRetriever):
    """Searches by a whole conversation. The effort is stored in the knowledge base."""

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages for `query` that `user` may see. Raises ChatErrors."""
        return await self.search_conversation(user, [Message("user", query)], overrides)

    async def search_conversation(
        self, user: User, messages: Sequence[Message], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages for the last message that `user` may see. Raises ChatErrors."""
        conversation = [
            {"role": each.role, "content": [{"type": "text", "text": each.content}]}
            for each in messages
        ]
        return await self.retrieve(user, {"messages": conversation}, overrides)
