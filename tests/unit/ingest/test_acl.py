"""Who may see a document: the rules of `acl.yaml`, and every mistake in them that stops a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ingest.acl import ACL_FILE_LOOKALIKE, AclError, DocumentReaders, read_acl

BOARD, ANNA = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
RULES = f"""
board/**:        {{groups: [{BOARD}]}}
board/agenda.md: {{groups: [], oids: []}}          # public again
people/anna/**:  {{oids: [{ANNA}]}}
"""
NAMES = ("a.md", "board/agenda.md", "board/plan.md", "board/2026/plan.md", "people/anna/x/y.md")


def readers_of(folder: Path, rules: str, name: str, *names: str) -> DocumentReaders:
    (folder / "acl.yaml").write_text(rules, "utf-8")
    return read_acl(folder, (*NAMES, *names)).readers_of(name)


@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("a.md", DocumentReaders()),
        ("board/plan.md", DocumentReaders(groups=(BOARD,))),
        ("board/2026/plan.md", DocumentReaders(groups=(BOARD,))),
        ("board/agenda.md", DocumentReaders()),
        ("people/anna/x/y.md", DocumentReaders(oids=(ANNA,))),
        ("boardroom.md", DocumentReaders()),
        ("x/board/plan.md", DocumentReaders()),
    ],
)
def test_most_specific_rule_applies(tmp_path: Path, name: str, readers: DocumentReaders) -> None:
    assert readers_of(tmp_path, RULES, name) == readers


@pytest.mark.parametrize("order", [1, -1])
def test_order_of_rules_is_irrelevant(tmp_path: Path, order: int) -> None:
    rules = "\n".join(RULES.strip().split("\n")[::order])

    assert readers_of(tmp_path, rules, "board/agenda.md") == DocumentReaders()
    assert readers_of(tmp_path, rules, "board/plan.md") == DocumentReaders(groups=(BOARD,))


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("**", {"a.md", "board/plan.md", "board/2026/plan.md"}),
        ("*", {"a.md"}),
        ("**/plan.md", {"board/plan.md", "board/2026/plan.md"}),
        ("board/*.md", {"board/plan.md"}),
        ("board/*/plan.md", {"board/2026/plan.md"}),
    ],
)
def test_wildcards_match_within_and_across_folders(
    tmp_path: Path, pattern: str, fits: set[str]
) -> None:
    (tmp_path / "acl.yaml").write_text(f'"{pattern}": {{oids: [me]}}')
    acl = read_acl(tmp_path, NAMES)
    names = ("a.md", "board/plan.md", "board/2026/plan.md")

    assert {name for name in names if acl.readers_of(name).oids} == fits


def test_unicode_normalization_of_names_is_ignored(tmp_path: Path) -> None:
    rules = "re\u0301sume\u0301/**: {oids: [me]}"  # as a Mac writes it

    assert readers_of(tmp_path, rules, "r\u00e9sum\u00e9/a.md", "r\u00e9sum\u00e9/a.md").oids == (
        "me",
    )


def test_documents_without_rules_are_public(tmp_path: Path) -> None:
    assert read_acl(tmp_path, NAMES).readers_of("board/plan.md") == DocumentReaders()


