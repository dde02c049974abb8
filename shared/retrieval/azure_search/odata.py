"""The filter of a search: who may see what, which categories, and what else a client narrows it to.

A name that is empty is that of a field that the index does not have.
"""

from __future__ import annotations

import re
from typing import Protocol

from shared.chat.overrides import Overrides
from shared.chat.request import User

# What Entra ID calls users and groups; search.in() splits at commas, which no id has.
ID = re.compile(r"[\w.@:+-]{1,128}")


class FieldNames(Protocol):
    """The names of an index's fields."""

    @property
    def category(self) -> str:
        """One category a passage."""
        ...

    @property
    def oids(self) -> str:
        """Users who may see it."""
        ...

    @property
    def groups(self) -> str:
        """Groups who may see it."""
        ...


def condition(names: FieldNames, user: User, overrides: Overrides) -> str | None:
    """The OData filter for a search; None where everything may be found.

    What is public is a condition, too, where the index says who may see what.
    """
    parts = [visible(names, user, overrides)]
    if names.category and overrides.include_category is not None:
        parts.append(f"{names.category} eq {quoted(overrides.include_category)}")
    if names.category and overrides.exclude_category is not None:
        other = f"{names.category} ne {quoted(overrides.exclude_category)}"
        parts.append(f"({other} or {names.category} eq null)")
    if overrides.filter is not None:
        parts.append(f"({overrides.filter})")
    return " and ".join(filter(None, parts)) or None


def visible(names: FieldNames, user: User, overrides: Overrides) -> str:
    """The part of it that says who may see what; empty where the index does not."""
    if not names.oids and not names.groups:
        return ""
    return f"({' or '.join(seen(names, user, overrides))})"


def seen(names: FieldNames, user: User, overrides: Overrides) -> list[str]:
    """What each makes a passage visible: it is public, or an enabled filter matches the user."""
    nobody = [f"not {name}/any()" for name in (names.oids, names.groups) if name]
    found = [f"({' and '.join(nobody)})"]
    if not user.oid or not ID.fullmatch(user.oid):
        return found
    if names.oids and overrides.use_oid_security_filter:
        found.append(f"{names.oids}/any(o: o eq {quoted(user.oid)})")
    groups = ",".join(group for group in user.groups if ID.fullmatch(group))
    if names.groups and overrides.use_groups_security_filter and groups:
        found.append(f"{names.groups}/any(g: search.in(g, {quoted(groups)}, ','))")
    return found


def quoted(text: str) -> str:
    """A string in OData: its quotes are doubled."""
    return "'" + text.replace("'", "''") + "'"
