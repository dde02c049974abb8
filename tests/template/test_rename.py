"""A fork gets a name of its own by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.rename import InvalidName, rename
from tests.support.packaging import clone_project

# What tells Azure that a resource is of this template.
KEPT = ("infra/main.bicep", "scripts/app_registration.py")


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fork = clone_project(tmp_path_factory.mktemp("fork"))
    kept = [(fork / name).read_text("utf-8") for name in KEPT]
    changed = list(rename(fork, "Contoso help desk"))

    assert set(changed) >= {"README.md", "azure.yaml", ".devcontainer/devcontainer.json"}
    assert [(fork / name).read_text("utf-8") for name in KEPT] == kept
    return fork


def test_title_is_in_the_readme(fork: Path) -> None:
    assert (fork / "README.md").read_text("utf-8").startswith("# Contoso help desk\n\n")


@pytest.mark.part("page")
def test_title_is_on_the_page(fork: Path) -> None:
    languages = fork.glob("shared/protocols/page/static/languages/*.json")
    titles = {json.loads(path.read_text("utf-8"))["title"] for path in languages}

    assert titles == {"Contoso help desk"}


@pytest.mark.part("mcp")
def test_project_and_mcp_server_have_the_name_with_hyphens(fork: Path) -> None:
    azure = (fork / "azure.yaml").read_text("utf-8")
    server = (fork / "shared" / "protocols" / "mcp" / "messages.py").read_text("utf-8")
    golden = "".join(
        path.read_text("utf-8") for path in fork.glob("tests/**/golden/**/*mcp*.jsonl")
    )

    assert "\nname: contoso-help-desk\n" in azure
    assert "template: serverless-rag-chat-python@" in azure
    assert 'SERVER = {"name": "contoso-help-desk", ' in server
    assert golden.count('serverInfo": {"name": "contoso-help-desk", ') > 2
    assert 'serverInfo": {"name": "serverless-rag-chat", ' not in golden


def test_it_can_be_renamed_again(fork: Path) -> None:
    changed = list(rename(fork, "Fabrikam (R&D)"))

    assert "azure.yaml" in changed
    assert "\nname: fabrikam-r-d\n" in (fork / "azure.yaml").read_text("utf-8")
    assert (fork / "README.md").read_text("utf-8").startswith("# Fabrikam (R&D)\n")
    assert list(rename(fork, "Fabrikam (R&D)")) == []


@pytest.mark.parametrize("name", ["", "\N{ARABIC LETTER ALEF}", 'a"b', "a\nb", "a\\1", "a" * 61])
def test_name_that_cannot_stand_in_each_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")

    with pytest.raises(InvalidName, match="letters, digits, spaces"):
        list(rename(tmp_path, name))
    assert (tmp_path / "README.md").read_text() == "# Title\n"
