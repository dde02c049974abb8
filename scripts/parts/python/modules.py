"""What a Python file defines, imports and binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Module:
    """A parsed file."""

    # Local names of imports, in any scope: the module, and the name in it ("" for itself).
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    every_import: list[tuple[str, str]] = field(default_factory=list)
    bindings: dict[str, set[str]] = field(default_factory=dict)  # names by scope
    # Functions, classes, constants and members by qualified name: the parameters of a function, or
    # the fields of a class, in order.
    definitions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)  # of the classes
    is_script: bool = False


@lru_cache(maxsize=4096)
def read_module(text: str) -> Module:
    """Parse the text of a file."""
    module = Module()
    _Reader(module).visit(ast.parse(text))
    return module


class _Reader(ast.NodeVisitor):
    def __init__(self, module: Module) -> None:
        self.module, self.scope = module, ""
        self.kinds: list[str] = []
        module.bindings[""] = set()

    def bind(self, name: str) -> None:
        self.module.bindings.setdefault(self.scope, set()).add(name)

    def define(self, name: str, parameters: tuple[str, ...] = ()) -> None:
        if "function" not in self.kinds:
            self.module.definitions.setdefault(join(self.scope, name), parameters)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias, alias.name if alias.asname else alias.name.partition(".")[0], "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._import(alias, node.module or "", alias.name)

    def _import(self, alias: ast.alias, module: str, name: str) -> None:
        local = alias.asname or (name or module)
        self.module.imports[local] = module, name
        self.module.every_import.append((module if name else alias.name, name))
        self.bind(local)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id)
            self.define(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if is_own and isinstance(node.ctx, ast.Store) and self.kinds[-2:] == ["class", "function"]:
            name = join(self.scope.rpartition(".")[0], node.attr)
            self.module.definitions.setdefault(name, ())
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not self.scope and "__name__" in ast.unparse(node.test):
            self.module.is_script = True
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        fields = [
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and "ClassVar" not in ast.unparse(each.annotation)
        ]
        self.bind(node.name)
        self.define(node.name, tuple(fields))
        self.module.bases[join(self.scope, node.name)] = [
            ast.unparse(base).rpartition(".")[2] for base in node.bases
        ]
        self._enter(node, "class")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bind(node.name)
        self.define(node.name, tuple(list_parameters(node.args)))
        self._enter(node, "function")

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for name in list_parameters(node.args):
            self.bind(name)  # in the scope around it: near enough
        self.generic_visit(node)

    def _enter(self, node: Named, kind: str) -> None:
        outer, self.scope = self.scope, join(self.scope, node.name)
        self.kinds.append(kind)
        if not isinstance(node, ast.ClassDef):
            for name in list_parameters(node.args):
                self.bind(name)
        self.generic_visit(node)
        self.kinds.pop()
        self.scope = outer


def list_parameters(arguments: ast.arguments) -> Iterator[str]:
    """The names of the parameters, those of positions first."""
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield each.arg
    for extra in (arguments.vararg, arguments.kwarg):
        if extra:
            yield extra.arg


def join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def module_name(path: str) -> str:
    """The dotted name of a file: of a package for `__init__.py`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
