"""Removes a part from infra/: its parameters become constants, and what follows from them is gone.

`{"useMemory": "false"}` removes that parameter, each `if` and choice that it decides, the module
that is never deployed, and the parameters, variables, outputs and files that nothing then uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from scripts.parts.bicep_syntax import (
    DECLARATION,
    GONE,
    Folder,
    Node,
    Parser,
    close_gaps,
    is_constant,
)
from scripts.parts.removal import Removal, Tree, text_files

UNREAD = ("", "metadata", "targetScope", "type")
MAIN = "infra/main.bicep"
PARAMETERS = "infra/main.parameters.json"
Constants = dict[str, dict[str, str]]  # of each file: a name, and its value as Bicep


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration with its comments and decorators (`head`), or other lines."""

    head: str
    text: str
    kind: str = ""
    name: str = ""

    def value(self) -> Node | None:
        """Its expression, if it has one."""
        has_value = re.match(r"[^\n=]*=", self.text) is not None
        return Parser(self.text).value() if self.kind not in UNREAD and has_value else None


def read_declarations(text: str) -> Iterator[Declaration]:
    """The declarations of a file, in order; together they are its text."""
    starts = [match.start() for match in DECLARATION.finditer(text)]
    if starts and starts[0]:
        yield Declaration("", text[: starts[0]])
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        match = DECLARATION.match(text, start)
        assert match
        yield Declaration(
            match["head"], text[match.end("head") : end], match["kind"], match["name"]
        )


def remove_from_bicep(tree: Tree, removal: Removal) -> None:
    """Replace names by constants in infra/; the value `null` also removes properties of that name.

    Adds the variables of azd that are gone to the settings of the removal.
    """
    constants = {name: value for part in removal.parts for name, value in part.bicep.items()}
    if constants and MAIN in tree:
        files = {name: text for name, text in text_files(tree, "") if name.startswith("infra/")}
        before = read_names(files)
        removal.settings |= fold_files(files, constants)
        removal.infra |= before - read_names(files)
        for name in [name for name in tree if name.startswith("infra/") and name not in files]:
            removal.delete(tree, [name])
        tree.update(files)


def read_names(files: Mapping[str, str]) -> set[str]:
    """The names of modules' files, declarations and entries of objects."""
    names = {name.removeprefix("infra/") for name in files}
    for text in [text for name, text in files.items() if name.endswith(".bicep")]:
        for each in read_declarations(text):
            names |= {each.name, *re.findall(r"(?m)^ +(\w+): ", each.text)}
    return names


def fold_files(tree: dict[str, str], constants: Mapping[str, str]) -> set[str]:
    """Replace names of main.bicep and its modules; returns the variables of azd that are gone."""
    before = {name: text for name, text in tree.items() if name.endswith(".bicep")}
    known: Constants = {name: dict(constants) for name in before}
    while True:
        files = {name: tree[name] for name in before if name in tree}
        for name, text in files.items():
            tree[name] = fold_file(text, known[name])
            keep_constants(text, tree[name], known[name])
        for name in files:
            pass_parameters(tree, name, known)
            tree[name] = remove_unused(before[name], tree[name])
        remove_unused_files(before, tree)
        if all(tree.get(name) == text for name, text in files.items()):
            return remove_parameters(tree)


def fold_file(text: str, constants: Mapping[str, str]) -> str:
    """The text of a file with constants in the place of names."""
    parts = [fold_declaration(each, constants) for each in read_declarations(text)]
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).strip("\n") + "\n"


def fold_declaration(declaration: Declaration, constants: Mapping[str, str]) -> str:
    value = declaration.value()
    if declaration.kind in ("param", "var") and declaration.name in constants:
        return _blank(declaration)
    if value is None:
        return declaration.head + declaration.text
    text = declaration.text
    if declaration.kind == "output" and constants.get(declaration.name) == "null":
        return _blank(declaration)
    folded = Folder(text, constants).fold(value)
    if folded == GONE or (declaration.kind == "output" and folded == "''" != _slice(text, value)):
        return _blank(declaration)
    return declaration.head + close_gaps(text[: value.start] + folded + text[value.end :])


def _blank(declaration: Declaration) -> str:
    """What stays of a declaration that is gone: the blank line after it."""
    return "\n" if declaration.text.endswith("\n\n") else ""


def _slice(text: str, node: Node) -> str:
    return text[node.start : node.end]


def keep_constants(before: str, after: str, constants: dict[str, str]) -> None:
    """Note the variables that have become constants."""
    old = {each.name: each for each in read_declarations(before) if each.kind == "var"}
    for each in read_declarations(after):
        value = each.value() if each.kind == "var" else None
        if value and is_constant(_slice(each.text, value)) and each.text != old[each.name].text:
            constants[each.name] = _slice(each.text, value)


def pass_parameters(tree: dict[str, str], caller: str, known: Constants) -> None:
    """Note each parameter that no caller of a module gives any more; remove those it has not."""
    for each in [each for each in read_declarations(tree[caller]) if each.kind == "module"]:
        file = "infra/" + each.text.split("'")[1]
        params = {one.name: one for one in read_declarations(tree[file]) if one.kind == "param"}
        given = read_arguments(each)
        for name in [name for name in params if name not in given]:
            if params[name].value() is None:
                known[file][name] = _default(params[name].text)
        gone = {name: "null" for name in given if name not in params}
        if gone:
            new = fold_declaration(replace(each, head=""), gone)
            tree[caller] = tree[caller].replace(each.text, new)


def _default(text: str) -> str:
    """The empty value of a parameter's type."""
    kind = text.split()[2]
    return "[]" if kind.endswith("[]") else {"bool": "false", "object": "{}"}.get(kind, "''")


def read_arguments(module: Declaration) -> set[str]:
    """The names of what a module is given."""
    node = module.value()
    while node and node.kind == "if":
        node = node.children[1]
    items = {each.name: each for each in node.children} if node else {}
    params = items["params"].children[0].children if "params" in items else ()
    return {each.name for each in params}


def count_uses(text: str, declaration: Declaration) -> int:
    """How often the rest of a file uses a declaration; keys and comments do not count."""
    code = re.sub(r"(?m)(^|[^:])//.*$", r"\1", text.replace(declaration.text, ""))
    code = re.sub(r"'(?:[^'\\$\n]|\\.)*'", "''", code)
    return len(re.findall(rf"(?<![\w.]){declaration.name}\b(?!:[^:])", code))


def remove_unused(before: str, text: str) -> str:
    """Remove declarations, and entries of objects, that were used before and are not any more."""
    earlier = {(one.kind, one.name): one for one in read_declarations(before)}
    while True:
        parts = []
        for each in read_declarations(text):
            inner = each.kind in ("param", "var") or " existing = " in each.text.partition("\n")[0]
            old = earlier.get((each.kind, each.name), each)
            gone = inner and count_uses(before, old) and not count_uses(text, each)
            parts.append(_blank(each) if gone else each.head + remove_entries(before, text, each))
        changed = fold_file("".join(parts), {})
        if changed == text:
            return text
        text = changed


def remove_entries(before: str, text: str, declaration: Declaration) -> str:
    """The text of an object without the entries that `.name` does not use any more."""
    if declaration.kind != "var":
        return declaration.text
    names = re.findall(r"(?m)^  (\w+): ", declaration.text)
    for name in names:
        used = [re.search(rf"\.{name}\b", each) for each in (before, text)]
        if used[0] and not used[1]:
            pattern = rf"(?m)^  {name}: .*\n"
            declaration = replace(declaration, text=re.sub(pattern, "", declaration.text))
    return declaration.text


def remove_unused_files(before: Mapping[str, str], tree: dict[str, str]) -> None:
    """Delete the modules, and the outputs of modules, that were used before and are not now."""
    old, new = "".join(before.values()), "".join(tree.get(name, "") for name in before)
    for name in before:
        path = f"'modules/{name.rpartition('/')[2]}'"
        if path in old and path not in new:
            tree.pop(name, None)
    for name in before:
        if name in tree and name != MAIN:
            outputs = [each for each in read_declarations(tree[name]) if each.kind == "output"]
            for each in outputs:
                used = [f"outputs.{each.name}" in text for text in (old, new)]
                if used[0] and not used[1]:
                    tree[name] = tree[name].replace(each.head + each.text, "")


def remove_parameters(tree: dict[str, str]) -> set[str]:
    """Remove from main.parameters.json what main.bicep has not; returns azd's variables of it."""
    names = {each.name for each in read_declarations(tree[MAIN]) if each.kind == "param"}
    document = json.loads(tree[PARAMETERS])
    values = document["parameters"]
    gone = {name for name in values if name not in names}
    variables = {
        match for name in gone for match in re.findall(r"\$\{(\w+)", values[name]["value"])
    }
    document["parameters"] = {name: value for name, value in values.items() if name in names}
    if gone:
        tree[PARAMETERS] = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return variables
