"""Reads access rules from `acl.yaml` in the documents' folder.

A mistake in it must not make a document public: ambiguous rules abort the run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated
from unicodedata import normalize

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ingest.path_patterns import (
    MAX_DEEP_WILDCARDS,
    is_more_specific,
    path_matches,
    settling_pattern,
)
from ingest.strict_yaml import InvalidYaml, read_yaml

ACL_FILE = "acl.yaml"
FORM = "must map paths to groups and oids"
# Names of rules that were copied, renamed or switched off.
ACL_FILE_LOOKALIKE = re.compile(
    r"[\W_]*acl.*\.ya?ml.*"  # _acl.yaml, acl.yml, acl copy.yaml, acl.yaml.disabled
    r"|.*acls?\.ya?ml.*"  # Copy of acl.yaml
    r"|[\W_]*acls?(?:[\W\d_]|json|txt|copy|new|old|orig|bak|backup|off|disabled)*",  # acl.old
    re.IGNORECASE | re.DOTALL,
)

NO_FILE = f"{ACL_FILE} is no file that can be read."
CONTRADICTION = (
    f"--no-rules contradicts {ACL_FILE} in the folder: leave out --no-rules, or remove {ACL_FILE} "
    "to make its files public."
)

# Object ids of Entra ID. Other values, such as names with spaces, would match nobody.
Id = Annotated[str, Field(pattern=r"^[\w.@:+-]{1,128}$")]


class AclError(Exception):
    """The rules are invalid; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class DocumentReaders:
    """The users and groups who may see a document; both empty means everyone."""

    oids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    oids: list[Id] | None = None
    groups: list[Id] | None = None


@dataclass(frozen=True, slots=True)
class Acl:
    """The access rules of a folder: patterns of paths, and who may see the files."""

    rules: tuple[tuple[str, DocumentReaders], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules: all documents are public."""
        return not self.rules

    def readers_of(self, name: str) -> DocumentReaders:
        """Who may see the file `name`, its path in the folder: the most specific rule applies.

        It is more specific than every other rule that matches the file and names other readers.
        Raises AclError if there is no such rule.
        """
        path = normalize("NFC", name)
        matches = {rule: readers for rule, readers in self.rules if path_matches(rule, path)}
        for rule, readers in matches.items():
            others = (other for other in matches if matches[other] != readers)
            if all(is_more_specific(rule, other) for other in others):
                return readers
        if matches:
            raise AclError(_describe_conflict(path, matches))
        return DocumentReaders()

    def public_by_default(self, names: Iterable[str]) -> set[str]:
        """The documents that no rule matches, where the rules restrict no file.

        Empty where a rule restricts a file: then the other documents are public on purpose, as are
        those that an entry with empty lists matches.
        """
        if any(readers != DocumentReaders() for _, readers in self.rules):
            return set()
        paths = {normalize("NFC", name) for name in names}
        patterns = [pattern for pattern, _ in self.rules]
        return {path for path in paths if not any(path_matches(each, path) for each in patterns)}


def _describe_conflict(path: str, matches: Mapping[str, DocumentReaders]) -> str:
    """Name two rules that contradict each other for a file, and a rule that settles it."""
    first, second = next(
        (one, two)
        for one, two in combinations(matches, 2)
        if matches[one] != matches[two]
        and not is_more_specific(one, two)
        and not is_more_specific(two, one)
    )
    texts = (path, first, second, settling_pattern(path, matches))
    path, first, second, settling = (json.dumps(text, ensure_ascii=False) for text in texts)
    return (
        f"{ACL_FILE}: {path} matches {first} and {second}, whose readers differ, and neither rule "
        f"is more specific. Add a rule for {settling}, which is more specific than both."
    )


def read_acl(folder: Path, names: Iterable[str], acl_files: Iterable[str] = ()) -> Acl:
    """Read the rules of `folder`, whose documents are `names`; none without acl.yaml.

    `acl_files` are the files in it that look like access rules. Raises AclError.
    """
    _check_locations(folder, acl_files)
    if not os.path.lexists(folder / ACL_FILE):
        return Acl()
    if not (folder / ACL_FILE).is_file():  # such as a link to an unmounted share
        raise AclError(NO_FILE)
    return parse_acl_file(folder / ACL_FILE, names)


def parse_acl_file(path: Path, names: Iterable[str]) -> Acl:
    """Parse the rules in a file, for the documents of these names. Raises AclError."""
    paths = tuple(normalize("NFC", name) for name in names)
    rules = _parse(path)
    for pattern in rules:
        if not any(path_matches(pattern, name) for name in paths):
            raise AclError(f"{ACL_FILE}: {pattern} fits none of the documents.")
    acl = Acl(tuple(sorted(rules.items())))
    for name in paths:
        acl.readers_of(name)  # raises AclError before anything is changed
    return acl


def check_no_rules(folder: Path) -> None:
    """Raise AclError where a folder has rules, as --no-rules states that it has none."""
    if os.path.lexists(folder / ACL_FILE):
        raise AclError(CONTRADICTION)


def check_names(acl_files: Iterable[str]) -> None:
    """Raise AclError for rules below the top, or under other names, which have no effect."""
    for name in acl_files:
        if name != ACL_FILE:
            raise AclError(
                f"{name} would not be obeyed: the rules belong into {ACL_FILE} at the top. "
                "If it is a document, give it another name; if all files are public, use "
                "--no-rules (make index ARGS=--no-rules)."
            )


def _check_locations(folder: Path, acl_files: Iterable[str]) -> None:
    """Raise AclError for rules in other places or under other names, which have no effect."""
    check_names(acl_files)
    parents = folder.resolve().parents
    if above := next((up for up in parents if (up / ACL_FILE).is_file()), None):
        raise AclError(f"{above / ACL_FILE} has rules for this folder too: give {above} instead.")


def _parse(path: Path) -> Mapping[str, DocumentReaders]:
    try:
        entries = read_yaml(path, TypeAdapter(dict[str, _Entry]), FORM)
    except InvalidYaml as error:
        raise AclError(str(error)) from None
    return {_check_pattern(path): _to_readers(path, entry) for path, entry in entries.items()}


def _check_pattern(pattern: str) -> str:
    if pattern.startswith(("/", "./")) or "\\" in pattern or pattern.endswith("/"):
        raise AclError(f"{ACL_FILE}: {pattern}: write paths from here, such as board/** or a/b.md.")
    if pattern.count("**") > MAX_DEEP_WILDCARDS:
        raise AclError(f"{ACL_FILE}: {pattern}: write ** at most {MAX_DEEP_WILDCARDS} times.")
    return pattern


def _to_readers(pattern: str, entry: _Entry) -> DocumentReaders:
    if entry.oids is None and entry.groups is None:
        raise AclError(f"{ACL_FILE}: {pattern}: needs groups or oids; empty lists make it public.")
    return DocumentReaders(_sort(entry.oids), _sort(entry.groups))


def _sort(ids: Iterable[str] | None) -> tuple[str, ...]:
    """Ids in a fixed order: lists in another order name the same readers."""
    return tuple(sorted(set(ids or ())))
