"""Recognizes files that hold keys or passwords: they are never indexed or uploaded."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

_HEAD_BYTES = 65536
_KEY_STORES = {".pfx", ".p12", ".jks", ".kdbx"}
# With the beginning of the key itself: a text about keys may show the first line alone.
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----\s{1,4}"
    rb"(?:[\w-]{1,30}: [^\n]{0,200}\s{1,4}){0,5}[A-Za-z0-9+/=]{40}"
    rb"|\APuTTY-User-Key-File-"
)


def describe_secret_name(path: PurePath) -> str | None:
    """The reason to leave a file of this name out, or None."""
    if path.name.lower() == "local.settings.json":
        return "It holds settings of an app, which may be secret."
    if path.suffix.lower() in _KEY_STORES:
        return "It is a store of keys."
    return None


def describe_secret(path: Path) -> str | None:
    """The reason to leave a file out, or None. Raises OSError."""
    if reason := describe_secret_name(path):
        return reason
    with path.open("rb") as file:
        has_key = _PRIVATE_KEY.search(file.read(_HEAD_BYTES))
    return "It holds a private key." if has_key else None
