"""What of the app one question passes: files, functions, and changes from file to file.

`python -m bench.walk [--list]`. One question to `/chat/stream`, without a history, over the
adapters of Azure AI Search and Azure OpenAI and their SDKs, against fakes in this process. A
question before it opens the connections, and of five after it the shortest walk counts: tokens
that arrive together take a shorter one. `--list` prints each file with its functions.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import trustme

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.settings import read_settings
from tests.support.azure_cli import AZ, write_cli
from tests.support.calls import call, read
from tests.support.fake_search import FakeSearch
from tests.support.upstream import Upstream, answer_events, run_upstream, stream_response

SHARED = Path(__file__).parent.parent / "shared"
DOCUMENT: dict[str, Any] = {
    "id": "1",
    "content": "Plus has no deductible.",
    "sourcepage": "a.md",
    "sourcefile": "a.md",
    "category": None,
    "oids": [],
    "groups": [],
    "image": None,
}
SECONDS = 60
QUESTIONS = 6


@dataclass
class Walk:
    """The functions of `shared/` that are called, in the order of their first calls.

    Each return to a coroutine or generator counts as a call; a comprehension or a lambda is part
    of its function.
    """

    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    changes: int = 0
    last: str = ""

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call; a function for sys.setprofile."""
        code = frame.f_code
        is_ours = code.co_filename.startswith(str(SHARED)) and code.co_name[0] != "<"
        if event != "call" or not is_ours:
            return
        file = str(Path(code.co_filename).relative_to(SHARED.parent))
        key = file, f"{code.co_name}:{code.co_firstlineno}"
        self.functions[key] = self.functions.get(key, 0) + 1
        self.changes += bool(self.last) and file != self.last
        self.last = file

    @property
    def files(self) -> dict[str, list[str]]:
        """The names of the functions, by file."""
        files: dict[str, list[str]] = {}
        for file, name in self.functions:
            files.setdefault(file, []).append(name.partition(":")[0])
        return files

    def describe(self) -> str:
        """Return the three figures."""
        functions = len(self.functions)
        return f"files {len(self.files)}, functions {functions}, changes of file {self.changes}"


@contextmanager
def azure(folder: Path) -> Iterator[dict[str, str]]:
    """Run the fakes; yield the settings of the app for them, whose certificates are trusted."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    write_cli(folder, "az", AZ)
    write_cli(folder, "azd", None)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    os.environ["SSL_CERT_FILE"] = str(folder / "ca.pem")
    os.environ["PATH"] = f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"
    search, model = FakeSearch(docs=[DOCUMENT]), Upstream()
    with run_upstream(search, tls), run_upstream(model, tls):
        model.plan += [
            stream_response(answer_events("None", " [a.md]", ".")) for _ in range(QUESTIONS)
        ]
        yield {
            "AZURE_SEARCH_ENDPOINT": search.url,
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_OPENAI_ENDPOINT": model.url,
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt-5.6-luna",
            "AZURE_SEARCH_INDEX_PUBLIC": "true",
            "CALLERS": "anyone",
        }


async def ask(settings: dict[str, str]) -> Walk:
    """Ask; return the shortest walk but the first. Raises RuntimeError if a question fails."""
    service, walks = build(read_settings(settings)), [Walk() for _ in range(QUESTIONS)]
    for walk in walks:
        sys.setprofile(walk.record)
        try:
            reply = await read(await handle_call(service, call("/chat/stream")))
        finally:
            sys.setprofile(None)
        if b"a.md" not in reply.data or b'"error"' in reply.data:
            raise RuntimeError(f"the question failed: {reply.status} {reply.data[:500]!r}")
    return min(walks[1:], key=lambda walk: walk.changes)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="also print files and functions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, azure(Path(folder)) as settings:
        walk = asyncio.run(asyncio.wait_for(ask(settings), SECONDS))
    if options.list:
        for file, names in walk.files.items():
            print(f"{file}: {', '.join(names)}")
    print(walk.describe())


if __name__ == "__main__":
    main()
