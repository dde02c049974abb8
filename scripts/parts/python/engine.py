"""Removes Python code to a fixpoint: what uses a name that is gone, then what nothing uses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from functools import partial

import libcst as cst
from libcst.metadata import PositionProvider

from scripts.parts.catalog import PartsError
from scripts.parts.python.attributes import Place, find_missing_attributes
from scripts.parts.python.modules import Module, join, module_name, read_module
from scripts.parts.python.scopes import Gone, Names
from scripts.parts.python.statements import Pruner
from scripts.parts.python.tidy import tidy
from scripts.parts.python.unused import (
    DISCOVERED,
    SETTINGS,
    UnusedFinder,
    is_code,
    read_uses,
)
from scripts.parts.removal import Removal, Tree, text_files

# The tool itself: what it names may be gone.
TOOL = ("scripts/parts/", "tests/unit/scripts/parts/", "tests/template/test_parts")
Parameters = dict[tuple[str, str], list[tuple[int, str]]]


def remove_code(tree: Tree, removal: Removal) -> None:
    """Remove the Python code of the parts, and all that was there for it alone."""
    engine = Engine(tree, removal)
    engine.prune(_read_seeds(tree, removal))
    finder = UnusedFinder(removal.before)
    while True:
        tidy(tree, removal.before)
        names, paths = finder.find(tree)
        if not names and not paths:
            break
        removal.delete(tree, paths)
        engine.prune({path: each for path, each in names.items() if path not in paths})


def _read_seeds(tree: Tree, removal: Removal) -> dict[str, set[str]]:
    """The names of the parts by file. Raises PartsError if a file has no such name any more."""
    seeds: dict[str, set[str]] = {}
    for part in removal.parts:
        for path, names in part.names.items():
            if path in removal.paths:
                continue
            text = tree.get(path)
            for name in names:
                if not isinstance(text, str) or name.rpartition(".")[2] not in text:
                    raise PartsError(f"{path} has no {name}: change `names` in parts.toml")
            seeds.setdefault(path, set()).update(names)
    fields = {f"Settings.{name.lower()}" for name in removal.settings}
    seeds[SETTINGS] = seeds.get(SETTINGS, set()) | fields
    return seeds


class Engine:
    """Changes the Python files of a tree."""

    def __init__(self, tree: Tree, removal: Removal) -> None:
        self.tree, self.removal = tree, removal
        self.modules = {module_name(path): path for path, _ in text_files(removal.before, ".py")}
        self.parts = set(removal.gone)
        self.methods = Counter(  # how many classes have a member of a name
            name.rpartition(".")[2]
            for _, text in text_files(removal.before, ".py")
            for name in read_module(text).definitions
            if "." in name
        )
        self.endings: set[str] = set()  # of deleted paths
        self.missing: dict[tuple[str, str], bool] = {}  # until the tree changes

    def is_missing(self, module: str, name: str) -> bool:
        """Whether a module, or a name in it, was there before and is not any more."""
        if (module, name) not in self.missing:
            was = _has(self.removal.before, self.modules, module, name)
            self.missing[module, name] = was and not _has(self.tree, self.modules, module, name)
        return self.missing[module, name]

    def prune(self, dead: Mapping[str, set[str]]) -> None:
        """Remove the dead names by file, and all that cannot do without what has gone."""
        members, parameters = set[str](), Parameters()
        places: dict[str, set[Place]] = {}
        lost_members = False  # since mypy has looked
        while True:
            self.missing.clear()
            self.endings = self.removal.endings
            gone = Gone(self.is_missing, members, parameters=parameters, parts=self.parts)
            removed = set[tuple[str, str]]()
            parameters_now = Parameters()
            affected = [
                (path, text)
                for path, text in text_files(self.tree, ".py")
                if path in dead or path in places or self._is_affected(path, text, gone)
            ]
            for path, text in affected:
                here = replace(gone, places=places.get(path, set()))
                new = self._prune_file(path, text, dead.get(path, set()), here)
                if new != text:
                    removed |= self._compare(path, text, new, parameters_now)
                    self.missing.clear()
            dead = {}
            self._delete_empty_packages()
            members, parameters = members | self._gone_members(removed), parameters_now
            lost_members |= any("." in name for _, name in removed)
            self.removal.definitions |= removed
            self.removal.settings |= {
                name.removeprefix("Settings.").upper()
                for path, name in removed
                if path == SETTINGS and name.startswith("Settings.")
            }
            places = {}
            if not removed and not parameters:
                if lost_members:
                    places, lost_members = find_missing_attributes(self.tree), False
                if not places:
                    return

    def _is_affected(self, path: str, text: str, gone: Gone) -> bool:
        if any(self.is_missing(*each) for each in read_module(text).every_import):
            return True
        for module, name in read_uses(text, module_name(path)):
            if (module, name) in gone.parameters:
                return True
            if module in self.modules and self.is_missing(module, name):
                return True
            if not module and name.upper() in self.removal.settings and name.islower():
                return True
            if module == "part" and name in self.parts:
                return True
            if module == "string" and self.is_gone_string(path, name):
                return True
        return False

    def is_gone_string(self, path: str, text: str) -> bool:
        """Whether a text is a setting that is gone, or outside of the app a route; in a test also
        a file, a module, or a name of infra/.
        """
        if path.startswith(TOOL):
            return False
        if text in self.removal.settings:
            return True
        if path.startswith("tests/") and self._names_what_is_gone(path, text):
            return True
        is_route = text.startswith("/") and not path.startswith(("shared/", *DISCOVERED))
        return is_route and self.removal.is_gone_route(text)

    def _names_what_is_gone(self, path: str, text: str) -> bool:
        if path.startswith("tests/template/") and is_name_of(self.removal.infra, text):
            return True
        if "." not in text:
            return False
        is_package = text.replace(".", "-") in self.removal.packages
        ends = (index for index, each in enumerate(text + ".") if each == ".")
        is_missing = any(self.is_missing(text[:end], "") for end in ends)
        return is_package or text in self.endings or is_missing

    def _prune_file(self, path: str, text: str, dead: Iterable[str], gone: Gone) -> str:
        gone = replace(gone, is_gone_string=partial(self.is_gone_string, path))
        new, removes_module = prune(
            text, module_name(path), set(dead), gone, path.startswith("tests/")
        )
        if removes_module or _has_lost_its_tests(path, text, new):
            self.removal.delete(self.tree, [path])
            return ""
        self.tree[path] = new
        return new

    def _compare(
        self, path: str, text: str, new: str, parameters: Parameters
    ) -> set[tuple[str, str]]:
        """The definitions that a change has removed; adds the removed parameters."""
        before, after = read_module(text).definitions, read_module(new).definitions
        for name, original in before.items():
            if name in after:
                lost = [each for each in enumerate(original) if each[1] not in after[name]]
                key = self._call_key(path, name)
                if lost and key:
                    parameters[key] = lost
        return {(path, name) for name in before if name not in after}

    def _call_key(self, path: str, name: str) -> tuple[str, str] | None:
        """How calls name it; None for a method whose name others have, too."""
        scope, _, last = name.rpartition(".")
        if last == "__init__":
            return module_name(path), scope
        if not scope:
            return module_name(path), name
        is_alone = not last.startswith("__") and self.methods[last] == 1
        return ("", last) if is_alone else None

    def _gone_members(self, removed: Iterable[tuple[str, str]]) -> set[str]:
        """The names of removed members that no class has any more."""
        names: set[str] = set()
        for of_tests in (True, False):  # what only tests define now is of the code no more
            files = [each for each in text_files(self.tree, ".py") if of_tests or is_code(each[0])]
            defined = {
                name.rpartition(".")[2]
                for _, text in files
                for name in read_module(text).definitions
                if "." in name
            }
            lost = {name for path, name in removed if "." in name and is_code(path) != of_tests}
            names |= {name.rpartition(".")[2] for name in lost} - defined
        return names

    def _delete_empty_packages(self) -> None:
        """Delete an `__init__.py` that had modules beside it, and has none any more."""
        folders = {
            path.rpartition("/")[0] for path in self.tree if not path.endswith("__init__.py")
        }
        for path, text in text_files(self.tree, ".py"):
            folder = path.removesuffix("/__init__.py")
            if folder != path and text.count("\n") < 30:
                had = any(each.startswith(folder + "/") for each in self.removal.paths)
                has = any((each + "/").startswith(folder + "/") for each in folders)
                if had and not has:
                    self.removal.delete(self.tree, [path])


def is_name_of(infra: Set[str], text: str) -> bool:
    """Whether a text is a name of infra/, or an expression that uses one.

    Of a longer one only names such as `cosmosName` count: others are words, too.
    """
    names = re.findall(r"\w+", text)
    is_expression = bool(names) and not re.search(r"\s", text)
    return (
        text in infra
        or (is_expression and names[0] in infra)
        or any(name in infra and not name.islower() for name in names)
    )


def prune(
    text: str, module: str, dead: set[str], gone: Gone, is_test: bool = False
) -> tuple[str, bool]:
    """Remove from a file what is dead. Returns the text, and whether the whole module should go."""
    tree, parsed = cst.parse_module(text), read_module(text)
    own = {(".", name): each for (where, name), each in gone.parameters.items() if where == module}
    gone = replace(gone, parameters={**gone.parameters, **own})
    attributes = _find_attributes(tree, gone.places) if gone.places else set()
    while True:
        names = Names(parsed, set(dead))
        pruner = Pruner(names, gone, attributes, is_test=is_test)
        pruned = tree.visit(pruner)
        if not names.dead and not pruner.removals:
            return text, False
        new = pruned.code
        names.dead |= _lost_names(parsed, read_module(new))
        if names.dead == dead:
            return new, "pytestmark" in dead
        dead = names.dead


def _find_attributes(tree: cst.Module, places: Set[Place]) -> set[int]:
    """The nodes at these places, by id."""
    wrapper = cst.MetadataWrapper(tree, unsafe_skip_copy=True)
    return {
        id(node)
        for node, range in wrapper.resolve(PositionProvider).items()
        if isinstance(node, cst.Attribute)
        and (range.start.line, range.start.column, node.attr.value) in places
    }


def _lost_names(before: Module, after: Module) -> set[str]:
    """The names, and attributes of self, that nothing binds any more in their scope."""
    members = {
        name
        for name in before.definitions.keys() - after.definitions.keys()
        if name.rpartition(".")[0] in after.definitions
    }
    return members | {
        join(scope, name)
        for scope, names in before.bindings.items()
        for name in names
        if scope in after.bindings and name not in after.bindings[scope]
    }


def _has_lost_its_tests(path: str, text: str, new: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test_") and "def test_" in text and "def test_" not in new


def _has(tree: Tree, modules: Mapping[str, str], module: str, name: str) -> bool:
    path = modules.get(module)
    text = tree.get(path) if path else None
    if not isinstance(text, str):
        return False
    if not name or name in read_module(text).bindings[""]:
        return True
    inner = modules.get(f"{module}.{name}")
    return inner in tree
