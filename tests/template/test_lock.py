"""constraints.txt pins what is deployed; `make lock` writes it."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from tests.support.lockfile import canonical_name, find_unpinned, read_pins
from tests.support.servers import ROOT


def requirements(name: str) -> list[Requirement]:
    """Return the requirements of a file, without options and included files."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


@pytest.fixture(scope="module")
def constraints() -> dict[str, set[str]]:
    """Return the version specifiers of constraints.txt, by name."""
    specifiers: dict[str, set[str]] = {}
    for one in requirements("constraints.txt"):
        specifiers.setdefault(one.name, set()).add(str(one.specifier))
    return specifiers


def test_requirements_are_installed_under_the_constraints() -> None:
    assert (ROOT / "requirements.txt").read_text("utf-8").startswith("-c constraints.txt\n")


def test_every_constraint_is_a_pin() -> None:
    for one in requirements("constraints.txt"):
        assert str(one.specifier).startswith("=="), f"{one} is not a pin: run `make lock`"
        assert not one.extras, f"pip takes no constraint with extras: {one}"


def test_requirements_and_constraints_pin_the_same_versions(
    constraints: dict[str, set[str]],
) -> None:
    pins = [one for one in requirements("requirements.txt") if "==" in str(one.specifier)]

    assert len(pins) > 10
    for one in pins:
        specifiers = constraints.get(canonical_name(one.name), set())
        assert str(one.specifier) in specifiers, f"not in constraints.txt: {one}; run `make lock`"


def test_azure_functions_is_not_pinned(
    constraints: dict[str, set[str]],
) -> None:
    (line,) = (one for one in requirements("requirements.txt") if one.name == "azure-functions")

    assert "==" not in str(line.specifier)
    assert {"azure-functions", "werkzeug"} & constraints.keys() == set()


def test_unpinned_distribution_is_named() -> None:
    pins = read_pins("# a comment\nhttpx2==2.1\nidna==3.20 ; python_version >= '3.12'\n")
    versions = {"httpx2": "2.1", "idna": "3.19", "six": "1.17", "azure-functions": "2", "pip": "1"}

    assert find_unpinned(versions, pins, {"azure-functions"}) == ["idna==3.19", "six==1.17"]


def test_installed_names_are_normalized() -> None:
    names = [one.name for one in requirements("constraints.txt")]

    assert canonical_name("Typing_Extensions") == "typing-extensions"
    assert names == [canonical_name(name) for name in names]
