"""Reads YAML that people write, and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar
from unicodedata import normalize

import yaml
from pydantic import TypeAdapter, ValidationError

from shared.domain.errors import describe_error

T = TypeVar("T")


class InvalidYaml(Exception):
    """A file cannot be read, or has another form; the message is a sentence."""


class _Loader(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys, which PyYAML would silently overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        duplicate = next((key for key in keys if keys.count(key) > 1), None)
        if duplicate is not None:
            raise yaml.YAMLError(f"duplicate key {duplicate}")
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """Normalize the text: keys in other normal forms are duplicates."""
        return normalize("NFC", super().construct_scalar(node))


def read_yaml(path: Path, adapter: TypeAdapter[T], form: str) -> T:
    """Read the value of a file. `form` says what it must be. Raises InvalidYaml."""
    name = path.name
    try:
        value = yaml.load(path.read_text("utf-8-sig"), _Loader)
        return adapter.validate_python(value, strict=True)
    except ValidationError as failure:
        error = failure.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in error["loc"])
        message = f"{place}: {describe_error(error)}" if place else form
        raise InvalidYaml(f"{name}: {message}.") from None
    except OSError as error:
        raise InvalidYaml(f"{name} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise InvalidYaml(f"{name} cannot be read: it goes too deep.") from None
    except yaml.MarkedYAMLError as error:
        raise InvalidYaml(f"{name} cannot be read: {_describe(error)}.") from None
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidYaml(f"{name} cannot be read: {' '.join(str(error).split())}.") from None


def _describe(error: yaml.MarkedYAMLError) -> str:
    """Say what is wrong and where, without the line: it may hold a secret by mistake."""
    mark = error.problem_mark
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{error.problem}{place}"
