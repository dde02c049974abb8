"""Finds definitions that were used before a removal and are not any more."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from scripts.parts.python.modules import FUNCTIONS, join, module_name, read_module

Use = tuple[str, str]  # a module and a name in it, or "" and the name of an attribute
TESTS = ("tests/", "bench/")


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

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and (node.value.startswith("/") or node.value.isupper()):
            self.add("string", node.value)
        if isinstance(node.value, str) and node.value.isidentifier():
            self.add("", node.value)
            self.add("", node.value.lower())  # a setting is the field in upper case

    def visit_arg(self, node: ast.arg) -> None:
        self.add("fixture", node.arg)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_definition(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_definition(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        self._visit_owned(node, target.id if isinstance(target, ast.Name) else "")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_owned(node, node.target.id if isinstance(node.target, ast.Name) else "")

    def _visit_definition(self, node: ast.AST) -> None:
        self._visit_owned(node, node.name)  # type: ignore[attr-defined]

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
        for path, text in files:
            module = module_name(path)
            for use, owners in read_uses(text, module).items():
                self.users.setdefault(use, set()).update((module, owner) for owner in owners)

    def is_used(self, module: str, name: str) -> bool:
        """Whether something else than the definition itself, or a part of it, uses it."""
        scope, _, member = name.rpartition(".")
        users = self.users.get(("", member) if scope else (module, name), set())
        if module.startswith("tests."):
            users = users | self.users.get(("fixture", name), set())
        return any(
            user != module or not (owner == name or owner.startswith(name + "."))
            for user, owner in users
        )

    @cached_property
    def modules(self) -> set[str]:
        """The modules of which another one uses something."""
        modules = set()
        for (module, name), users in self.users.items():
            names = {module, f"{module}.{name}" if module else ""}
            modules |= {each for each in names if any(user != each for user, _ in users)}
        return modules


def python_files(tree: Mapping[str, str | bytes]) -> list[tuple[str, str]]:
    return [
        (path, text)
        for path, text in tree.items()
        if path.endswith(".py") and isinstance(text, str)
    ]


def find_unused(
    before: Mapping[str, str | bytes], tree: Mapping[str, str | bytes]
) -> tuple[dict[str, set[str]], set[str]]:
    """The definitions by file, and the files, that nothing uses any more and something used."""
    files, files_before = python_files(tree), python_files(before)
    code = [each for each in files if is_code(each[0])]
    code_before = [each for each in files_before if is_code(each[0])]
    now, then = Uses(code), Uses(code_before)
    all_now, all_then = Uses(files), Uses(files_before)
    names: dict[str, set[str]] = {}
    paths: set[str] = set()
    for path, text in files:
        module, is_test = module_name(path), not is_code(path)
        uses, uses_before = (all_now, all_then) if is_test else (now, then)
        unused = {
            name
            for name in read_module(text).definitions
            if uses_before.is_used(module, name) and not uses.is_used(module, name)
        }
        if unused:
            names[path] = unused
        is_entry = read_module(text).is_script or path.endswith("__init__.py")
        if module in uses_before.modules and module not in uses.modules and not is_entry:
            paths.add(path)
    return names, paths
