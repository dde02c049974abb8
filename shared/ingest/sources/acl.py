"""Who may see a document? What `acl.yaml` beside the documents says of its path.

A mistake there must not make a document public: whatever cannot be meant stops the run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from unicodedata import normalize

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from shared.chat.validation_messages import describe_error

ACL_FILE = "acl.yaml"
# What may be meant: acl.yml, acl.yaml.txt (as some editors name it), acl (1).yaml, acls.yaml ...
ACL_FILE_LOOKALIKE = re.compile(
    r"\.?acls?(?: ?\(\d+\))?(?:\.(?:ya?ml|json|txt|bak|old|orig))*[ ~]*", re.IGNORECASE
)

# The ids of Entra ID. What else stands here, such as a name, would match nobody.
Id = Annotated[str, Field(pattern=r"^[\w.@:+-]{1,128}$")]


class AclError(Exception):
    """What is wrong with the rules, in a sentence."""


@dataclass(frozen=True, slots=True)
class DocumentReaders:
    """The users and groups who may see a document; nobody named means everyone."""

    oids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    oids: list[Id] | None = None
    groups: list[Id] | None = None


class _Loader(yaml.SafeLoader):
    """YAML in which no key stands twice: the second would silently take the first's place."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice} stands there twice")
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True)
class Acl:
    """The rules of a folder, the deepest first."""

    rules: tuple[tuple[str, DocumentReaders], ...] = ()

    def readers_of(self, name: str) -> DocumentReaders:
        """Who may see the file `name`, its path from the folder: "the deepest match holds"."""
        plain = normalize("NFC", name)
        return next(
            (who for path, who in self.rules if path_matches(path, plain)), DocumentReaders()
        )


def path_matches(pattern: str, name: str) -> bool:
    """Whether a path fits a pattern: `*` stays inside a folder, `**` goes through them."""
    parts = (
        _WILDCARDS.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*)", pattern)
    )
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


_WILDCARDS = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*"}


def _depth(pattern: str) -> tuple[int, bool, int]:
    """How deep a pattern goes: its literal folders, then whether it names a file, its length."""
    literal = pattern.partition("*")[0]
    return literal.count("/"), "*" not in pattern, len(literal)


def read_acl(folder: Path, names: Iterable[str], meant: Iterable[str] = ()) -> Acl:
    """The rules of `folder`, whose documents are `names`. No file, no rules. Raises AclError.

    `meant` are the files in it that may be meant to hold rules.
    """
    known = tuple(normalize("NFC", name) for name in names)
    _check_locations(folder, meant)
    if not os.path.lexists(folder / ACL_FILE):
        return Acl()
    if not (folder / ACL_FILE).is_file():  # such as a link into a share that is not mounted
        raise AclError(f"{ACL_FILE} is no file that can be read.")
    given = _parse(folder / ACL_FILE)
    for pattern in given:
        if not any(path_matches(pattern, name) for name in known):
            raise AclError(f"{ACL_FILE}: {pattern} fits none of the documents.")
    return Acl(tuple(sorted(given.items(), key=lambda rule: _depth(rule[0]), reverse=True)))


def _check_locations(folder: Path, meant: Iterable[str]) -> None:
    """Rules are read at one place. At another, or under another name, they would not hold."""
    for name in meant:
        if name != ACL_FILE:
            raise AclError(
                f"{name} would not be obeyed: the rules belong into {ACL_FILE} at the top."
            )
    above = next((up for up in folder.resolve().parents if (up / ACL_FILE).is_file()), None)
    if above is not None:
        said = f"{above / ACL_FILE} has rules for this folder too: give {above} instead."
        raise AclError(said)


def _parse(path: Path) -> Mapping[str, DocumentReaders]:
    try:
        rules = yaml.load(path.read_text("utf-8-sig"), _Loader)
        entries = TypeAdapter(dict[str, _Entry]).validate_python(rules, strict=True)
    except ValidationError as failure:
        raise AclError(f"{ACL_FILE}: {_describe_failure(failure)}.") from None
    except OSError as error:
        raise AclError(f"{ACL_FILE} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise AclError(f"{ACL_FILE} cannot be read: it goes too deep.") from None
    except (ValueError, yaml.YAMLError) as error:
        raise AclError(f"{ACL_FILE} cannot be read: {' '.join(str(error).split())}.") from None
    return {
        normalize("NFC", _check_pattern(path)): _to_readers(path, entries[path]) for path in entries
    }


def _describe_failure(failure: ValidationError) -> str:
    error = failure.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in error["loc"])
    return f"{place}: {describe_error(error)}" if place else "must map paths to groups and oids"


def _check_pattern(pattern: str) -> str:
    if pattern.startswith(("/", "./")) or "\\" in pattern or pattern.endswith("/"):
        raise AclError(f"{ACL_FILE}: {pattern}: write paths from here, such as board/** or a/b.md.")
    return pattern


def _to_readers(pattern: str, entry: _Entry) -> DocumentReaders:
    if entry.oids is None and entry.groups is None:
        raise AclError(f"{ACL_FILE}: {pattern}: needs groups or oids; empty lists make it public.")
    return DocumentReaders(tuple(entry.oids or ()), tuple(entry.groups or ()))
