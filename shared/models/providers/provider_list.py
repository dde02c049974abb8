"""Reads the list of providers from JSON or a file, and its secrets from the environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic_core import from_json

from shared.domain.hosts import is_loopback
from shared.models.providers.metadata import REFERENCE, ProviderMetadata, describe_errors

IDENTITY = "${identity}"  # as a key: a token of the app's identity


def read_list(
    value: str, environment: Mapping[str, str], root: Path
) -> tuple[ProviderMetadata, ...]:
    """Read a list: JSON, or the path of a JSON or YAML file, relative to `root`.

    A secret is `${NAME}`, a variable of the environment. Raises ValueError with one argument for
    each error, which begins with the entry at fault, or with a verb.
    """
    entries = _load_entries(value, root)
    problems: list[str] = []
    providers: list[ProviderMetadata] = []
    for index, entry in enumerate(entries):
        try:
            providers.append(_resolve_secrets(ProviderMetadata.model_validate(entry), environment))
        except ValidationError as failure:
            label = _entry_label(index, entry)
            problems += [f"{label}{error}" for error in describe_errors(failure)]
        except ValueError as failure:
            problems.append(f"{_entry_label(index, entry)}{failure}")
    names = Counter(one.provider_name for one in providers)
    problems += [f"has two providers of the name {name}" for name in names if names[name] > 1]
    if problems:
        raise ValueError(*problems)
    return tuple(providers)


def _entry_label(index: int, entry: Any) -> str:
    name = entry.get("provider_name") if isinstance(entry, Mapping) else None
    return f"[{index}]" + (f" ({name})" if isinstance(name, str) else "")


def _load_entries(value: str, root: Path) -> list[Any]:
    if value.startswith(("[", "{")):
        try:
            entries: Any = from_json(value)
        except ValueError:
            raise ValueError("must be JSON, or the path of a file") from None
    else:
        entries = _read_file(root / value)
    if not isinstance(entries, list) or not entries:
        raise ValueError("must be a list of providers")
    return entries


def _read_file(path: Path) -> Any:
    import yaml  # which also reads JSON; loaded only where there is such a file

    try:
        return yaml.safe_load(path.read_text("utf-8-sig"))
    except OSError:
        raise ValueError("names a file that cannot be read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ValueError(f"names a file that is no YAML or JSON{where}") from None


def _resolve_secrets(
    provider: ProviderMetadata, environment: Mapping[str, str]
) -> ProviderMetadata:
    """Resolve the secrets of a provider. Raises ValueError for one in clear text."""
    headers, body = provider.extra_headers, provider.extra_json_body
    return provider.with_secrets(
        auth_key={"apikey": _resolve_key(provider, environment)}
        if provider.key is not None
        else {},
        extra_headers=_resolve_value(".extra_headers", headers, environment),
        extra_json_body=_resolve_value(".extra_json_body", body, environment),
    )


def _resolve_key(provider: ProviderMetadata, environment: Mapping[str, str]) -> SecretStr:
    path, value = ".auth_key.apikey", provider.auth_key["apikey"].get_secret_value()
    if value == IDENTITY:
        _check_trusted(provider.url)
        return SecretStr(value)
    if not REFERENCE.fullmatch(value):
        raise ValueError(
            f"{path}: must be ${{NAME}}, a variable of the environment: "
            "no secret stands in the list"
        )
    key = _resolve_text(path, value, environment)
    if " " in key:
        raise ValueError(f"{path}: must be one word")
    return SecretStr(key)


def _resolve_value(path: str, value: Any, environment: Mapping[str, str]) -> Any:
    """Return JSON with resolved references."""
    if isinstance(value, str):
        return _resolve_text(path, value, environment)
    if isinstance(value, Mapping):
        return {k: _resolve_value(f"{path}.{k}", v, environment) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve_value(path, each, environment) for each in value]
    return value


def _resolve_text(path: str, value: str, environment: Mapping[str, str]) -> str:
    def get_secret(match: re.Match[str]) -> str:
        secret = environment.get(match[1], "").strip()
        if not secret:
            raise ValueError(f"{path}: the variable {match[1]} is not set")
        return secret

    resolved = REFERENCE.sub(get_secret, value)
    if resolved != value and not re.fullmatch(r"[\x20-\x7e]+", resolved):
        raise ValueError(f"{path}: must be a text of ASCII characters")
    return resolved


def _check_trusted(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError(".url: must be https: no token goes out without TLS")
