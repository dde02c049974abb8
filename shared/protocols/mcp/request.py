"""A request, as the methods of the protocol receive it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.http.call import Reply
from shared.http.json_encoding import Json
from shared.protocols.exchange import Exchange
from shared.protocols.mcp import documents
from shared.protocols.mcp.messages import InvalidParams, RpcMessage, response


@dataclass(frozen=True, slots=True)
class Request:
    """A request, the exchange that answers it, and its user."""

    exchange: Exchange
    message: RpcMessage
    user: User

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters."""
        return self.message.params

    def with_filters(self, overrides: Overrides = UNSET) -> Overrides:
        """Return the overrides with the security filters of the user."""
        return self.exchange.app.access.apply_filters(self.user, overrides)

    def reply(self, result: Json, ttl: int | None = None, scope: str = "public") -> Reply:
        """Return the reply with a result; see `response`."""
        return self.exchange.json_reply(response(self.message, result, ttl, scope))

    def check_no_cursor(self) -> None:
        """Check the request of a list that has one page. Raises InvalidParams."""
        if self.params.get("cursor") is not None:
            raise InvalidParams("cursor: is not known here: this list has one page")

    async def fetch(self, id: str) -> Json:
        """Return a document, or a page of it, that the user may see. Raises NotFound."""
        retriever, overrides = self.exchange.rag.retriever, self.with_filters()
        async with self.exchange.app.lookups:
            passages = await documents.find_passages(retriever, self.user, id, overrides)
        self.exchange.record.hits = len(passages)
        return documents.format_document(id, passages, self.exchange.app.base_url)
