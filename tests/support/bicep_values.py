"""Which values the expressions of infra/ have, and what is deployed, for given parameters.

Enough of Bicep's expressions for that; what only Azure knows is a text in its place.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tests.support import bicep

Node = Callable[[Any], Any]  # an expression: its value, by the scope with the values of its names
TOKEN = re.compile(
    r"\s*('(?:\\.|\$\{[^}]*\}|[^'\\])*'|-?\d+|\w+(?:::\w+)*|=>|==|!=|&&|\|\||!\.|[-?:!.,()\[\]{}<]|$|\S)"
)
OPERATORS: tuple[dict[str, Callable[[Node, Node], Node]], ...] = (  # the weakest first
    {"||": lambda left, right: lambda scope: left(scope) or right(scope)},
    {"&&": lambda left, right: lambda scope: left(scope) and right(scope)},
    {
        "==": lambda left, right: lambda scope: left(scope) == right(scope),
        "!=": lambda left, right: lambda scope: left(scope) != right(scope),
    },
    {"<": lambda left, right: lambda scope: left(scope) < right(scope)},
)
LITERALS = {"true": True, "false": False, "null": None}


class RefusedError(Exception):
    """The expression calls fail(); the message is its argument."""


def fail(message: str) -> None:
    """Raise RefusedError."""
    raise RefusedError(message)


def union(*values: Any) -> Any:
    """Return the union of objects, or of arrays in the order of first appearance."""
    if isinstance(values[0], Mapping):
        return {name: value for one in values for name, value in one.items()}
    return list(dict.fromkeys(item for one in values for item in one))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "concat": lambda *arrays: [item for array in arrays for item in array],
    "contains": lambda container, item: item in container,
    "empty": lambda value: not value,
    "fail": fail,
    "filter": lambda array, keep: [item for item in array if keep(item)],
    "flatten": lambda arrays: [item for array in arrays for item in array],
    "items": lambda mapping: [{"key": key, "value": mapping[key]} for key in sorted(mapping)],
    "join": lambda array, separator: separator.join(array),
    "last": lambda array: array[-1],
    "length": len,
    "map": lambda array, change: [change(item) for item in array],
    "replace": lambda text, old, new: text.replace(old, new),
    "split": lambda text, separator: text.split(separator),
    "string": str,
    "toLower": str.lower,
    "union": union,
}


class Parser:
    """A parser of the expression that starts at `position`; what follows it is left alone."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text, self.position = text, position

    def peek(self) -> str:
        """Return the next token; empty at the end."""
        return cast(re.Match[str], TOKEN.match(self.text, self.position))[1]

    def take(self) -> str:
        """Return the next token, and go past it."""
        match = cast(re.Match[str], TOKEN.match(self.text, self.position))
        self.position = match.end()
        return match[1]

    def skip(self, token: str) -> bool:
        """Go past this token if it is the next one. Returns whether it was."""
        return self.peek() == token and bool(self.take())

    def expression(self) -> Node:
        """Parse an expression: a condition with two values, or its first part alone."""
        condition = self.operation(0)
        if not self.skip("?"):
            return condition
        yes = self.expression()
        assert self.skip(":"), self.text[self.position :]
        no = self.expression()
        return lambda scope: yes(scope) if condition(scope) else no(scope)

    def operation(self, level: int) -> Node:
        """Parse the operators of a level and of those that bind more strongly."""
        if level == len(OPERATORS):
            return self.operand()
        left = self.operation(level + 1)
        while self.peek() in OPERATORS[level]:
            combine = OPERATORS[level][self.take()]
            left = combine(left, self.operation(level + 1))
        return left

    def operand(self) -> Node:
        """Parse a value with the properties and the index after it."""
        if self.skip("!"):
            negated = self.operand()
            return lambda scope: not negated(scope)
        node = self.value()
        while True:
            if self.skip(".") or self.skip("!."):
                node = member(node, constant(self.take()))
            elif self.text.startswith("[", self.position):  # with a space before it: an array
                self.take()
                node = member(node, self.expression())
                self.skip("]")
            else:
                return node

    def value(self) -> Node:
        """Parse a literal, a name, a call or a lambda."""
        token = self.take()
        if token == "(":
            (inside,) = self.items(")")
            return inside
        if token == "[" and self.skip("for"):
            return self.loop()
        if token == "[":
            items = self.items("]")
            return lambda scope: [item(scope) for item in items]
        if token == "{":
            return self.object()
        if token.startswith("'"):
            return text(token[1:-1])
        if re.fullmatch(r"-?\d+", token):
            return constant(int(token))
        return self.name(token)

    def name(self, name: str) -> Node:
        """Parse what starts with a name: a call, a lambda, a constant, or the name alone."""
        if self.skip("=>"):
            body = self.expression()
            return lambda scope: lambda item: body(ChainMap({name: item}, scope))
        if self.skip("("):
            return call(name, self.items(")"))
        if name in LITERALS:
            return constant(LITERALS[name])
        return lambda scope: scope[name]

    def items(self, end: str) -> list[Node]:
        """Parse expressions up to a bracket, with commas or lines between them."""
        items = []
        while not self.skip(end):
            items.append(self.expression())
            self.skip(",")
        return items

    def loop(self) -> Node:
        """Parse what comes after `[for`."""
        name, _, array, _ = self.take(), self.take(), self.expression(), self.take()
        (body,) = self.items("]")
        return lambda scope: [body(ChainMap({name: item}, scope)) for item in array(scope)]

    def object(self) -> Node:
        """Parse the keys and values of an object."""
        values = {}
        while not self.skip("}"):
            key = self.take().strip("'")
            assert self.skip(":"), self.text[self.position :]
            values[key] = self.expression()
            self.skip(",")
        return lambda scope: {key: value(scope) for key, value in values.items()}


def constant(value: Any) -> Node:
    """Return an expression with this value."""
    return lambda _: value


def text(literal: str) -> Node:
    """Return the expression of a string, with those that stand in it."""
    parts = [
        Parser(part[2:-1]).expression() if part.startswith("${") else constant(part)
        for part in re.split(r"(\$\{[^}]*\})", re.sub(r"\\(.)", r"\1", literal))
    ]
    return lambda scope: "".join(str(part(scope)) for part in parts)


def call(name: str, arguments: list[Node]) -> Node:
    """Return the expression of a call; of a function of Azure it is its name."""
    if name not in FUNCTIONS:
        return constant(name)
    return lambda scope: FUNCTIONS[name](*(argument(scope) for argument in arguments))


def member(node: Node, key: Node) -> Node:
    """Return the expression of a property; of what only Azure knows it is a text."""

    def value(scope: Any) -> Any:
        whole, name = node(scope), key(scope)
        return f"{whole}.{name}" if isinstance(whole, str) else whole[name]

    return value


@dataclass(frozen=True)
class BicepFile:
    """A file of infra/ with values for its parameters: the scope of its expressions."""

    file: str
    parameters: Mapping[str, Any]
    symbol: str = ""  # of the module, in main.bicep

    def __getitem__(self, name: str) -> Any:
        """Return the value of a parameter, a variable or a module; a resource is its symbols."""
        if name in self.parameters:
            return self.parameters[name]
        source = bicep.text(self.file)
        if variable := re.search(rf"(?m)^var {name} = ", source):
            return Parser(source, variable.end()).expression()(self)
        if module := bicep.blocks("module", self.file).get(name):
            assert self.deploys(module), f"{name} is not deployed, and has no outputs"
            return {"outputs": Outputs(self.module(name, module))}
        return f"{self.symbol}.{name}".lstrip(".")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression. Raises RefusedError."""
        return Parser(expression).expression()(self)

    def deploys(self, block: bicep.Block) -> bool:
        """Return whether the condition of a module or resource is true."""
        return bool(self.evaluate(block.condition or "true"))

    def module(self, symbol: str, block: bicep.Block) -> BicepFile:
        """Return the file of a module with the parameters that it is deployed with."""
        start = block.body.index("  params: ") + len("  params: ")
        return BicepFile(block.source, Parser(block.body, start).expression()(self), symbol)

    def modules(self) -> Iterator[tuple[str, BicepFile]]:
        """Yield the modules that are deployed."""
        for symbol, block in bicep.blocks("module", self.file).items():
            if self.deploys(block):
                yield symbol, self.module(symbol, block)

    def resources(self) -> Iterator[str]:
        """Yield the resources that are deployed: of a loop, if it has anything to go through."""
        for symbol, block in bicep.blocks("resource", self.file).items():
            items = block.loop.partition(" in ")[2]
            if self.deploys(block) and (not items or self[items]):
                yield symbol

    def properties(self, symbol: str) -> Any:
        """Return the values of a resource, without the resources that stand in it."""
        body = bicep.blocks("resource", self.file)[symbol].body
        own = re.sub(r"(?ms)^  resource [^\n]*(?:\{\n.*?^  \}|\})$", "", body)
        return self.evaluate(f"{{\n{own}\n}}")


@dataclass(frozen=True)
class Outputs:
    """The outputs of a module."""

    scope: BicepFile

    def __getitem__(self, name: str) -> Any:
        """Return the value of an output."""
        return self.scope.evaluate(bicep.outputs(self.scope.file)[name])
