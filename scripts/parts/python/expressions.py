"""Removes what uses a dead name from expressions: the smallest thing that leaves sense.

An element goes from its list, a keyword from its call, an operand from `|` and `or`. All else that
contains a dead expression is dead itself, and the statement around it is asked next.
"""

from __future__ import annotations

import ast
from collections.abc import Set
from functools import lru_cache
from typing import Any

import libcst as cst

from scripts.parts.python.scopes import Gone, Names

DEAD = cst.Name("__dead__")
DEAD_TEXT = cst.SimpleString('"__dead__"')  # in place of a string that is joined to another one
UNIONS = ("Literal", "Union")
COPIES = ("replace", "model_copy", "_replace")  # their keywords are fields
# Nodes in which nothing is removed: half of a file.
PUNCTUATION = {
    *(cst.AssignEqual, cst.Colon, cst.Comma, cst.Dot, cst.LeftParen, cst.RightParen),
    *(cst.EmptyLine, cst.ParenthesizedWhitespace, cst.SimpleWhitespace, cst.TrailingWhitespace),
}
# Nodes that change only if something in them is dead.
AROUND = {
    *(cst.AnnAssign, cst.Assert, cst.Assign, cst.AugAssign, cst.Del, cst.Expr, cst.Raise),
    *(cst.Return, cst.SimpleStatementLine),
    *(cst.BinaryOperation, cst.BooleanOperation, cst.Dict, cst.IfExp, cst.List, cst.Set),
    *(cst.Subscript, cst.Tuple),
}


def is_dead(node: cst.CSTNode | None) -> bool:
    """Whether an expression is dead, or something around one, such as an argument."""
    if isinstance(node, cst.BaseExpression):
        return isinstance(node, (cst.Name, cst.SimpleString)) and node.value in (
            DEAD.value,
            DEAD_TEXT.value,
        )
    if node is None or isinstance(node, (cst.BaseStatement, cst.BaseSuite)):
        return False
    return any(map(contains_dead, node.children))


@lru_cache(maxsize=16384)
def evaluate(literal: str) -> str | bytes:
    """The value of the literal of a string."""
    value: str | bytes = ast.literal_eval(literal)
    return value


def is_absence(node: cst.CSTNode | None) -> bool:
    """Whether a test holds because something is dead: `not dead`, `dead is None`."""
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not) and is_dead(node.expression)
    return (
        isinstance(node, cst.Comparison)
        and is_dead(node.left)
        and isinstance(node.comparisons[0].operator, cst.Is)
    )


def contains_dead(node: cst.CSTNode | None) -> bool:
    """Whether what stands around a node cannot do with it."""
    return is_dead(node) or is_absence(node)


