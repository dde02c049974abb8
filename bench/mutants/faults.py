"""The faults that can be planted in a file: those of mutmut, and calls that are left out.

No fault is in an annotation, a decorator, an import, a sentence or a message of the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from random import Random
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_assignment, operator_string

WITHOUT_FAULTS = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
CALLS_WITHOUT_FAULTS = ("log.", "TypeVar(", "ParamSpec(")
EMPTY = ("None", "False", "0", '""', "()")  # to assign None instead changes nothing


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of a node of a file's tree.

    `start` is the line at which the node's statement begins, `end` the node's last line.
    """

    file: str
    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode
    start: int
    end: int

    def code(self) -> str:
        """The code of the whole file with the fault."""
        changed: Any = self.module.deep_replace(self.old, self.new)
        return str(changed.code)

    def diff(self) -> str:
        """The change, as the lines of a diff."""
        before, after = (text.splitlines() for text in (self.module.code, self.code()))
        return "\n".join(list(unified_diff(before, after, lineterm="", n=2))[2:])


def to_code(node: cst.CSTNode) -> str:
    """The code of a node."""
    return str(cst.Module([]).code_for_node(node))


def change_word(node: cst.SimpleString) -> Iterator[cst.CSTNode]:
    """Change a string that is no sentence."""
    if " " not in node.value:
        yield from list(operator_string(node))[:1]


def forget_value(node: cst.Assign | cst.AnnAssign) -> Iterator[cst.CSTNode]:
    """Assign None instead of a value."""
    if node.value and to_code(node.value) not in EMPTY:
        yield from operator_assignment(node)


def remove_call(node: cst.Expr) -> Iterator[cst.CSTNode]:
    """Remove a statement that only calls."""
    if isinstance(node.value, cst.Call | cst.Await):
        yield node.with_changes(value=cst.Ellipsis())


OTHERS = [row for row in mutation_operators if row[1] not in (operator_string, operator_assignment)]
OPERATORS: list[tuple[Any, Any]] = [
    *OTHERS,
    (cst.SimpleString, change_word),
    (cst.Assign | cst.AnnAssign, forget_value),
    (cst.Expr, remove_call),
]


def choose_faults(module: Path, count: int, chance: Random) -> Iterator[Fault]:
    """Choose lines, and a fault of each: all kinds of faults that a line has are as likely."""
    lines: dict[tuple[str, int], dict[str, list[Fault]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(module.rglob("*.py")) if module.is_dir() else [module]:
        for kind, fault in _list_faults(path.as_posix(), path.read_text("utf-8")):
            lines[fault.file, fault.end][kind].append(fault)
    for line in chance.sample(list(lines), min(count, len(lines))):
        yield chance.choice(chance.choice(list(lines[line].values())))


def _list_faults(file: str, code: str) -> Iterator[tuple[str, Fault]]:
    """The faults of a file, each with its kind."""
    wrapper = MetadataWrapper(cst.parse_module(code))
    positions: Mapping[cst.CSTNode, Any] = wrapper.resolve(PositionProvider)
    for node, statement in _walk(wrapper.module, wrapper.module):
        for kind, operator in OPERATORS:
            for new in operator(node) if isinstance(node, kind) and node in positions else ():
                start, end = positions[statement].start.line, positions[node].end.line
                yield operator.__name__, Fault(file, wrapper.module, node, new, start, end)


def _walk(node: Any, statement: cst.CSTNode) -> Iterator[tuple[Any, cst.CSTNode]]:
    """The nodes that may have faults, each with the statement that it is a part of."""
    code = to_code(node) if isinstance(node, cst.Call | cst.Expr) else ""
    if isinstance(node, WITHOUT_FAULTS) or code.startswith(CALLS_WITHOUT_FAULTS):
        return
    inner = node if isinstance(node, cst.BaseStatement | cst.SimpleStatementLine) else statement
    yield node, inner
    for child in node.children:
        yield from _walk(child, inner)
