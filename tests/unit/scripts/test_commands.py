"""How az and azd are found, and how their arguments are passed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.commands import CommandError, command_line, find_program, json_file


def install(folder: Path, *names: str) -> str:
    """Make executable files; return their folder as a PATH."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("files", "windows", "expected"),
    [
        (["az", "az.cmd"], True, "az.cmd"),  # as Microsoft's installer does: `az` is for Bash
        (["az", "az.bat"], True, "az.bat"),  # as pip does
        (["azd", "az.exe"], True, "az.exe"),
        (["az", "az.cmd"], False, "az"),
    ],
)
def test_az_is_found_by_the_name_that_the_system_can_run(
    files: list[str], windows: bool, expected: str, tmp_path: Path
) -> None:
    path = install(tmp_path / "Program Files", *files)

    assert find_program("az", windows, path) == str(tmp_path / "Program Files" / expected)


def test_a_bash_script_alone_is_not_az_on_windows(tmp_path: Path) -> None:
    path = install(tmp_path, "az")

    with pytest.raises(CommandError, match=r"^Install az first: https://learn\.microsoft\.com/"):
        find_program("az", windows=True, path=path)


def test_each_argument_is_quoted_on_windows_alone() -> None:
    words = [r"C:\Program Files\az.cmd", "rest", "--uri", "https://x/applications(appId=1)", ""]
    quoted = [f'"{word}"' for word in words]

    assert command_line(words, windows=False) == words
    assert command_line(words, windows=True) == " ".join(quoted)


@pytest.mark.parametrize("argument", ['{"a": 1}', "%PATH%", "a\nb", "a\rb", "folder\\"])
def test_arguments_that_quotes_do_not_protect_are_refused_on_windows(argument: str) -> None:
    assert command_line(["az", argument], windows=False) == ["az", argument]
    with pytest.raises(CommandError, match="would change this argument"):
        command_line(["az.cmd", argument], windows=True)


def test_json_is_passed_on_by_a_temporary_file() -> None:
    value = {"name": 'für "alle"', "list": [1, None]}
    with json_file(value) as argument:
        path = Path(argument.removeprefix("@"))
        text = path.read_bytes()

    assert argument.startswith("@")
    assert json.loads(text) == value
    assert text.isascii()
    assert not path.exists()
