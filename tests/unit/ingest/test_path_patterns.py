"""Files that several rules of `acl.yaml` match: a provably more specific rule, or a refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.acl import AclError, DocumentReaders, read_acl
from ingest.path_patterns import is_more_specific, path_matches

PUBLIC, STAFF, HR = (DocumentReaders(groups=groups) for groups in ((), ("staff",), ("hr",)))
Rules = Mapping[str, DocumentReaders]


def all_readers(rules: Rules, names: Sequence[str]) -> dict[str, DocumentReaders]:
    """Who may see each file, by rules that are written in the order of `rules`."""
    with TemporaryDirectory() as folder:
        entries = {rule: {"groups": list(readers.groups)} for rule, readers in rules.items()}
        (Path(folder) / "acl.yaml").write_text(json.dumps(entries), "utf-8")
        acl = read_acl(Path(folder), names)
    return {name: acl.readers_of(name) for name in names}


def refusal(rules: Rules, names: Sequence[str]) -> list[str]:
    """The path, the two rules and the settling rule that the refusal of a run names."""
    with pytest.raises(AclError) as refused:
        all_readers(rules, names)
    return [json.loads(text) for text in re.findall('"[^"]*"', str(refused.value))]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("rules", "name", "readers"),
    [
        ({"**": PUBLIC, "**/secret.md": HR}, "board/secret.md", HR),
        ({"**": STAFF, "**/salaries.md": HR}, "x/salaries.md", HR),
        ({"**": HR, "pub/**": PUBLIC, "pub/pay/**": STAFF}, "pub/pay/2026/a.md", STAFF),
        ({"a*": PUBLIC, "a*b*": HR, "a*b*c": STAFF}, "abc", STAFF),
        ({"pub/**": PUBLIC, "**/hr.md": HR, "pub/**/hr.md": STAFF}, "pub/x/hr.md", STAFF),
        ({"pub/**": HR, "**/hr.md": HR}, "pub/hr.md", HR),
        ({"**": PUBLIC, "pub/**": HR, "**/hr.md": HR}, "pub/hr.md", HR),
    ],
)
def test_more_specific_rule_applies_in_any_order(
    rules: Rules, name: str, readers: DocumentReaders, order: int
) -> None:
    ordered = dict(list(rules.items())[::order])

    assert all_readers(ordered, [name]) == {name: readers}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("rules", "name", "settling"),
    [
        ({"pub/**": PUBLIC, "**/hr.md": HR}, "pub/x/hr.md", "pub/**/hr.md"),
        ({"pub/*": PUBLIC, "**/hr.md": HR}, "pub/hr.md", "pub/hr.md"),
        ({"pub/**": PUBLIC, "**/hr.md": HR, "pub/x/*": STAFF}, "pub/x/hr.md", "pub/x/hr.md"),
        ({"pub/**": PUBLIC, "pub/**/*": HR}, "pub/hr.md", "pub/hr.md"),
        ({"a*": PUBLIC, "*b": HR}, "a\\b", "a*b"),
    ],
)
def test_ambiguous_rules_are_refused_with_a_rule_that_settles_them(
    rules: Rules, name: str, settling: str, order: int
) -> None:
    ordered = dict(list(rules.items())[::order])
    path, first, second, suggested = refusal(ordered, [name])

    assert (path, suggested) == (name, settling)
    assert rules[first] != rules[second]
    assert all_readers({**ordered, settling: STAFF}, [name]) == {name: STAFF}


def test_readers_in_another_order_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "acl.yaml").write_text("a*: {groups: [x, y]}\n'*b': {groups: [y, x, y]}")

    assert read_acl(tmp_path, ["ab"]).readers_of("ab") == DocumentReaders(groups=("x", "y"))


# All texts of up to six characters; "x" stands for every character that no pattern has.
UNIVERSE = ["".join(text) for size in range(7) for text in product("ax/", repeat=size)]
PATTERNS = (
    st.lists(st.sampled_from(["a", "/", "*", "**", "**/"]), min_size=1, max_size=4)
    .map("".join)
    .filter(lambda pattern: not pattern.startswith("/") and not pattern.endswith("/"))
)
PATHS = st.sampled_from([path for path in UNIVERSE if all(path.split("/"))])


def matches(pattern: str, path: str) -> bool:
    """The definition of a pattern, literally."""
    if not pattern:
        return not path
    head = re.match(r"\*\*/|\*\*|\*|.", pattern)
    assert head is not None
    rest, cuts = pattern[head.end() :], range(len(path) + 1)
    match head.group():
        case "**":
            return any(matches(rest, path[cut:]) for cut in cuts)
        case "**/":
            folders = (cut for cut in cuts if cut == 0 or path[cut - 1] == "/")
            return any(matches(rest, path[cut:]) for cut in folders)
        case "*":
            return any(matches(rest, path[cut:]) for cut in cuts if "/" not in path[:cut])
        case letter:
            return path[:1] == letter and matches(rest, path[1:])


@cache
def matching_paths(pattern: str) -> frozenset[str]:
    return frozenset(path for path in UNIVERSE if matches(pattern, path))


def literal_readers(rules: Rules, path: str) -> DocumentReaders | None:
    """The readers by the sentence of documents.md; None where rules contradict each other."""
    found = {rule: readers for rule, readers in rules.items() if path in matching_paths(rule)}
    for rule, readers in found.items():
        others = [other for other in found if found[other] != readers]
        if all(matching_paths(rule) < matching_paths(other) for other in others):
            return readers
    return None if found else PUBLIC


@settings(deadline=None)
@given(PATTERNS, PATTERNS)
def test_more_specific_patterns_match_fewer_paths(first: str, second: str) -> None:
    for pattern in (first, second):
        assert {path for path in UNIVERSE if path_matches(pattern, path)} == matching_paths(pattern)
    for one, two in ((first, second), (second, first)):
        assert is_more_specific(one, two) == (matching_paths(one) < matching_paths(two))


@settings(deadline=None)
@given(
    st.dictionaries(PATTERNS, st.sampled_from([PUBLIC, STAFF, HR]), min_size=1, max_size=4),
    st.lists(PATHS, min_size=1, max_size=5, unique=True),
)
def test_rules_decide_as_the_documentation_says(rules: Rules, paths: Sequence[str]) -> None:
    rules = {rule: rules[rule] for rule in rules if matching_paths(rule) & set(paths)}
    expected = {path: literal_readers(rules, path) for path in paths}
    while None in expected.values():
        path, first, second, settling = refusal(rules, paths)
        assert expected[path] is None
        assert rules[first] != rules[second]
        rules = {**rules, settling: HR}
        assert literal_readers(rules, path) == HR
        expected = {path: literal_readers(rules, path) for path in paths}

    assert all_readers(rules, paths) == expected
    assert all_readers(dict(reversed(rules.items())), paths) == expected
