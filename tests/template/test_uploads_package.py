"""The package of the reader of uploads: its files, and whether its requirements are enough."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Set
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.lockfile import canonical_name
from tests.support.packaging import clone_project, needs_git
from tests.support.servers import ROOT
from tests.support.uploads_package import STAND_IN, make_package, unpack

pytestmark = needs_git

APP = ROOT / "ingest" / "app"
# What a reader is likely to import, and what is imported only when it reads.
MODULES = [
    "function_app",
    "ingest.passage_reader",
    "ingest.sandbox_worker",
    "ingest.setup",
    "ingest.targets.azure_search.blob_upload",
    "ingest.targets.azure_search.writer",
    *(f"ingest.readers.{path.stem}" for path in (ROOT / "ingest" / "readers").glob("[a-z]*.py")),
    "shared.azure.identity",
    "shared.bootstrap.models",
    "shared.models.openai.client",
    "azure.functions",
    "azure.storage.queue",
]
BLOCKING = """
import importlib, sys
for name in {blocked!r}:
    sys.modules[name] = None
sys.path.insert(0, {folder!r})
for name in {modules!r}:
    importlib.import_module(name)
print(sys.modules["ingest"].__file__)
"""


def read_requirements(file: Path) -> dict[str, Requirement]:
    """The requirements of a file, by name."""
    lines = file.read_text("utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]
    return {canonical_name(each.name): each for each in found}


def with_dependencies(requirements: list[Requirement]) -> set[str]:
    """The names of what is installed for requirements."""
    names: set[str] = set()
    for each in requirements:
        name = canonical_name(each.name)
        if name in names or (each.marker and not applies(each)):
            continue
        names.add(name)
        try:
            inner = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:  # of another platform
            continue
        names |= with_dependencies([one for one in inner if applies(one, each.extras)])
    return names


def applies(requirement: Requirement, extras: Set[str] = frozenset()) -> bool:
    """Whether a requirement is installed here, with some extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": one}) for one in {"", *extras})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the hook has run twice, the second time after a file was deleted."""
    folder = clone_project(tmp_path_factory.mktemp("clone") / "my app")
    app = folder / "ingest" / "app" / "function_app.py"
    if not app.exists():
        app.write_text(STAND_IN)
    (folder / "shared" / "__pycache__").mkdir(exist_ok=True)
    (folder / "shared" / "__pycache__" / "settings.py").write_text("")
    (folder / "shared" / "deleted.py").write_text("")
    assert make_package(folder).returncode == 0
    (folder / "shared" / "deleted.py").unlink()
    done = make_package(folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.fixture
def package(project: Path, tmp_path: Path) -> Path:
    return unpack(project, tmp_path)


def test_package_has_the_app_and_the_code_that_it_imports(package: Path) -> None:
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    code = {name for name in files if "/" in name}

    assert files - code == {"function_app.py", "host.json", "requirements.txt", "constraints.txt"}
    assert code >= {"shared/settings.py", "shared/rag/prompts/describe.txt", "ingest/setup.py"}
    assert {name.partition("/")[0] for name in code} == {"shared", "ingest"}
    assert {name.rpartition(".")[2] for name in code} == {"py", "txt"}


@pytest.mark.parametrize(
    "part", ["static/", "__pycache__/", "shared/data/", "ingest/app/", "deleted.py", "tests/"]
)
def test_package_is_without_what_the_reader_does_not_need(package: Path, part: str) -> None:
    files = [path.relative_to(package).as_posix() for path in package.rglob("*")]

    assert [name for name in files if part in f"{name}/"] == []


def test_requirements_find_their_constraints(package: Path) -> None:
    for file in (APP / "requirements.txt", package / "requirements.txt"):
        (line,) = re.findall(r"(?m)^-c (.+)$", file.read_text("utf-8"))

        assert (file.parent / line).samefile(
            package / "constraints.txt" if file.parent == package else ROOT / "constraints.txt"
        )


def test_missing_app_ends_the_packaging(tmp_path: Path) -> None:
    folder = clone_project(tmp_path / "clone")
    (folder / "ingest" / "app" / "function_app.py").unlink(missing_ok=True)
    done = make_package(folder)

    assert done.returncode == 1
    assert "function_app.py" in done.stderr
    assert not (folder / "build" / "uploads").exists()


def test_versions_are_those_of_the_project() -> None:
    ours = read_requirements(APP / "requirements.txt")
    others = read_requirements(ROOT / "requirements.txt")
    others |= read_requirements(ROOT / "requirements-ingest.txt")

    assert {name: str(each) for name, each in ours.items() if name in others} == {
        name: str(others[name]) for name in ours if name in others
    }
    assert ours.keys() - others.keys() <= {"azure-storage-queue"}


def test_requirements_are_enough_for_what_the_reader_imports(package: Path) -> None:
    allowed = with_dependencies([*read_requirements(APP / "requirements.txt").values()])
    blocked = [
        module
        for module, names in packages_distributions().items()
        if allowed.isdisjoint(map(canonical_name, names))
    ]
    code = BLOCKING.format(blocked=blocked, folder=str(package), modules=MODULES)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=package, capture_output=True, text=True, timeout=120
    )

    assert {"fastapi", "starlette", "opentelemetry", "uvicorn"} <= set(blocked)
    assert "azure-cosmos" not in allowed
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(package))


def test_host_takes_one_message_at_a_time_and_gives_up_after_some() -> None:
    host = json.loads((APP / "host.json").read_text("utf-8"))
    main = json.loads((ROOT / "host.json").read_text("utf-8"))

    assert host["extensions"] == {
        "queues": {
            "batchSize": 1,
            "newBatchThreshold": 0,
            "maxDequeueCount": 5,
            "visibilityTimeout": "00:05:00",
            "messageEncoding": "base64",
        }
    }
    assert host["functionTimeout"] == "00:30:00"
    assert {name: host[name] for name in ("version", "logging", "extensionBundle")} == {
        name: main[name] for name in ("version", "logging", "extensionBundle")
    }
