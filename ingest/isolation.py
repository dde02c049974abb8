"""Takes the network from a process, and where possible its sight of other processes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def isolate() -> bool:
    """Give this process a network of its own, which is empty. Returns whether the system allows it.

    It takes Linux and Python 3.12; most containers forbid it. Any user but root also gets a user
    namespace: from there the variables and the memory of other processes cannot be read. Root would
    lose its right to read the files of others. A thread that already runs stays outside.
    """
    if sys.platform != "linux" or sys.version_info < (3, 12):
        return False
    user, group = os.geteuid(), os.getegid()
    try:
        os.unshare(os.CLONE_NEWNET | (os.CLONE_NEWUSER if user else 0))
    except OSError:
        return False
    if user:
        _keep_ids(user, group)
    return True


def _keep_ids(user: int, group: int) -> None:
    """Keep the ids in the new namespace: without them no file can be written."""
    lines = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    with suppress(OSError):
        for name, line in lines.items():
            Path("/proc/self", name).write_text(line, "ascii")
