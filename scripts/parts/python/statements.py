"""Removes what uses a dead name from statements, and the definitions that cannot do without it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import libcst as cst
from libcst import matchers

from scripts.parts.python.expressions import (
    ExpressionPruner,
    close,
    contains_dead,
    is_absence,
    is_dead,
)
from scripts.parts.python.modules import join
from scripts.parts.python.scopes import Gone, Names

# Stands for a `return` or `raise` that is gone: what leads to it has no purpose.
DEAD_END = cst.SimpleStatementLine([cst.Expr(cst.Name("__dead_end__"))])
REMOVED = cst.RemovalSentinel.REMOVE


def is_dead_end(node: cst.CSTNode | None) -> bool:
    """Whether a statement, or a block, leads to a `return` that is gone."""
    if isinstance(node, (cst.IndentedBlock, cst.Else, cst.Finally)):
        body = node.body if isinstance(node, cst.IndentedBlock) else node.body.body
        return any(map(is_dead_end, body))
    return isinstance(node, cst.SimpleStatementLine) and node.body == DEAD_END.body


def is_empty(block: cst.BaseSuite) -> bool:
    """Whether a block has nothing but a docstring and `return None`."""
    return all(
        isinstance(each, cst.SimpleStatementLine) and _does_nothing(each.body[0])
        for each in block.body
    )


def _does_nothing(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Return):
        return statement.value is None or statement.value.deep_equals(cst.Name("None"))
    return isinstance(statement, cst.Expr) and isinstance(statement.value, cst.SimpleString)


class Pruner(ExpressionPruner):
    """Removes all that uses a dead name of a file."""

    is_test = False  # of a test, nothing or all is removed
    _removals_before: list[int]
    _branches: set[int]

    def __init__(
        self, names: Names, gone: Gone, dead_attributes: Set[int], *, is_test: bool = False
    ) -> None:
        super().__init__(names, gone, dead_attributes)
        self.is_test, self._removals_before, self._branches = is_test, [], set()

    # Simple statements

    def leave_SimpleStatementLine(self, original_node: Any, updated_node: Any) -> Any:
        if any(each.deep_equals(DEAD_END.body[0]) for each in updated_node.body):
            return DEAD_END
        return updated_node if updated_node.body else REMOVED

    def leave_Expr(self, original_node: Any, updated_node: Any) -> Any:
        if not contains_dead(updated_node.value):
            return updated_node
        return self._remove(original_node.value)

    def _remove(self, value: cst.BaseExpression | None) -> Any:
        """Remove a statement with this value: a step of a test goes with its function."""
        return DEAD_END.body[0] if self._is_step(value) else REMOVED

    def _is_step(self, value: cst.BaseExpression | None) -> bool:
        """Whether a test calls something here, but for what has the setting or route of a part."""
        return (
            isinstance(value, (cst.Await, cst.Call, cst.Yield))
            and self._is_in_a_test()
            and not self._has_gone_string(value)
        )

    def _has_gone_string(self, node: cst.CSTNode) -> bool:
        return any(
            isinstance(text := each.evaluated_value, str) and self.gone.is_gone_string(text)
            for each in matchers.findall(node, matchers.SimpleString())
            if isinstance(each, cst.SimpleString)
        )

    def leave_Assert(self, original_node: Any, updated_node: Any) -> Any:
        return REMOVED if is_dead(updated_node) else updated_node

    leave_Del = leave_AugAssign = leave_Assert

    def leave_Return(self, original_node: Any, updated_node: Any) -> Any:
        return DEAD_END.body[0] if is_dead(updated_node) else updated_node

    leave_Raise = leave_Return

    def visit_Assign(self, node: cst.Assign) -> None:
        tuples = [target.target for target in node.targets] + [node.value]
        if tuples[0].deep_equals(cst.Name("__all__")) and isinstance(node.value, cst.List):
            self._exports |= {id(each.value) for each in node.value.elements}
        if all(isinstance(each, cst.Tuple) for each in tuples):
            self._parallel |= {id(each) for each in tuples}

    def leave_Assign(self, original_node: Any, updated_node: Any) -> Any:
        value, targets = updated_node.value, updated_node.targets
        if id(original_node.value) in self._parallel:
            return self._without_pairs(original_node, updated_node)
        if contains_dead(value) or any(map(is_dead, targets)):
            return self._remove(original_node.value)
        return updated_node

    def _without_pairs(self, original_node: Any, updated_node: Any) -> Any:
        elements = updated_node.targets[0].target.elements
        pairs = list(zip(elements, updated_node.value.elements, strict=False))
        rest = [pair for pair in pairs if not any(map(is_dead, pair))]
        if len(rest) == len(pairs):
            return updated_node
        originals = zip(original_node.value.elements, pairs, strict=False)
        if any(self._is_step(each.value) for each, pair in originals if pair not in rest):
            return DEAD_END.body[0]
        if len(rest) > 1:
            lists = [cst.Tuple(_plain(each), lpar=[], rpar=[]) for each in zip(*rest, strict=True)]
        else:
            lists = [each.value for each in rest[0]] if rest else []
        if not lists:
            return REMOVED
        return updated_node.with_changes(targets=[cst.AssignTarget(lists[0])], value=lists[1])

    def leave_AnnAssign(self, original_node: Any, updated_node: Any) -> Any:
        is_gone = is_dead(updated_node) or _is_never_set(original_node, updated_node)
        return self._remove(original_node.value) if is_gone else updated_node

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Import(self, original_node: Any, updated_node: Any) -> Any:
        return self._without_missing(updated_node, "")

    def leave_ImportFrom(self, original_node: Any, updated_node: Any) -> Any:
        module = (
            cst.helpers.get_full_name_for_node(updated_node.module) if updated_node.module else ""
        )
        if isinstance(updated_node.names, cst.ImportStar):
            return updated_node
        return self._without_missing(updated_node, module or "")

    def _without_missing(self, node: Any, module: str) -> Any:
        rest = []
        for alias in node.names:
            name = alias.evaluated_name
            local = alias.evaluated_alias or (name if module else name.partition(".")[0])
            is_missing = self.gone.is_missing(*((module, name) if module else (name, "")))
            if is_missing or join(self.names.scope, local) in self.names.dead:
                self.removals += 1
            else:
                rest.append(alias)
        if len(rest) == len(node.names):
            return node
        if not rest:
            return REMOVED
        rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(names=rest)

    # Blocks

    def leave_IndentedBlock(self, original_node: Any, updated_node: Any) -> Any:
        if any(map(is_dead_end, updated_node.body)):
            return updated_node.with_changes(body=[DEAD_END])
        return updated_node

    def visit_If(self, node: cst.If) -> None:
        self._branches.add(id(node.orelse))

    def leave_If(self, original_node: Any, updated_node: Any) -> Any:
        branch, orelse = id(original_node) in self._branches, updated_node.orelse
        if isinstance(orelse, cst.Else) and (is_dead_end(orelse) or not orelse.body.body):
            dead_end, orelse = is_dead_end(orelse), None
            updated_node = updated_node.with_changes(orelse=None)
            if dead_end and is_dead_end(updated_node.body):
                return cst.Else(updated_node.body) if branch else DEAD_END
        if is_absence(updated_node.test):
            body = updated_node.body
            return cst.Else(body) if branch else _inline(body, updated_node)
        body = updated_node.body
        if not (is_dead(updated_node.test) or is_dead_end(body) or not body.body):
            return updated_node
        if orelse is None:
            return REMOVED
        if branch or isinstance(orelse, cst.If):
            return orelse.with_changes(leading_lines=updated_node.leading_lines)
        return _inline(orelse.body, updated_node)

    def leave_For(self, original_node: Any, updated_node: Any) -> Any:
        header = updated_node.iter if isinstance(updated_node, cst.For) else updated_node.test
        body = updated_node.body
        if contains_dead(header) or is_dead_end(body):
            return DEAD_END if self._is_in_a_test() else REMOVED
        return updated_node if body.body else REMOVED

    leave_While = leave_For

    def _is_in_a_test(self) -> bool:
        """Whether this is in a function of a test, which means nothing without one of its steps."""
        return self.is_test and "function" in self.names.kinds

    def leave_With(self, original_node: Any, updated_node: Any) -> Any:
        if is_dead_end(updated_node.body):
            return DEAD_END
        if any(map(is_dead, updated_node.items)):
            returns = any(_ends(each) for each in updated_node.body.body)
            return DEAD_END if returns or self._is_in_a_test() else REMOVED
        return updated_node if updated_node.body.body else REMOVED

    def leave_Try(self, original_node: Any, updated_node: Any) -> Any:
        body = updated_node.body
        if is_dead_end(body):
            return DEAD_END
        handlers = [
            each
            for each in updated_node.handlers
            if not is_dead(each.type) and not is_dead_end(each.body)
        ]
        handlers = [each if each.body.body else _passing(each) for each in handlers]
        if not body.body:
            return REMOVED
        if not handlers and not updated_node.finalbody:
            return _inline(body, updated_node)
        return updated_node.with_changes(handlers=handlers)

    # Definitions

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        super().visit_FunctionDef(node)
        if join(self.names.scope, node.name.value) in self.names.dead:
            self.names.enter(node.name.value, "function")
            return False
        self.names.enter(node.name.value, "function")
        return None

    def visit_FunctionDef_params(self, node: cst.FunctionDef) -> None:
        self._removals_before.append(self.removals)

    def leave_FunctionDef(self, original_node: Any, updated_node: Any) -> Any:
        self.names.leave()
        name = original_node.name.value
        if join(self.names.scope, name) in self.names.dead:
            return REMOVED
        body, decorators = updated_node.body, updated_node.decorators
        touched = self.removals > self._removals_before.pop()
        is_gone = (
            is_dead_end(body)
            or (is_empty(body) and not is_empty(original_node.body))
            or is_dead(updated_node.returns)
            or (touched and _yields(original_node) and not _yields(updated_node))
            or (
                self._is_all_or_nothing(original_node)
                and (touched or any(map(is_dead, decorators)))
            )
        )
        if is_gone:
            self.removals += 1
            self.names.kill(name)
            return REMOVED
        return updated_node.with_changes(decorators=[e for e in decorators if not is_dead(e)])

    def _is_all_or_nothing(self, function: cst.FunctionDef) -> bool:
        is_fixture = any(
            "fixture" in cst.Module([]).code_for_node(each.decorator)
            for each in function.decorators
        )
        return self.is_test and (function.name.value.startswith("test_") or is_fixture)

    def leave_Param(self, original_node: Any, updated_node: Any) -> Any:
        name = original_node.name.value
        is_gone = join(self.names.scope, name) in self.names.dead
        is_gone |= _is_never_set(original_node, updated_node)
        if self._is_dead_fixture(name):
            self.removals += 1
        if is_gone or is_dead(updated_node.annotation) or contains_dead(updated_node.default):
            self.names.kill(name)
            return REMOVED
        return updated_node

    def _is_dead_fixture(self, name: str) -> bool:
        """Whether a parameter of a test, or of a fixture, is a fixture of its file that is gone."""
        return self.is_test and self.names.kinds == ["function"] and name in self.names.dead

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.names.enter("<lambda>", "function")

    def leave_Lambda(self, original_node: Any, updated_node: Any) -> Any:
        self.names.leave()
        return updated_node

    def leave_Parameters(self, original_node: Any, updated_node: Any) -> Any:
        if len(updated_node.params) + len(updated_node.kwonly_params) == len(
            original_node.params
        ) + len(original_node.kwonly_params):
            return updated_node
        star = updated_node.star_arg
        if isinstance(star, cst.ParamStar) and not updated_node.kwonly_params:
            star = cst.MaybeSentinel.DEFAULT
        return updated_node.with_changes(
            params=close(updated_node.params),
            kwonly_params=close(updated_node.kwonly_params),
            star_arg=star,
        )

    def visit_ClassDef(self, node: cst.ClassDef) -> bool | None:
        super().visit_ClassDef(node)
        is_gone = join(self.names.scope, node.name.value) in self.names.dead
        self.names.enter(node.name.value, "class")
        return False if is_gone else None

    def leave_ClassDef(self, original_node: Any, updated_node: Any) -> Any:
        self.names.leave()
        name, body, bases = original_node.name.value, updated_node.body, updated_node.bases
        rest = [each for each in bases if not is_dead(each)]
        is_gone = (
            join(self.names.scope, name) in self.names.dead
            or (is_empty(body) and not is_empty(original_node.body))
            or (bases and not rest)
            or (self.is_test and any(map(is_dead, updated_node.decorators)))
        )
        if is_gone:
            self.removals += 1
            self.names.kill(name)
            return REMOVED
        if len(rest) < len(bases):
            bases = close(rest)
        decorators = [each for each in updated_node.decorators if not is_dead(each)]
        return updated_node.with_changes(bases=bases, decorators=decorators)


def _is_never_set(original: Any, updated: Any) -> bool:
    """Whether a parameter or field can only be None now."""
    before, after = original.annotation, updated.annotation
    return bool(
        before
        and isinstance(before.annotation, cst.BinaryOperation)
        and after.annotation.deep_equals(cst.Name("None"))
    )


def _yields(function: cst.FunctionDef) -> bool:
    return "yield" in cst.Module([]).code_for_node(function.body)


def _inline(block: Any, statement: Any) -> Any:
    """The statements of a block in place of the statement around it."""
    if not block.body:
        return REMOVED
    first, *rest = block.body
    if hasattr(first, "leading_lines"):
        lines = [*statement.leading_lines, *first.leading_lines]
        first = first.with_changes(leading_lines=lines)
    return cst.FlattenSentinel([first, *rest])


def _plain(elements: Any) -> Any:
    return [cst.Element(each.value) for each in elements]


def _passing(handler: cst.ExceptHandler) -> cst.ExceptHandler:
    line = cst.SimpleStatementLine([cst.Pass()])
    return handler.with_changes(body=cst.IndentedBlock([line]))


def _ends(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(each, (cst.Return, cst.Raise)) for each in statement.body
    )
