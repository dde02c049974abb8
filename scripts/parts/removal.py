"""What is removed, and the files of the project that the removers change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

from scripts.parts.catalog import Catalog, Part

Tree = dict[str, str | bytes]  # contents by path; bytes where a file is not UTF-8


@dataclass
class Removal:
    """The parts that go, and what went with them: the removers add to the sets."""

    catalog: Catalog
    names: tuple[str, ...]  # of the parts that are removed now
    gone: tuple[str, ...]  # of all parts that are not there afterwards
    before: Tree = field(default_factory=dict)  # the files before the removal
    paths: set[str] = field(default_factory=set)  # deleted files
    # What Python files defined: path and name, such as ("shared/app.py", "PROTOCOLS").
    definitions: set[tuple[str, str]] = field(default_factory=set)
    settings: set[str] = field(default_factory=set)  # variables that nothing reads any more
    infra: set[str] = field(default_factory=set)  # names that infra/ has not any more
    phrases: set[str] = field(default_factory=set)  # commands that are gone, such as "make eval"

    @cached_property
    def parts(self) -> list[Part]:
        return [self.catalog.parts[name] for name in self.names]

    @cached_property
    def words(self) -> set[str]:
        """How docs call the parts that go."""
        return {word for part in self.parts for word in part.words}

    @cached_property
    def routes(self) -> set[str]:
        """Globs of the paths that nothing answers any more."""
        return {route for part in self.parts for route in part.routes}

    def is_gone_route(self, path: str) -> bool:
        """Whether nothing answers a path any more."""
        return any(fnmatchcase(path, route) for route in self.routes)

    @property
    def endings(self) -> set[str]:
        """The deleted paths; of docs and workflows also their ends, such as `aog.md`."""
        return _endings(self.paths) - _endings(self.before.keys() - self.paths)

    @cached_property
    def packages(self) -> set[str]:
        """The packages that only these parts use, and no part that stays."""
        rest = {name for name in self.catalog.parts if name not in self.gone}
        used = {package for name in rest for package in self.catalog.parts[name].packages}
        return {package for part in self.parts for package in part.packages} - used

    def delete(self, tree: Tree, paths: Iterable[str]) -> None:
        """Delete files."""
        for path in list(paths):
            del tree[path]
            self.paths.add(path)


def _endings(paths: Iterable[str]) -> set[str]:
    return {
        "/".join(parts[start:])
        for parts in (path.split("/") for path in paths)
        for start in range(len(parts) if parts[0] in ("docs", ".github") else 1)
    }


def text_files(tree: Tree, *suffixes: str) -> list[tuple[str, str]]:
    """The path and text of each file with one of these suffixes."""
    return [
        (path, text)
        for path, text in tree.items()
        if path.endswith(suffixes) and isinstance(text, str)
    ]
