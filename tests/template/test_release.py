"""The notes of a release: the section of its version in the changelog."""

from __future__ import annotations

import pytest

from scripts.release_notes import release_notes
from tests.support.servers import ROOT

CHANGELOG = """# Changelog

## [Unreleased]

- next

## [0.2.0] - 2026-12-01

### Added

- something

## [0.1.0] - 2026-11-01

- the first
"""
AZURE_YAML = "name: x\nmetadata:\n  template: x-python@{}\n"


@pytest.mark.parametrize(
    ("tag", "notes"), [("v0.2.0", "### Added\n\n- something"), ("v0.1.0", "- the first")]
)
def test_notes_are_the_section_of_the_version(tag: str, notes: str) -> None:
    assert release_notes(tag, CHANGELOG, AZURE_YAML.format(tag[1:])) == notes


@pytest.mark.parametrize(
    ("tag", "version", "problem"),
    [
        ("v0.2.0", "0.1.0", "azure.yaml names version 0.1.0, the tag 0.2.0"),
        ("v0.3.0", "0.3.0", "no section [0.3.0]: rename [Unreleased]"),
        ("v0.2", "0.2", "no section [0.2]"),
    ],
)
def test_mismatch_is_named(tag: str, version: str, problem: str) -> None:
    with pytest.raises(ValueError) as failure:
        release_notes(tag, CHANGELOG, AZURE_YAML.format(version))

    assert problem in str(failure.value)


def test_changelog_and_azure_yaml_have_the_form_that_is_read() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8").replace("[Unreleased]", "[0.1.0]")
    azure_yaml = (ROOT / "azure.yaml").read_text("utf-8")

    assert release_notes("v0.1.0", changelog, azure_yaml).startswith("### Added")
