"""Builds the OData filter of a search: access control, categories, the client's own filter."""

from __future__ import annotations

import re

from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.field_mapping import IndexFields

# An id of a user or a group in Entra ID. search.in() splits at commas, which no id has.
PRINCIPAL_ID = re.compile(r"[\w.@:+-]{1,128}")


def build_filter(fields: IndexFields, user: User, overrides: Overrides) -> str | None:
    """Return the OData filter of a search; None if every passage may be found.

    An index with access control always has a filter: at least for public passages.
    """
    parts = [security_filter(fields, user, overrides)]
    if fields.category and overrides.include_category is not None:
        parts.append(f"{fields.category} eq {quote(overrides.include_category)}")
    if fields.category and overrides.exclude_category is not None:
        other = f"{fields.category} ne {quote(overrides.exclude_category)}"
        parts.append(f"({other} or {fields.category} eq null)")
    if overrides.filter is not None:
        parts.append(f"({overrides.filter})")
    return " and ".join(filter(None, parts)) or None


def security_filter(fields: IndexFields, user: User, overrides: Overrides) -> str:
    """Return the condition for what `user` may see; empty if the index has no access control."""
    if not fields.has_access_control:
        return ""
    return f"({' or '.join(_security_clauses(fields, user, overrides))})"


def _security_clauses(fields: IndexFields, user: User, overrides: Overrides) -> list[str]:
    """Conditions, each of which makes a passage visible: public, or a filter matches the user."""
    unrestricted = [f"not {name}/any()" for name in (fields.oids, fields.groups) if name]
    clauses = [f"({' and '.join(unrestricted)})"]
    if not user.oid or not PRINCIPAL_ID.fullmatch(user.oid):
        return clauses
    if fields.oids and overrides.use_oid_security_filter:
        clauses.append(f"{fields.oids}/any(o: o eq {quote(user.oid)})")
    groups = ",".join(group for group in user.groups if PRINCIPAL_ID.fullmatch(group))
    if fields.groups and overrides.use_groups_security_filter and groups:
        clauses.append(f"{fields.groups}/any(g: search.in(g, {quote(groups)}, ','))")
    return clauses


def quote(text: str) -> str:
    """Return a string literal of OData, with its quotes doubled."""
    return "'" + text.replace("'", "''") + "'"