class ExpressionPruner(cst.CSTTransformer):
    """Replaces dead expressions of a file by DEAD, and removes it from what can do without."""

    def __init__(self, names: Names, gone: Gone, dead_attributes: Set[int] = frozenset()) -> None:
        super().__init__()
        self.names, self.gone, self.dead_attributes = names, gone, dead_attributes  # nodes, by id
        self._counts: list[int] = []  # of removals, when each open node was entered
        self.removals = 0  # how many expressions were found to be dead
        self.is_touched = False  # whether one of them is in the node that is left
        self.words = {word for word in names.dead if word.startswith(("'", '"'))}
        self._exports: set[int] = set()  # texts of `__all__`, by id
        self._labels: set[int] = set()  # nodes of names that are no uses, by id
        self._pieces: set[int] = set()  # strings that are joined, by id
        self._rows: set[int] = set()  # tuples that are elements, or compared, by id
        self._parallel: set[int] = set()  # tuples that are assigned to a tuple, by id

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._counts.append(self.removals)
        return type(node) not in PUNCTUATION and super().on_visit(node)

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        if attribute == "params":  # the base class looks up a method for each attribute
            super().on_visit_attribute(node, attribute)

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        pass

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        count = self._counts.pop()
        self.is_touched = self.removals > count
        if not self.is_touched and type(original_node) in AROUND:
            return updated_node
        updated: Any = super().on_leave(original_node, updated_node)
        if self.removals == count:  # nothing in it is dead: most nodes
            return updated
        if id(original_node) in self._pieces:
            is_gone = is_dead(updated) or any(map(contains_dead, updated.children))
            return DEAD_TEXT if is_gone else updated
        if not isinstance(updated, cst.BaseExpression) or is_dead(updated):
            return updated
        if id(original_node) in self._parallel or is_absence(updated):
            return updated
        return DEAD if any(map(contains_dead, updated.children)) else updated

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> None:
        self._pieces |= {id(node.left), id(node.right)}

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._labels.add(id(node.attr))

    def visit_Element(self, node: cst.Element) -> None:
        self._rows.add(id(node.value))

    def visit_DictElement(self, node: cst.DictElement) -> None:
        self._rows.add(id(node.value))

    def visit_Comparison(self, node: cst.Comparison) -> None:
        if isinstance(node.comparisons[0].operator, (cst.Equal, cst.NotEqual)):
            self._rows |= {id(node.left), id(node.comparisons[0].comparator)}

    def visit_Arg(self, node: cst.Arg) -> None:
        self._labels.add(id(node.keyword))

    def visit_Param(self, node: cst.Param) -> None:
        self._labels.add(id(node.name))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        self._labels.add(id(node.name))
        return None

    def visit_ClassDef(self, node: cst.ClassDef) -> bool | None:
        self._labels.add(id(node.name))
        return None

    def leave_Name(self, original_node: Any, updated_node: Any) -> Any:
        if id(original_node) in self._labels or not self.names.is_dead(updated_node.value):
            return updated_node
        return self._dead()

    def _dead(self) -> cst.Name:
        self.removals += 1
        return DEAD

    def leave_SimpleString(self, original_node: Any, updated_node: Any) -> Any:
        text = evaluate(updated_node.value)
        is_gone = isinstance(text, str) and self.gone.is_gone_string(text)
        if id(original_node) in self._exports:
            is_gone = isinstance(text, str) and self.names.is_dead(text)
        return self._dead() if is_gone or updated_node.value in self.words else updated_node

    def leave_FormattedString(self, original_node: Any, updated_node: Any) -> Any:
        first = updated_node.parts[0] if updated_node.parts else None
        if isinstance(first, cst.FormattedStringText) and self.gone.is_gone_string(first.value):
            return self._dead()
        return updated_node

    def leave_Attribute(self, original_node: Any, updated_node: Any) -> Any:
        if id(original_node) in self.dead_attributes:
            return self._dead()
        name, holder = updated_node.attr.value, updated_node.value
        base = holder.value if isinstance(holder, cst.Name) else ""
        if target := self.names.module.imports.get(base):
            return self._dead() if self._is_module_attribute(target, name) else updated_node
        last = holder.attr.value if isinstance(holder, cst.Attribute) else base
        if last == "settings" and self.gone.is_gone_string(name.upper()):
            return self._dead()
        is_own = base == "self" and self.names.is_dead_member(name)
        return self._dead() if is_own else updated_node

    def _is_module_attribute(self, target: tuple[str, str], name: str) -> bool:
        module = ".".join(filter(None, target))
        return self.gone.is_missing(module, name) and not self.gone.is_missing(module, "")

    def leave_List(self, original_node: Any, updated_node: Any) -> Any:
        return self._without_elements(updated_node)

    def leave_Set(self, original_node: Any, updated_node: Any) -> Any:
        return self._without_elements(updated_node)

    def leave_Dict(self, original_node: Any, updated_node: Any) -> Any:
        return self._without_elements(updated_node)

    def leave_Tuple(self, original_node: Any, updated_node: Any) -> Any:
        is_row = id(original_node) in self._rows  # without one of its columns it says nothing
        if is_row or id(original_node) in self._parallel:
            return updated_node
        return self._without_elements(updated_node)

    def _without_elements(self, node: Any) -> Any:
        rest = [each for each in node.elements if not is_dead(each)]
        if len(rest) == len(node.elements):
            return node
        return node.with_changes(elements=close(rest)) if rest else DEAD

    def leave_Subscript(self, original_node: Any, updated_node: Any) -> Any:
        if isinstance(updated_node.value, cst.Name) and updated_node.value.value in UNIONS:
            rest = [each for each in updated_node.slice if not is_dead(each)]
            if rest and len(rest) < len(updated_node.slice):
                return updated_node.with_changes(slice=close(rest))
        return updated_node

    def leave_Call(self, original_node: Any, updated_node: Any) -> Any:
        if self.is_touched and is_dead(updated_node.func):
            return DEAD
        if self._is_mark_of_a_part(updated_node):
            return self._dead()
        arguments = self._without_parameters(updated_node)
        dead = [each for each in arguments if is_dead(each)] if self.is_touched else []
        rest = [each for each in arguments if each not in dead]
        callee = callee_name(updated_node)
        if any(
            callee in ("param", "fixture") or (each.keyword is None and each.star != "**")
            for each in dead
        ):
            return DEAD
        if len(rest) == len(updated_node.args):
            return updated_node
        self.removals += 1
        return updated_node.with_changes(args=close(rest))

    def _is_mark_of_a_part(self, call: cst.Call) -> bool:
        function = call.func
        return (
            isinstance(function, cst.Attribute)
            and function.attr.value == "part"
            and callee_name(cst.Call(function.value)) == "mark"
            and any(
                isinstance(each.value, cst.SimpleString)
                and each.value.evaluated_value in self.gone.parts
                for each in call.args
            )
        )

    def _without_parameters(self, call: cst.Call) -> list[cst.Arg]:
        """The arguments of a call without those of parameters that were removed."""
        arguments = list(call.args)
        if callee_name(call) in COPIES:
            return [
                each
                for each in arguments
                if not each.keyword or each.keyword.value not in self.gone.members
            ]
        removed = list(self.gone.parameters.get(self._resolve(call.func), ()))
        indexes = {index for index, _ in removed}
        keywords = {name for _, name in removed}
        starred = next((i for i, each in enumerate(arguments) if each.star), len(arguments))
        return [
            each
            for index, each in enumerate(arguments)
            if not (each.keyword.value in keywords if each.keyword else index in indexes)
            or (index >= starred and not each.keyword)
        ]

    def _resolve(self, function: cst.BaseExpression) -> tuple[str, str]:
        """The module and name of what is called; "" and the name of a method."""
        imports = self.names.module.imports
        if isinstance(function, cst.Name):
            return imports.get(function.value, (".", function.value))
        if isinstance(function, cst.Attribute):
            if isinstance(function.value, cst.Name) and function.value.value in imports:
                return ".".join(filter(None, imports[function.value.value])), function.attr.value
            return "", function.attr.value
        return "", ""

    def leave_BinaryOperation(self, original_node: Any, updated_node: Any) -> Any:
        keeps = isinstance(updated_node.operator, (cst.BitOr, cst.Add))
        return _other_operand(updated_node) if keeps else updated_node

    def leave_BooleanOperation(self, original_node: Any, updated_node: Any) -> Any:
        if isinstance(updated_node.operator, cst.Or):
            return _other_operand(updated_node)
        if is_absence(updated_node.left):
            return updated_node.right
        if is_absence(updated_node.right):
            return updated_node.left
        return updated_node

    def leave_IfExp(self, original_node: Any, updated_node: Any) -> Any:
        if is_dead(updated_node.test) or is_dead(updated_node.body):
            return updated_node.orelse
        if is_absence(updated_node.test) or is_dead(updated_node.orelse):
            return updated_node.body
        return updated_node


def callee_name(call: cst.Call) -> str:
    """The last word of what is called."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


def _other_operand(node: Any) -> Any:
    if is_dead(node.left):
        return node.right.with_changes(lpar=node.lpar, rpar=node.rpar) if node.lpar else node.right
    return node.left if is_dead(node.right) else node


def close(elements: Any) -> Any:
    """The elements without a comma after the last one: the formatter adds it where it belongs."""
    *first, last = elements or [None]
    return [*first, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)] if last else []
