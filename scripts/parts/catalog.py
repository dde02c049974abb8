"""The parts of the template, as parts.toml names them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, ValidationError

CATALOG = "parts.toml"
# Folders that follow a folder of code: a part has its files in both.
MIRRORS = {
    "tests/unit/ingest/": "ingest/",
    "tests/unit/evals/": "evals/",
    "tests/unit/scripts/": "scripts/",
    "tests/unit/": "shared/",
    "tests/support/golden/": "shared/protocols/",
}


class PartsError(Exception):
    """Why nothing was removed, in a sentence for the person who asked."""


class Part(BaseModel):
    """A part that can be removed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gives: str  # what a person gets from it, in a line
    stays: bool = False  # no command removes it: too much of the rest is about it
    paths: tuple[str, ...] = ()  # globs (* also matches /); a folder ends in /
    needs: tuple[str, ...] = ()  # parts without which it makes no sense
    # Names that go by file, where following deleted imports does not find them.
    names: Mapping[str, tuple[str, ...]] = {}
    settings: tuple[str, ...] = ()  # beside those of the deleted fields of shared/settings.py
    packages: tuple[str, ...] = ()  # in the requirements files
    words: tuple[str, ...] = ()  # how docs and comments call it
    routes: tuple[str, ...] = ()  # globs of the paths that it answers, such as "/aog/*"
    # What names in infra/ become, as Bicep: {"useMemory" = "false"}; scripts/parts/bicep.py.
    bicep: Mapping[str, str] = {}

    def owns(self, path: str) -> bool:
        """Whether a file is of this part alone."""
        return _matches(path, self.paths) or _matches(_mirror(path), self.paths)


def _mirror(path: str) -> str:
    """The file whose tests a path has: `shared/a/b.py` for `tests/unit/a/test_b.py`."""
    for folder, original in MIRRORS.items():
        if path.startswith(folder):
            rest, _, name = path.removeprefix(folder).rpartition("/")
            return f"{original}{rest}/{name.removeprefix('test_')}".replace("//", "/")
    return path


def _matches(path: str, patterns: Iterable[str]) -> bool:
    folders = (each + "*" if each.endswith("/") else each for each in patterns)
    return any(fnmatchcase(path, each) for each in folders)


class Catalog(BaseModel):
    """parts.toml. `keep` are the parts that the last `make keep` named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep: tuple[str, ...] = ()
    parts: Mapping[str, Part] = {}

    @property
    def removable(self) -> tuple[str, ...]:
        """The parts that the commands remove."""
        return tuple(name for name, part in self.parts.items() if not part.stays)

    def check_removable(self, names: Iterable[str]) -> None:
        """Raise PartsError for a part that no command removes."""
        if staying := [name for name in names if name not in self.removable]:
            raise PartsError(f"no command removes {', '.join(staying)}: docs/customize.md says why")

    def check(self, names: Iterable[str]) -> None:
        """Raise PartsError for a name of no part."""
        if unknown := sorted(set(names) - set(self.parts)):
            raise PartsError(f"no part is called {', '.join(unknown)}: `make parts` lists them")

    def with_dependents(self, names: Iterable[str]) -> tuple[str, ...]:
        """Add the parts that need one of these, directly or not; in the order of the file."""
        self.check(names)
        removed, before = set(names), set[str]()
        while removed != before:
            before = set(removed)
            removed |= {name for name, part in self.parts.items() if before & set(part.needs)}
        return tuple(name for name in self.parts if name in removed)

    def all_but(self, names: Iterable[str]) -> tuple[str, ...]:
        """The parts that neither are among these nor are needed by one of them."""
        self.check(names)
        kept, before = set(names), set[str]()
        while kept != before:
            before = set(kept)
            kept |= {need for name in before for need in self.parts[name].needs}
        return tuple(name for name in self.removable if name not in kept)


def read_catalog(text: str) -> Catalog:
    """Parse parts.toml. Raises PartsError."""
    try:
        catalog = Catalog.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise PartsError(f"{CATALOG}: {error}") from error
    for part in catalog.parts.values():
        catalog.check(part.needs)
    return catalog
