"""Symbolic links, where the system has them."""

from __future__ import annotations

from pathlib import Path

import pytest


def link(path: Path, to: Path | str) -> None:
    try:
        path.symlink_to(to)
    except OSError:
        pytest.skip("this system lets no test make symbolic links")
