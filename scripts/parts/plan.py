"""Plans a removal in memory: each remover changes the tree, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scripts.parts.bicep import remove_from_bicep
from scripts.parts.catalog import CATALOG, Catalog, PartsError, read_catalog
from scripts.parts.elsewhere import remove_elsewhere
from scripts.parts.python.engine import remove_code
from scripts.parts.removal import Removal, Tree

Remover = Callable[[Tree, Removal], None]


def delete_paths(tree: Tree, removal: Removal) -> None:
    """Delete the files of the parts."""
    removal.delete(tree, [path for path in tree if any(part.owns(path) for part in removal.parts)])


# In this order: what is not Python follows what Python's removers found.
REMOVERS: tuple[Remover, ...] = (delete_paths, remove_from_bicep, remove_code, remove_elsewhere)


def catalog_of(tree: Tree) -> Catalog:
    text = tree.get(CATALOG)
    if not isinstance(text, str):
        raise PartsError(f"there is no {CATALOG}")
    return read_catalog(text)


def is_on(tree: Tree, catalog: Catalog, name: str) -> bool:
    """Whether a part is still there: a file of it is."""
    return any(map(catalog.parts[name].owns, tree))


def plan(tree: Tree, names: Iterable[str]) -> Removal:
    """Remove parts from the tree, with those that need them. Raises PartsError."""
    catalog = catalog_of(tree)
    off = [name for name in catalog.parts if not is_on(tree, catalog, name)]
    gone = catalog.with_dependents({*names, *off})
    catalog.check_removable(gone)
    removal = Removal(catalog, tuple(name for name in gone if name not in off), gone, dict(tree))
    removal.settings |= {name for part in removal.parts for name in part.settings}
    for remove in REMOVERS:
        remove(tree, removal)
    return removal
