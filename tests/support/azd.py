"""A fake azd."""

from __future__ import annotations

import sys
from pathlib import Path

AZD = """#!{python}
import sys
assert sys.argv[1:] == ["auth", "token", "--output", "json", *{arguments!r}], sys.argv
print({output!r})
sys.exit({status})
"""


def install_azd(
    folder: Path, output: str, status: int = 0, arguments: tuple[str, ...] = ()
) -> Path:
    """Write an azd that prints a token for these further arguments."""
    azd = folder / "azd"
    values = {"output": output, "status": status, "arguments": arguments}
    azd.write_text(AZD.format(python=sys.executable, **values), "utf-8")
    azd.chmod(0o755)
    return folder
