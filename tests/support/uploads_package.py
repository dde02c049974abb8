"""The package of the reader of uploads, as azd makes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

UPLOADS_APP = "ingest/app"
# In azure.yaml.
UPLOADS_SERVICE: dict[str, Any] = {
    "uploads": {
        "project": UPLOADS_APP,
        "dist": "../../build/uploads",
        "language": "python",
        "host": "function",
        "condition": "${AZURE_UPLOADS}",
        "hooks": {"prepackage": {"run": "../../scripts/package/uploads/prepackage.py"}},
    }
}
STAND_IN = "from ingest.setup import open_setup\n"  # where there is no function_app.py


def make_package(project: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook as azd does: in its folder, with a Python without libraries."""
    service = project / UPLOADS_SERVICE["uploads"]["project"]
    hook = service / UPLOADS_SERVICE["uploads"]["hooks"]["prepackage"]["run"]
    command = [sys.executable, "-I", "-S", str(hook)]
    return subprocess.run(
        command, cwd=hook.parent, env={}, capture_output=True, text=True, timeout=60
    )


def unpack(project: Path, folder: Path) -> Path:
    """Copy the files of the package, as azd zips them, to a folder elsewhere."""
    service = UPLOADS_SERVICE["uploads"]
    made = project / service["project"] / service["dist"]
    return Path(shutil.copytree(made, folder / "home site wwwroot"))
