"""How a search is limited to what a user may see: by a filter of the app, or by the service."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from shared.domain.events import Source
from shared.domain.request import User
from shared.retrieval.azure_search.client import SearchIndex
from shared.retrieval.azure_search.index_fields import IndexFields

EVERYONE, NOBODY = "all", "none"  # values of the service in the fields of permissions
NOT_ENFORCED = (
    "search: passages were dropped that this user may not see: the index does not check "
    "permissions itself (AZURE_SEARCH_PERMISSIONS), or it names what the app cannot read"
)

log = logging.getLogger("chat")


class Permissions(Protocol):
    """Limits searches to what a user may see."""

    counts_all: bool  # whether a search without a user counts all passages

    async def find_token(self, user: User) -> str | None:
        """Return the token that a search sends to the service. Raises ChatErrors."""
        ...

    def filter_fields(self, fields: IndexFields) -> IndexFields:
        """Return the fields that the app's filter uses."""
        ...

    def checked_fields(self, fields: IndexFields) -> tuple[str, ...]:
        """Return the fields of a passage that `visible` reads."""
        ...

    def visible(self, user: User, sources: Iterable[Source]) -> list[Source]:
        """Return the passages that the user may see, of those that the service returned."""
        ...


class FilterPermissions:
    """The app sends a filter with the ids of the user and the groups."""

    counts_all = True

    async def find_token(self, user: User) -> str | None:
        return None

    def filter_fields(self, fields: IndexFields) -> IndexFields:
        return fields

    def checked_fields(self, fields: IndexFields) -> tuple[str, ...]:
        return ()

    def visible(self, user: User, sources: Iterable[Source]) -> list[Source]:
        return list(sources)


class Tokens(Protocol):
    """Returns the token by which the service knows a user. Raises ChatErrors."""

    async def get(self, user: User) -> str: ...


class TokenPermissions:
    """The service reads the user's groups by a token of the user, and filters itself."""

    counts_all = False

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    async def find_token(self, user: User) -> str | None:
        return await self.tokens.get(user)

    def filter_fields(self, fields: IndexFields) -> IndexFields:
        """Return the fields without those of permissions: their empty lists mean nobody."""
        return replace(fields, oids="", groups="")

    def checked_fields(self, fields: IndexFields) -> tuple[str, ...]:
        return tuple(filter(None, (fields.oids, fields.groups)))

    def visible(self, user: User, sources: Iterable[Source]) -> list[Source]:
        """Return the passages without those that name others, or nobody.

        An index whose fields have no `permissionFilter` returns everything to everyone. Which
        groups the user has is not known here, so a passage for any group is not dropped.
        """
        returned = list(sources)
        visible = [source for source in returned if _can_be_visible(user, source)]
        if len(visible) < len(returned):
            log.error(NOT_ENFORCED)
        return visible


def _can_be_visible(user: User, source: Source) -> bool:
    groups = [group for group in source.groups if group != NOBODY]
    return bool(groups) or EVERYONE in source.oids or user.oid in source.oids


def bind(index: SearchIndex, token: str | None) -> SearchIndex:
    """Return the index as the user of a token sees it."""
    return index if token is None else replace(index, user_token=token)
