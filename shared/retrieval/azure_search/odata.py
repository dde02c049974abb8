"""Builds the OData filter of a search: access control, categories, the client's own filter.

A field name is empty if the index does not have the field.
"""

from __future__ import annotations

import re
from typing import Protocol

from shared.chat.overrides import Overrides
from shared.chat.request import User

# An id of a user or a group in Entra ID. search.in() splits at commas, which no id has.
PRINCIPAL_ID = re.compile(r"[\w.@:+-]{1,128}")


class FilterFields(Protocol):
    """The names of the fields that a filter uses."""

    @property
    def category(self) -> str:
        """Category of a passage."""
        ...

    @property
    def oids(self) -> str:
        """Users who may see a passage."""
        ...

    @property
    def groups(self) -> str:
        """Groups whose members may see a passage."""
        ...


def build_filter(names: FilterFields, user: User, overrides: Overrides) -> str | None:
    """Return the OData filter of a search; None if every passage may be found.

    An index with access control always has a filter: at least for public passages.
    """
    parts = [security_filter(names, user, overrides)]
    if names.category and overrides.include_category is not None:
        parts.append(f"{names.category} eq {quote(overrides.include_category)}")
    if names.category and overrides.exclude_category is not None:
        other = f"{names.category} ne {quote(overrides.exclude_category)}"
        parts.append(f"({other} or {names.category} eq null)")
    if overrides.filter is not None:
        parts.append(f"({overrides.filter})")
    return " and ".join(filter(None, parts)) or None


def security_filter(names: FilterFields, user: User, overrides: Overrides) -> str:
    """Return the condition for what `user` may see; empty if the index has no access control."""
    if not names.oids and not names.groups:
        return ""
    return f"({' or '.join(_security_clauses(names, user, overrides))})"


def _security_clauses(names: FilterFields, user: User, overrides: Overrides) -> list[str]:
    """Conditions, each of which makes a passage visible: public, or a filter matches the user."""
    unrestricted = [f"not {name}/any()" for name in (names.oids, names.groups) if name]
    clauses = [f"({' and '.join(unrestricted)})"]
    if not user.oid or not PRINCIPAL_ID.fullmatch(user.oid):
        return clauses
    if names.oids and overrides.use_oid_security_filter:
        clauses.append(f"{names.oids}/any(o: o eq {quote(user.oid)})")
    groups = ",".join(group for group in user.groups if PRINCIPAL_ID.fullmatch(group))
    if names.groups and overrides.use_groups_security_filter and groups:
        clauses.append(f"{names.groups}/any(g: search.in(g, {quote(groups)}, ','))")
    return clauses


def quote(text: str) -> str:
    """Return a string literal of OData, with its quotes doubled."""
    return "'" + text.replace("'", "''") + "'"
