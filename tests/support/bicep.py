"""What the Bicep in infra/ says: enough of it to compare, read by its form (two spaces a level).

The names, types and scopes in it are checked elsewhere; this is for what only the project knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PLATFORM = {  # settings of the host and the platform
    "AzureWebJobsStorage__accountName",
    "AzureWebJobsStorage__blobServiceUri",
    "AzureWebJobsStorage__credential",
    "AzureWebJobsStorage__clientId",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID",
    "WEBSITE_AUTH_PRM_DEFAULT_WITH_SCOPES",
}

INFRA = Path(__file__).parent.parent.parent / "infra"
FILES = tuple(sorted(INFRA.rglob("*.bicep")))
COMMENT = re.compile(r"(?m) *(?<!:)//.*$")


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter with its decorators unchanged; `default` is None where it is required."""

    kind: str
    default: str | None
    decorators: str

    @property
    def description(self) -> str:
        """The description, or an empty text."""
        match = re.search(r"@description\('(.+)'\)", self.decorators)
        return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class Block:
    """A resource or module: its type or file, its condition or loop (or nothing) and its body."""

    source: str
    condition: str
    body: str
    loop: str = ""

    def value(self, key: str) -> str:
        """The one-line value of a key of the body. Raises StopIteration."""
        return next(re.finditer(rf"(?m)^ +{key}: (.+)$", self.body))[1]

    def object(self, key: str) -> dict[str, str]:
        """The keys and one-line values of an object in the body; {} where there is none."""
        match = re.search(rf"(?ms)^( +){key}: (?:union\((?:\w+, )+)?{{\n(.*?)^\1}}\)?$", self.body)
        if not match:
            return {}
        depth = len(match[1]) + 2
        return dict(re.findall(rf"(?m)^ {{{depth}}}(\w+): (.+)$", match[2]))

    def array(self, key: str) -> tuple[str, ...]:
        """The lines of an array in the body; () where there is none, or where it is one line."""
        match = re.search(rf"(?ms)^( +){key}: \[\n(.*?)^\1\]$", self.body)
        return tuple(line.strip() for line in match[2].splitlines()) if match else ()


@cache
def text(name: str) -> str:
    """The Bicep file of that name, below infra/, without its comments."""
    return COMMENT.sub("", (INFRA / name).read_text("utf-8"))


def params(name: str) -> dict[str, Param]:
    """The parameters of a file, in order."""
    matches = re.finditer(
        r"(?ms)^((?:@(?:[^\n]|\n(?=[ })\]\n]))*\n)*)param (\w+) ([^\n=]+?)(?: = ([^\n]+))?\n",
        text(name),
    )
    return {one[2]: Param(one[3], _plain(one[4]), one[1]) for one in matches}


def variables(name: str) -> dict[str, str]:
    """The variables of a file that are one line."""
    matches = re.findall(r"(?m)^var (\w+) = ([^\n{]+)$", text(name))
    return {variable: _plain(value) or "" for variable, value in matches}


def outputs(name: str) -> dict[str, str]:
    """The outputs of a file."""
    return dict(re.findall(r"(?m)^output (\w+) \w+ = (.+)$", text(name)))


def blocks(kind: str, name: str) -> dict[str, Block]:
    """The resources, or modules, that a file creates."""
    matches = re.finditer(
        rf"(?ms)^{kind} (\w+) '([^']+)' = (?:if \(([^\n]+)\) )?{{\n(.*?)^}}$", text(name)
    )
    loops = re.finditer(
        rf"(?ms)^{kind} (\w+) '([^']+)' = \[\n  for (\w+ in \w+): {{\n(.*?)^  }}\n\]$", text(name)
    )
    return {
        **{one[1]: Block(one[2], one[3] or "", one[4]) for one in matches},
        **{one[1]: Block(one[2], "", one[4], loop=one[3]) for one in loops},
    }


def existing(name: str) -> dict[str, str]:
    """The existing resources of a file: the expression of each name, by symbol."""
    matches = re.findall(r"(?ms)^resource (\w+) '[^']+' existing = {\n  name: (\w+)$", text(name))
    return dict(matches)


def parameters_file() -> Iterator[tuple[str, str, str | None]]:
    """Each parameter that azd fills, the name in its environment, and the default there."""
    read = json.loads((INFRA / "main.parameters.json").read_text("utf-8"))
    for name, parameter in read["parameters"].items():
        match = re.fullmatch(r"\$\{(\w+)(?:=(.*))?\}", parameter["value"])
        assert match, name
        yield name, match[1], match[2]


def _plain(value: str | None) -> str | None:
    """A literal without its quotes."""
    return value.strip("'") if value is not None else None


def app_settings() -> dict[str, str]:
    """Return the app settings of Bicep: in main.bicep, and those of sign-in."""
    more = re.search(r"signIn \? \{\n(.*?)^\}", text("modules/app.bicep"), re.DOTALL | re.M)
    assert more
    settings = blocks("module", "main.bicep")["app"].object("settings")
    return settings | dict(re.findall(r"(?m)^  (\w+): (.+)$", more[1]))
