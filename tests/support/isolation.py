"""Keeps the developer's environment, settings, index and memory out of the tests."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import MutableMapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
# What the system, Python and the host need. No setting of the app or of a library is among it.
ALLOWED_VARIABLES = re.compile(
    r"""PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|TZ|TMPDIR|TEMP|TMP|CI
    |LD_LIBRARY_PATH|SSL_CERT_(FILE|DIR)|VIRTUAL_ENV|PYTHON\w+|PYENV_\w+|PIP_\w+
    |FUNCTIONS_HOST|FUZZ_EXAMPLES|FUNCTIONS_CORE_TOOLS_TELEMETRY_OPTOUT|DOTNET_\w+
    |SYSTEMROOT|SYSTEMDRIVE|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA""",
    re.VERBOSE | re.IGNORECASE,
)
FILES = ("function_app.py", "host.json", "dev_server.py")
FOLDERS = ("shared", "tests", "bench")


def isolate(environment: MutableMapping[str, str]) -> None:
    """Remove every variable that could be a setting of the app or of a library."""
    for name in [name for name in environment if not ALLOWED_VARIABLES.fullmatch(name)]:
        del environment[name]


@cache
def app_copy() -> Path:
    """The app in a temporary folder, without local.settings.json, index.db and memory.db.

    The app reads these from its own folder; a Functions host has no option to change that.
    """
    folder = Path(tempfile.mkdtemp(prefix="app-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in FILES:
        shutil.copy2(ROOT / name, folder)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder
