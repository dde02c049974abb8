"""Files of JSON lines: those that people write, and the results of a command that may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from evals.errors import EvaluationError

M = TypeVar("M", bound=BaseModel)


class FileError(EvaluationError):
    """A file cannot be used; the message names the place and what is wrong."""


def read_text(path: Path) -> str:
    """Read a file. Raises FileError."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from None


def read_lines(path: Path, kind: type[M]) -> Iterator[tuple[str, M]]:
    """Read a file that people write; yield the place of each line, and the line.

    Raises FileError for the first line that is wrong.
    """
    for number, line in enumerate(read_text(path).split("\n"), 1):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            yield place, kind.model_validate_json(line)
        except ValidationError as error:
            raise FileError(f"{place}: {describe_invalid(error)}") from None


def read_results(path: Path, kind: type[M]) -> Iterator[M]:
    """Read the results so far, none if there is no file; a line that a kill has cut is left out."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            result = kind.model_validate_json(line)
        except ValidationError:
            continue
        yield result


def append(path: Path, result: BaseModel) -> None:
    """Add a line to a file of results. A line that a kill has cut is ended first."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(result.model_dump_json(exclude_defaults=True).encode() + b"\n")


def describe_invalid(error: ValidationError) -> str:
    """Return the place and the message of the first problem, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the object"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