MISTAKES = {
    "": "acl.yaml: must map paths to groups and oids.",
    "- board/**": "acl.yaml: must map paths to groups and oids.",
    "board/**: {group: [x]}": "acl.yaml: board/**.group: is not known here.",
    "board/**: {groups: x}": "acl.yaml: board/**.groups: must be a list.",
    "board/**: {groups: [7]}": "acl.yaml: board/**.groups.0: must be a string.",
    "board/**: {groups: ['The board']}": "acl.yaml: board/**.groups.0: must be one word, such as",
    "board/**: {groups: ['']}": "acl.yaml: board/**.groups.0: must be one word, such as",
    "board/**:": "acl.yaml: board/**: must be an object.",
    "board/**: {}": "acl.yaml: board/**: needs groups or oids; empty lists make it public.",
    "bord/**: {groups: [x]}": "acl.yaml: bord/** fits none of the documents.",
    "board/: {groups: [x]}": "acl.yaml: board/: write paths from here, such as board/** or a/b.md.",
    "/board/**: {groups: [x]}": "acl.yaml: /board/**: write paths from here",
    "board\\plan.md: {groups: [x]}": "acl.yaml: board\\plan.md: write paths from here",
    "7: {groups: [x]}": "acl.yaml: 7",
    "a.md: {groups: [x]}\na.md: {groups: []}": "acl.yaml cannot be read: duplicate key a.md.",
    "\u00e9: {groups: [x]}\ne\u0301: {groups: []}": "acl.yaml cannot be read: duplicate key",
    "'**/**/**/**/**': {groups: [x]}": "acl.yaml: **/**/**/**/**: write ** at most 4 times.",
    "a.md: {groups: [x], groups: []}": "acl.yaml cannot be read: duplicate key groups.",
    "a.md: {groups: [x]": "acl.yaml cannot be read: ",
    "a.md: &x {groups: [x]}\n<<: *x": "acl.yaml",
    "[" * 3000: "acl.yaml cannot be read: it goes too deep.",
    "a.md: !!python/object:os.system {}": "acl.yaml cannot be read: ",
}


@pytest.mark.parametrize("rules", MISTAKES)
def test_invalid_rules_raise_an_error(tmp_path: Path, rules: str) -> None:
    with pytest.raises(AclError) as stopped:
        readers_of(tmp_path, rules, "a.md")

    assert str(stopped.value).startswith(MISTAKES[rules])


OTHER_PLACES = [
    "board/acl.yaml",
    "acl.yml",
    "ACL.yaml",
    ".acl.yaml",
    "acl.json",
    "acl.yaml.txt",
    "acl (1).yaml",
    "acl.yaml.bak",
    "acls.yaml",
    "acl",
    "acl.yaml ",
    "acl copy.yaml",
    "acl - Copy.yaml",
    "Copy of acl.yaml",
    "_acl.yaml",
    "old-acl.yml",
    "acl_old.yaml",
    "acl2.yaml",
    "acl.yaml.disabled",
    "acl.yaml-2026-11-23",
    "acl.disabled",
    "acl_old",
    "acl copy.txt",
    "ACL\u200b.YAML",
    "~$acl.yaml",
    "#acl.yaml#",
]
ORDINARY = [
    "aclu.md",
    "aclu-report.pdf",
    "oracle.yaml",
    "miracle.yaml",
    "facl.docx",
    "acl.md",
    "acl-injury.md",
    "acl-surgery.pdf",
    "ACL reform.md",
    "ACL reform.txt",
]


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_are_not_lookalikes(name: str) -> None:
    assert ACL_FILE_LOOKALIKE.fullmatch(name) is None


@pytest.mark.parametrize("name", OTHER_PLACES)
def test_lookalike_names_are_detected(name: str) -> None:
    assert ACL_FILE_LOOKALIKE.fullmatch(name.rpartition("/")[2])


@pytest.mark.parametrize("name", OTHER_PLACES)
def test_rules_in_subfolders_raise_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(AclError, match="would not be obeyed"):
        read_acl(tmp_path, NAMES, ["acl.yaml", name])


def test_rules_in_parent_folders_raise_an_error(tmp_path: Path) -> None:
    (tmp_path / "acl.yaml").write_text("docs/**: {groups: [x]}")
    (tmp_path / "docs").mkdir()

    with pytest.raises(AclError, match="has rules for this folder too"):
        read_acl(tmp_path / "docs", NAMES)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_rules_that_are_a_folder_raise_an_error(tmp_path: Path) -> None:
    (tmp_path / "acl.yaml").symlink_to(tmp_path / "not-mounted" / "acl.yaml")
    with pytest.raises(AclError, match="is no file that can be read"):
        read_acl(tmp_path, NAMES)
    (tmp_path / "acl.yaml").unlink()
    (tmp_path / "acl.yaml").mkdir()

    with pytest.raises(AclError, match="is no file that can be read"):
        read_acl(tmp_path, NAMES)


def test_rules_in_invalid_utf_8_raise_an_error(tmp_path: Path) -> None:
    (tmp_path / "acl.yaml").write_bytes(b"a.md: {groups: [\xff]}")

    with pytest.raises(AclError, match="cannot be read"):
        read_acl(tmp_path, NAMES)
