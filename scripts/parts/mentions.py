"""Whether a text mentions what was removed: a word, setting, route, file or name of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from scripts.parts.prose import Mentions
from scripts.parts.removal import Removal, Tree, text_files

CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w./\\-]+")


def find_mentions(tree: Tree, removal: Removal) -> Mentions:
    """Returns the test of a text, for what has been removed from a tree so far."""
    words = [*removal.words, *removal.settings, *removal.phrases]
    left = re.findall(r"(?m) (\S*)$", str(tree.get("tests/template/functions.txt", "")))
    routes = {re.split(r"[*{]", route)[0] for route in removal.routes}
    routes -= {each for each in routes if any(f"/{route}".startswith(each) for route in left)}
    in_no_url = r"(?<![\w./}])"
    patterns = [*map(_bound, words), *(in_no_url + re.escape(each) for each in sorted(routes))]
    pattern = re.compile("|".join(patterns) or "(?!)")
    paths = {*_suffixes(removal.paths)} - {*_suffixes(tree)}
    code = "\n".join(text for _, text in text_files(tree, ".py"))
    used = {*re.findall(r"\w+", code)} if removal.definitions else set()
    names = {name for _, name in removal.definitions if len(name) > 3} - used

    def mentions(text: str) -> bool:
        if pattern.search(text):
            return True
        spans = CODE.findall(text)
        named = {path.strip("./\\") for each in spans for path in PATH.findall(each)}
        called = {each.rstrip("()") for each in spans}
        return not (paths.isdisjoint(named) and names.isdisjoint(called))

    return mentions


def _bound(word: str) -> str:
    """A pattern of a whole word, also in the possessive or plural."""
    start = r"(?<!\w)" if re.match(r"\w", word) else ""
    end = r"(?!\w)" if re.search(r"\w$", word) else ""
    return f"{start}{re.escape(word)}{end}"


def _suffixes(paths: Iterable[str]) -> Iterator[str]:
    """How a text may name files and their folders: by the end of the path, and as modules."""
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            if end < len(parts) and end < 2:
                continue  # one word may be anything
            for start in range(end):
                name = "/".join(parts[start:end])
                if "/" in name:
                    yield from (name, name.removesuffix(".py").replace("/", "."))
                elif name.startswith("requirements"):  # other names may be anybody's
                    yield name
