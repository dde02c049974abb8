"""Fake command lines of Azure, az and azd, which return a token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

AZ = {"accessToken": "token-of-az", "expires_on": 4070908800, "expiresOn": "2099-01-01 00:00:00"}
ERROR_TEXTS = {  # their real messages, which the SDK parses
    "az": "ERROR: Please run: az login to setup account.",
    "azd": "ERROR: not logged in, run `azd auth login` to login",
}


def write_cli(folder: Path, name: str, answer: Mapping[str, Any] | None) -> Path:
    """Write a fake CLI that returns a token, or is not signed in; it records its calls."""
    calls = folder / f"{name}.calls"
    says = f"echo '{json.dumps(answer)}'" if answer else f"echo '{ERROR_TEXTS[name]}' >&2; exit 1"
    script = folder / name
    script.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\n{says}\n')
    script.chmod(0o755)
    return calls
