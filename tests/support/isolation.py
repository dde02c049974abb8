"""Isolates the tests from the developer's environment, settings, index and memory."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path

import trustme

ROOT = Path(__file__).parent.parent.parent
# What the system, Python and the host need. No setting of the app or of a library is among it.
ALLOWED_VARIABLES = re.compile(
    r"""PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|TZ|TMPDIR|TEMP|TMP|CI
    |LD_LIBRARY_PATH|SSL_CERT_(FILE|DIR)|VIRTUAL_ENV|PYTHON\w+|PYENV_\w+|PIP_\w+
    |FUNCTIONS_HOST|FUZZ_EXAMPLES|PAIRS|REMOVAL
    |TEST_BROWSER|TEST_FIREFOX|TEST_MODEL|TEST_OPEN_WEBUI
    |FUNCTIONS_CORE_TOOLS_TELEMETRY_OPTOUT|DOTNET_\w+
    |SYSTEMROOT|SYSTEMDRIVE|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA""",
    re.VERBOSE | re.IGNORECASE,
)
FILES = ("function_app.py", "host.json", "dev_server.py")
FOLDERS = ("shared", "ingest", "scripts", "tests", "bench", "evals")


def isolate(environment: MutableMapping[str, str]) -> None:
    """Remove every variable that could be a setting of the app or of a library."""
    for name in [name for name in environment if not ALLOWED_VARIABLES.fullmatch(name)]:
        del environment[name]


def limit_trust(environment: MutableMapping[str, str]) -> None:
    """Let TLS clients trust one unused authority: each loads all of the system's in 50 ms."""
    handle, path = tempfile.mkstemp(suffix=".pem")
    os.close(handle)
    atexit.register(Path(path).unlink, missing_ok=True)
    trustme.CA().cert_pem.write_to_path(path)
    environment["SSL_CERT_FILE"] = path
    environment.pop("SSL_CERT_DIR", None)


def system_trust(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for programs that reach the internet: pip, and Core Tools."""
    return {name: value for name, value in environment.items() if name != "SSL_CERT_FILE"}


@cache
def app_copy() -> Path:
    """The app in a temporary folder, without local.settings.json, index.db and memory.db.

    The app reads these from its own folder; a Functions host has no option to change that.
    """
    folder = Path(tempfile.mkdtemp(prefix="app-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in FILES:
        shutil.copy2(ROOT / name, folder)
    for name in filter(lambda name: (ROOT / name).is_dir(), FOLDERS):
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder
