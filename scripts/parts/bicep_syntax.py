"""Bicep as declarations with expressions, and what an expression becomes where names are constants.

It parses what infra/ uses of the language; SyntaxError names what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<space>[ \t]+|//[^\n]*)
    |(?P<newline>\n)
    |(?P<string>'(?:[^'\\$]|\\.|\$(?!\{)|\$\{(?:[^{}']|'[^']*')*\})*')
    |(?P<name>\w+)
    |(?P<operator>=>|==|!=|<=|>=|&&|\|\||\?\?|::|\.\.\.|.)""",
    re.VERBOSE,
)
DECLARATION = re.compile(
    r"(?m)^(?P<head>(?://.*\n|@(?:[^\n]|\n(?=[ })\]\n]))*\n)*)"
    r"(?P<kind>param|var|resource|module|output|type|metadata|targetScope)\b *(?P<name>\w*)"
)
OPERATORS = ("??", "||", "&&", "==", "!=", "<", ">", "<=", ">=")
CONSTANT = re.compile(r"true|false|null|-?\d+|'[^'$]*'|\{ *\}|\[ *\]")
EMPTY = ("''", "{}", "[]", "null")
GONE = "\0"


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression, `text[start:end]`; `name` is its name, key or operator."""

    kind: str
    start: int
    end: int
    name: str = ""
    children: tuple[Node, ...] = ()


@dataclass(slots=True)
class Parser:
    """Parses one declaration."""

    text: str
    tokens: list[tuple[str, str, int]] = field(default_factory=list)
    position: int = 0

    def __post_init__(self) -> None:
        for match in TOKEN.finditer(self.text):
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match[0], match.start()))
        self.tokens.append(("end", "", len(self.text)))

    def peek(self) -> str:
        return self.tokens[self.position][1]

    def take(self, expected: str = "") -> tuple[str, str, int]:
        token = self.tokens[self.position]
        if expected and token[1] != expected:
            raise SyntaxError(f"{expected} expected: {self.text[token[2] :][:60]!r}")
        self.position += 1
        return token

    def skip(self, separators: str = "\n") -> None:
        while self.peek() and self.peek() in separators:
            self.position += 1

    def end(self) -> int:
        _, text, start = self.tokens[self.position - 1]
        return start + len(text)

    def node(self, kind: str, start: int, name: str, *children: Node) -> Node:
        return Node(kind, start, self.end(), name, children)

    def value(self) -> Node:
        """What stands behind the `=` of a declaration."""
        while self.take()[1] != "=":
            pass
        return self.expression()

    def expression(self) -> Node:
        start = self.tokens[self.position][2]
        if self.peek() == "if":
            self.take()
            condition, body = self.primary(), self.primary()
            return self.node("if", start, "", condition, body)
        first = self.binary()
        if self.peek() != "?":
            return first
        self.take()
        second = self.expression()
        self.take(":")
        return self.node("ternary", start, "", first, second, self.expression())

    def binary(self, level: int = 0) -> Node:
        if level == 3:
            return self.unary()
        operators = (OPERATORS[:2], OPERATORS[2:3], OPERATORS[3:])[level]
        start, left = self.tokens[self.position][2], self.binary(level + 1)
        while self.peek() in operators:
            operator = self.take()[1]
            left = self.node("binary", start, operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        start = self.tokens[self.position][2]
        if self.peek() in ("!", "-"):
            operator = self.take()[1]
            return self.node("unary", start, operator, self.unary())
        return self.postfix(start, self.primary())

    def postfix(self, start: int, node: Node) -> Node:
        while self.peek() in (".", "::", "[", "(", "!", "=>"):
            operator = self.take()[1]
            if operator in (".", "::"):
                self.take()
                node = self.node("member", start, "", node)
            elif operator == "(":
                node = self.node("call", start, node.name, *self.items(")"))
            elif operator == "[":
                node = self.node("member", start, "", node, *self.items("]"))
            elif operator == "=>":
                node = self.node("lambda", start, "", self.expression())
            else:
                node = self.node("member", start, "", node)
        return node

    def primary(self) -> Node:
        kind, text, start = self.take()
        if text == "(":
            return self.node("group", start, "", *self.items(")"))
        if text == "{":
            return self.node("object", start, "", *self.items("}", keys=True))
        if text == "[":
            self.skip()
        if text == "[" and self.peek() == "for":
            return self.loop(start)
        if text == "[":
            return self.node("array", start, "", *self.items("]"))
        if kind not in ("name", "string"):
            raise SyntaxError(f"an expression expected: {self.text[start:][:60]!r}")
        return self.node(kind, start, text)

    def loop(self, start: int) -> Node:
        while self.take()[1] != "in":
            pass
        source = self.expression()
        self.take(":")
        body = self.expression()
        self.skip()
        self.take("]")
        return self.node("loop", start, "", source, body)

    def items(self, end: str, keys: bool = False) -> Iterator[Node]:
        self.skip("\n,")
        while self.peek() != end:
            yield self.item() if keys else self.expression()
            self.skip("\n,")
        self.take(end)

    def item(self) -> Node:
        _, name, start = self.take()
        if name == "resource" and self.peek() != ":":
            return self.node("item", start, "", self.value())
        self.take(":")
        return self.node("item", start, name, self.expression())


def is_constant(text: str) -> bool:
    """Whether a text is a literal without content of its own."""
    return CONSTANT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Folder:
    """Writes an expression with `constants` in the place of names; GONE is what is empty."""

    text: str
    constants: Mapping[str, str]

    def fold(self, node: Node) -> str:
        """The text of a node."""
        if node.kind == "name":
            return self.constants.get(node.name, node.name)
        texts = [self.fold(child) for child in node.children]
        changed = self.splice(node, texts)
        if node.kind == "item":
            return self.property(node, texts[0], changed)
        if changed == self.text[node.start : node.end]:
            return changed
        if node.kind in ("array", "call"):
            return self.join(node, texts, changed)
        return self.decide(node, texts, changed)

    def decide(self, node: Node, texts: list[str], changed: str) -> str:
        """Of what depends on a condition, or on what is repeated."""
        match node.kind, texts[0]:
            case "unary", ("true" | "false") as value:
                return "false" if value == "true" else "true"
            case "binary", _ if node.name in ("&&", "||"):
                return self.connect(node.name, texts, changed)
            case (("ternary" | "if"), "true"):
                return texts[1]
            case (("ternary" | "if"), "false"):
                return texts[2] if node.kind == "ternary" else GONE
            case "loop", "[]":
                return GONE
            case "group", value if is_constant(value):
                return value
        return changed

    def connect(self, operator: str, texts: list[str], changed: str) -> str:
        """Of `&&` or `||`."""
        decides = "false" if operator == "&&" else "true"
        if decides in texts:
            return decides
        rest = [text for text in texts if text not in ("true", "false")]
        return changed if len(rest) == 2 else (rest or texts)[0]

    def join(self, node: Node, texts: list[str], changed: str) -> str:
        """Of an array, and of a call: `empty`, and those whose empty arguments add nothing."""
        if node.kind == "array":
            return self.splice(node, [GONE if text == "null" else text for text in texts])
        if node.name == "empty" and is_constant(texts[0]):
            return "true" if texts[0] in EMPTY else "false"
        if node.name not in ("union", "concat"):
            return changed
        rest = [text for text in texts if text not in EMPTY]
        if len(rest) < 2:
            return (rest or texts)[0]
        return self.splice(node, [GONE if text in EMPTY else text for text in texts])

    def property(self, node: Node, value: str, changed: str) -> str:
        """Of a key with its value."""
        was = self.text[node.children[0].start : node.children[0].end]
        gone = self.constants.get(node.name) == "null" or value == GONE
        return GONE if gone or (value in EMPTY and value != was) else changed

    def splice(self, node: Node, texts: list[str]) -> str:
        """The node's own text with that of its children."""
        parts, position = [], node.start
        for child, text in zip(node.children, texts, strict=True):
            parts += [self.text[position : child.start], text]
            position = child.end
        return "".join([*parts, self.text[position : node.end]])


def close_gaps(text: str) -> str:
    """Remove what is GONE with its lines, the comments above and its comma."""
    text = re.sub(r"(?m)^(?:[ ]*//[^\n]*\n)*[ ]*\0,?(?: *//[^\n]*)?\n", GONE + "\n", text)
    text = re.sub(r",?[ ]*(?:\n\0)+\n([ ]*\))", r"\n\1", text)
    text = re.sub(r"(?m)^\0\n", "", text)
    return re.sub(r"\0, *|, *\0|\0", "", text)
