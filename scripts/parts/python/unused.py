"""Finds definitions that were used before a removal and are not any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from scripts.parts.python.modules import FUNCTIONS, Named, join, module_name, read_module
from scripts.parts.removal import Tree, text_files

DISCOVERED = ("tests/support/flavors/", "bench/requests/")  # imported by folder, not by name
SETTINGS = "shared/settings.py"  # whose fields are the variables, in lower case
Use = tuple[str, str]  # a module and a name in it, or "" and the name of an attribute
TESTS = ("tests/", "bench/")
# Classes of libraries that use nothing of what a subclass defines. BaseModel is none of them: a
# body may have a field that nothing reads.
PASSIVE = ("Exception", "NamedTuple", "Protocol", "ValueError")


@lru_cache(maxsize=4096)
def read_uses(text: str, module: str) -> Mapping[Use, frozenset[str]]:
    """What a file uses, each with the definitions of the file that use it ("": its own lines)."""
    collector = _Collector(text, module)
    collector.visit(ast.parse(text))
    return {use: frozenset(owners) for use, owners in collector.uses.items()}


class _Collector(ast.NodeVisitor):
    def __init__(self, text: str, module: str) -> None:
        self.imports, self.module = read_module(text).imports, module
        self.uses: dict[Use, set[str]] = {}
        self.owner = ""
        self.depth = 0  # of functions

    def add(self, module: str, name: str) -> None:
        self.uses.setdefault((module, name), set()).add(self.owner)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            module, name = self.imports.get(node.id, (self.module, node.id))
            self.add(module, name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.add("", node.attr)
            target = isinstance(node.value, ast.Name) and self.imports.get(node.value.id)
            if target:
                self.add(".".join(filter(None, target)), node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "part":  # `mark.part`
            for each in node.args:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    self.add("part", each.value)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and (
            self.module.startswith("tests.") or node.value.startswith("/") or node.value.isupper()
        ):
            self.add("string", node.value)
        if isinstance(node.value, str) and node.value.isidentifier():
            self.add("", node.value)
            self.add("", node.value.lower())  # a setting is the field in upper case

    def visit_arg(self, node: ast.arg) -> None:
        self.add("fixture", node.arg)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: Named) -> None:
        self._visit_owned(node, node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        self._visit_owned(node, target.id if isinstance(target, ast.Name) else "")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_owned(node, node.target.id if isinstance(node.target, ast.Name) else "")

    def _visit_owned(self, node: ast.AST, name: str) -> None:
        outer = self.owner
        if not self.depth and name:
            self.owner = join(outer, name)
        self.depth += isinstance(node, FUNCTIONS)
        self.generic_visit(node)
        self.depth -= isinstance(node, FUNCTIONS)
        self.owner = outer


def is_code(path: str) -> bool:
    """Whether a file is neither a test nor a benchmark."""
    return not path.startswith(TESTS)


class Uses:
    """All uses in some files, by module and name."""

    def __init__(self, files: Iterable[tuple[str, str]]) -> None:
        self.users: dict[Use, set[Use]] = {}
        self.modules: dict[str, set[Use]] = {}  # the users of each module from outside of it
        for path, text in files:
            user = module_name(path)
            for (module, name), owners in read_uses(text, user).items():
                users = {(user, owner) for owner in owners}
                self.users.setdefault((module, name), set()).update(users)
                for used in {module, f"{module}.{name}"} - {user} if module else ():
                    self.modules.setdefault(used, set()).update(users)

    def of(self, module: str, name: str) -> set[Use]:
        """What uses a definition, but for itself and its parts."""
        scope, _, member = name.rpartition(".")
        users = self.users.get(("", member) if scope else (module, name), set())
        if module.startswith("tests."):
            users = users | self.users.get(("fixture", name), set())
        own = name + "."
        return {
            (user, owner)
            for user, owner in users
            if user != module or not (owner + ".").startswith(own)
        }


def _find_foreign_bases(tree: Tree) -> set[str]:
    """The bases that are, or have, a class of a library, which may use what a class defines."""
    bases: dict[str, set[str]] = {}  # of classes, by their last names
    for _, text in text_files(tree, ".py"):
        for name, each in read_module(text).bases.items():
            bases.setdefault(name.rpartition(".")[2], set()).update(each)
    foreign = {base for each in bases.values() for base in each} - bases.keys() - {*PASSIVE}
    size = -1
    while size < len(foreign):
        size = len(foreign)
        foreign |= {name for name, each in bases.items() if each & foreign}
    return foreign


class UnusedFinder:
    """Compares a tree with the one before: what nothing used there is an entry, and stays."""

    def __init__(self, before: Tree) -> None:
        self.before = self._read(before)
        self.foreign = _find_foreign_bases(before)

    def _read(self, tree: Tree) -> tuple[Uses, Uses]:
        """The uses of the code, and those of everything: code that only tests use is unused."""
        files = text_files(tree, ".py")
        uses = Uses(each for each in files if is_code(each[0])), Uses(files)
        for path, text in text_files(tree, ".html"):  # templates of Jinja
            for name in re.findall(r"\.(\w+)", text):
                for each in uses:
                    each.users.setdefault(("", name), set()).add((path, ""))
        return uses

    def find(self, tree: Tree) -> tuple[dict[str, set[str]], set[str]]:
        """The definitions by file, and the files, that nothing uses any more."""
        now = self._read(tree)
        names: dict[Use, tuple[str, set[Use]]] = {}  # path and users of a definition
        modules: dict[str, tuple[str, set[Use]]] = {}
        for path, text in text_files(tree, ".py"):
            if path.startswith(DISCOVERED):
                continue
            module, of = module_name(path), int(not is_code(path))
            bases = {} if path == SETTINGS else read_module(text).bases
            for name in read_module(text).definitions:
                is_own = self.foreign.isdisjoint(bases.get(name.rpartition(".")[0], ()))
                if is_own and self.before[of].of(module, name):
                    names[module, name] = path, now[of].of(module, name)
            is_entry = read_module(text).is_script or path.endswith("__init__.py")
            if module in self.before[of].modules and not is_entry:
                modules[module] = path, now[of].modules.get(module, set())
        unused = _close(names, modules)
        found: dict[str, set[str]] = {}
        for module, name in unused:
            if (module, name) in names:
                found.setdefault(names[module, name][0], set()).add(name)
        return found, {modules[module][0] for module, name in unused if not name}


def _close(
    names: Mapping[Use, tuple[str, set[Use]]], modules: Mapping[str, tuple[str, set[Use]]]
) -> set[Use]:
    """What only unused definitions use, and these; a module stands with an empty name."""
    unused: set[Use] = set()

    def is_unused(user: Use) -> bool:
        module, owner = user
        scope = owner.partition(".")[0]
        return bool(unused & {(module, owner or "."), (module, scope or "."), (module, "")})

    size = -1
    while size < len(unused):
        size = len(unused)
        unused |= {key for key, (_, users) in names.items() if all(map(is_unused, users))}
        unused |= {(key, "") for key, (_, users) in modules.items() if all(map(is_unused, users))}
    return unused
