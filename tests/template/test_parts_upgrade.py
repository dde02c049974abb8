"""A fork without some parts takes a newer version, by the lines of docs/upgrade.md: no conflict."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.packaging import clone_repository
from tests.support.servers import ROOT

PARTS = "aog mcp"
REMOVE = f"{sys.executable} -m scripts.parts remove {PARTS} --no-check"
PROMPT = "shared/rag/prompts/answer.txt"


def run(folder: Path, script: str) -> str:
    """Run lines of a shell; the first one that fails ends it."""
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com"}
    names |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in names.items()}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder.parent)} | names,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text("utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), "utf-8")


def release_next_version(folder: Path) -> None:
    """Commit a newer version that changes lines beside, and in, what the fork has removed."""
    edit(folder, "README.md", "OpenAI's SDKs, ", "OpenAI's SDKs, `curl`, ")
    edit(folder, "shared/protocols/aog/routes.py", '"""', '"""New. ')
    edit(folder, "shared/rag/flow.py", '"""', '"""New. ')
    edit(folder, "docs/README.md", "[OpenSearch](", "[OpenSearch, new](")
    (folder / "shared" / "protocols" / "aog" / "new.py").write_text('"""New."""\n')
    run(folder, "git add --all; git commit --quiet --message next; git tag v0.2.0")


@pytest.mark.slow
def test_fork_without_parts_takes_a_newer_version(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "upgrade.md").read_text("utf-8").partition("## A fork")[2]
    _, once, each_time, *_ = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    fork = clone_repository(tmp_path / "fork")
    if (ROOT / ".mypy_cache").exists():  # without one mypy takes a minute
        shutil.copytree(ROOT / ".mypy_cache", fork / ".mypy_cache")
    run(fork, f"{REMOVE}; git commit --quiet --all --message 'Remove parts'")
    run(fork, once.replace("COMMIT", "HEAD"))
    (fork / PROMPT).write_text("Answer like a pirate.\n")
    run(fork, "git commit --quiet --all --message 'Change the prompt'; git switch --detach main~2")
    release_next_version(fork)

    run(fork, each_time.replace('make remove PARTS="NAME NAME"', REMOVE))

    assert (fork / PROMPT).read_text() == "Answer like a pirate.\n"
    assert (fork / "shared/rag/flow.py").read_text().startswith('"""New. ')
    assert "`curl`" in (fork / "README.md").read_text("utf-8")
    assert not (fork / "shared" / "protocols" / "aog").exists()
    assert "AOG" not in (fork / "README.md").read_text("utf-8")
    assert run(fork, "git status --porcelain") == ""
