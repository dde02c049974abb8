"""Which parts go together, and which stay."""

from __future__ import annotations

import pytest

from scripts.parts.catalog import PartsError, read_catalog

CATALOG = read_catalog(
    """
[parts.core]
gives = "what stays"
stays = true

[parts.store]
gives = "a store"

[parts.api]
gives = "an API"
needs = ["store"]
"""
)


def test_part_goes_with_what_it_is_needed_by() -> None:
    assert CATALOG.with_dependents(["store"]) == ("store", "api")


def test_kept_part_keeps_what_it_needs() -> None:
    assert CATALOG.all_but(["api"]) == ()
    assert CATALOG.all_but(["store"]) == ("api",)


def test_part_that_stays_is_kept_and_cannot_be_removed() -> None:
    assert CATALOG.all_but(["core"]) == ("store", "api")
    with pytest.raises(PartsError, match="no command removes core"):
        CATALOG.check_removable(["store", "core"])


def test_unknown_part_is_named() -> None:
    with pytest.raises(PartsError, match="no part is called sotre: `make parts` lists them"):
        CATALOG.with_dependents(["sotre"])
