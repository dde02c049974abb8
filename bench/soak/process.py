"""What the app's process holds: memory, files, connections, tasks."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from urllib.request import urlopen

import psutil

from tests.support.servers import Server

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a process holds at a moment. `files` are open ones, without connections."""

    mib: float
    files: int
    connections: int
    tasks: Counter[str]


class AppProcess:
    """The process of a server that `bench.soak.app` started."""

    def __init__(self, server: Server) -> None:
        self.process = psutil.Process(server.pid)
        match = re.search(r"^tasks: (.*)$", server.log, re.MULTILINE)
        assert match is not None, server.log
        self.tasks_url = match[1]

    @property
    def mib(self) -> float:
        """Its resident memory."""
        return float(self.process.memory_info().rss / MIB)

    def holdings(self) -> Holdings:
        """What it holds now, after a collection of its garbage."""
        with urlopen(self.tasks_url) as response:
            tasks = Counter(json.load(response))
        listening = (psutil.CONN_LISTEN, psutil.CONN_TIME_WAIT, psutil.CONN_NONE)
        all_connections = self.process.net_connections("tcp")
        connections = [each for each in all_connections if each.status not in listening]
        count = getattr(self.process, "num_fds", None) or self.process.num_handles
        files = count() - len(connections)
        return Holdings(self.mib, files, len(connections), tasks)
