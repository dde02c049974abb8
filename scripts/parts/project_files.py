"""Removes a part from the files of tools: requirements, lists, Makefile, TOML, YAML, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from scripts.parts.prose import Mentions
from scripts.parts.removal import Removal, Tree, text_files

SECTION = re.compile(r"(?m)^(?=\[)")
LISTS = (".funcignore", "tests/template/package.txt")


def edit(tree: Tree, name: str, change: Callable[[str], str]) -> None:
    """Change a text file, if it is there."""
    text = tree.get(name)
    if isinstance(text, str):
        tree[name] = change(text)


def remove_from_lists(tree: Tree, removal: Removal) -> None:
    """Remove paths, and functions by their route, from the lists of files that a test compares."""
    gone = _with_folders(removal.paths) - _with_folders(tree)
    for name in LISTS:
        edit(tree, name, lambda text: _without_lines(text, lambda line: line in gone))

    def is_gone(line: str) -> bool:
        return removal.is_gone_route("/" + line.rpartition(" ")[2])

    edit(tree, "tests/template/functions.txt", lambda text: _without_lines(text, is_gone))


def _with_folders(paths: Iterable[str]) -> set[str]:
    names = set(paths)
    return names | {name[:at] for name in names for at, sign in enumerate(name) if sign == "/"}


def _without_lines(text: str, is_gone: Callable[[str], bool]) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not is_gone(line.strip()))


def remove_from_requirements(tree: Tree, removal: Removal) -> None:
    """Remove packages, and included files that are gone, with the comment above."""
    names = "|".join(re.escape(each) for each in sorted(removal.packages)) or "(?!)"
    gone, left = ({each.rpartition("/")[2] for each in paths} for paths in (removal.paths, tree))
    files = "|".join(map(re.escape, sorted(gone - left))) or "(?!)"
    line = rf"(?mi)^(?:(?:#.*\n)*(?:-r (?:\S*/)?(?:{files})|(?:{names})(?:\[.*\])? ?[=<>;].*)\n)+"
    for name, text in text_files(tree, ".txt"):
        if "requirements" in name or name == "constraints.txt":
            head = re.match(r"#.*\n(?=#)", text)  # what the file is for
            start = head.end() if head else 0
            tree[name] = text[:start] + re.sub(line, "", text[start:])


def remove_from_pyproject(tree: Tree, removal: Removal) -> None:
    """Remove modules that are gone from lists, and the contracts that then say nothing."""
    gone = _with_folders(removal.paths) - _with_folders(tree)
    modules = {name.removesuffix(".py").replace("/", ".") for name in gone}
    modules |= {name.removeprefix("shared.") for name in modules if name.count(".") == 1}
    packages = {name.replace("-", "_") for name in removal.packages}
    names = modules | packages | {f"{name}.*" for name in packages}

    def change(text: str) -> str:
        for name in sorted(names):
            quoted = re.escape(f'"{name}"')
            text = re.sub(
                rf"\n +{quoted},(?=\n)|{quoted}, |, {quoted}|(?<=\[){quoted}(?=\])", "", text
            )
            layer = re.escape(name)
            text = re.sub(rf'(?m)^( +".*?)\b{layer} \| |^( +".*?) \| {layer}\b', r"\1\2", text)
        return "".join(each for each in SECTION.split(text) if not _says_nothing(each))

    edit(tree, "pyproject.toml", change)


def _says_nothing(section: str) -> bool:
    """Whether a contract has an empty list, or one module that is to know no other."""
    is_contract = section.startswith("[[tool.importlinter.contracts]]")
    empty = re.search(r"_modules = \[\s*\]", section)
    alone = re.search(r'"independence"\nmodules = \[\s*(?:"[\w.]+",?\s*)?\]', section)
    return is_contract and bool(empty or alone)


TARGET = r"(?m)^(?:#.*\n)*{name}:(?!=).*\n(?:[ \t]+\S.*\n)*\n?"


def remove_from_makefile(tree: Tree, removal: Removal) -> None:
    """Remove the targets that run what is gone; `make TARGET` is then a phrase of the removal."""
    edit(tree, "Makefile", lambda text: _without_targets(text, tree, removal))


def _without_targets(text: str, tree: Tree, removal: Removal) -> str:
    before, gone = text, _with_folders(removal.paths) - _with_folders(tree)
    modules = {re.sub(r"(/__main__)?\.py$", "", path).replace("/", ".") for path in gone}
    targets = re.findall(TARGET.format(name=r"([^\s:#=]+)"), text)
    recipes = {name: re.search(TARGET.format(name=re.escape(name)), text) for name in targets}
    for name, match in recipes.items():
        runs = re.findall(r"-m (?:pytest )?([\w./]+)(?: (\w+))?", match[0] if match else "")
        # `-m evals draft` runs a module of `evals` whose name begins with that of the command.
        commands = tuple(f"{module}.{command}" for module, command in runs if command)
        gone_commands = [each for each in modules if each.startswith(commands)]
        if gone_commands or (modules | gone).intersection(module for module, _ in runs):
            text = _without_target(text, name)
            removal.phrases.add(f"make {name}")
    for file in [path for path in removal.paths if path.startswith("requirements")]:
        text = re.sub(rf" (?:-r )?{re.escape(file)}(?=\s)", "", text)
    for stamp in [name for name in targets if name.startswith("$(VENV)/")]:
        if not re.search(rf"(?m)^(?!\t).*: .*{re.escape(stamp)}(?=\s)", text):
            text = _without_target(text, stamp)
    return _without_variables(before, text)


def _without_variables(before: str, text: str) -> str:
    """Without the variables that only what is gone has used."""
    for name in re.findall(r"(?m)^(\w+) [?:]?=", text):
        if f"$({name})" in before and f"$({name})" not in text:
            text = re.sub(rf"(?m)^(?:#.*\n)*{name} [?:]?=.*\n(?:[ \t].*\n)*\n?", "", text)
    return text


def _without_target(text: str, name: str) -> str:
    text = re.sub(TARGET.format(name=re.escape(name)), "", text)
    return re.sub(rf"(?m)(^\.PHONY:.*?|^\t@touch .*?) {re.escape(name)}(?=\s)", r"\1", text)


def remove_from_json(tree: Tree, removal: Removal) -> None:
    """Remove the settings of local.settings.sample.json, and the tasks of an editor."""

    def without_settings(text: str) -> str:
        document = json.loads(text)
        values = document["Values"]
        document["Values"] = {k: v for k, v in values.items() if k not in removal.settings}
        return _write_json(document) if len(values) > len(document["Values"]) else text

    def without_tasks(text: str) -> str:
        document = json.loads(text)
        tasks = document["tasks"]
        rest = [each for each in tasks if not _runs(each["command"], removal.phrases)]
        if len(rest) == len(tasks):
            return text
        used = json.dumps(rest)
        inputs = [each for each in document["inputs"] if f"${{input:{each['id']}}}" in used]
        document |= {"tasks": rest, "inputs": inputs}
        return _write_json({key: value for key, value in document.items() if value})

    edit(tree, "local.settings.sample.json", without_settings)
    edit(tree, ".vscode/tasks.json", without_tasks)


def _runs(command: str, phrases: Iterable[str]) -> bool:
    return any(command == each or command.startswith(f"{each} ") for each in phrases)


def _write_json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def remove_from_yaml(tree: Tree, removal: Removal) -> None:
    """Remove variables of azd from azure.yaml and the workflows, and a key without any left.

    A service of azure.yaml goes with its folder, which Dependabot then does not watch any more.
    """
    folders = _with_folders(removal.paths) - _with_folders(tree)
    gone = "|".join(map(re.escape, sorted(folders))) or "(?!)"
    service = rf"(?m)^  [\w-]+:.*\n    project: (?:{gone})(?: #.*)?\n(?:    .*\n)*"
    edit(tree, "azure.yaml", lambda text: re.sub(service, "", text))
    edit(tree, ".github/dependabot.yml", lambda text: re.sub(rf', "/(?:{gone})"', "", text))
    names = "|".join(sorted(removal.settings)) or "(?!)"
    for name, text in text_files(tree, ".yaml", ".yml"):
        if name == "azure.yaml" or name.startswith(".github/"):
            text = re.sub(rf"(?m)^ +(?:- (?:{names})|(?:{names}): .*)(?: #.*)?\n", "", text)
            tree[name] = re.sub(r"(?m)^( *)secrets:\n(?!\1 )", "", text)


def remove_from_workbook(tree: Tree, mentions: Mentions) -> None:
    """Remove the queries whose titles mention the parts."""
    name = "infra/workbook.json"
    if isinstance(text := tree.get(name), str):
        workbook = json.loads(text)
        items = [item for item in workbook["items"] if not mentions(item["content"]["title"])]
        tree[name] = json.dumps(workbook | {"items": items}, indent=2) + "\n"


def remove_from_requests(tree: Tree, removal: Removal, mentions: Mentions) -> None:
    """Remove the requests of test.http that go to a route that is gone, or mention the part."""

    def is_gone(request: str) -> bool:
        route = re.search(r"\{\{host\}\}([^\s?]*)", request)
        return mentions(request) or bool(route and removal.is_gone_route(route[1]))

    def change(text: str) -> str:
        requests = re.split(r"(?m)^(?=###)", text)
        return "".join(each for each in requests if not is_gone(each)).rstrip("\n") + "\n"

    edit(tree, "test.http", change)
