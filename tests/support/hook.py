"""The postprovision hook of azd in a clone of the project, over fakes of Azure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.azurite import AzuriteHome, make_home
from tests.support.fake_search import FakeSearch
from tests.support.ingest_azure import Azure, Filled
from tests.support.ingest_command import Seeing
from tests.support.packaging import clone_project
from tests.support.upstream import RecordedRequest, Server, Step, run_upstream

TIMEOUT = 120.0  # seconds, only reached by a hang
# The hook with short waits: the file that azd runs waits for minutes. And without numpy, which azd
# does not install for it.
HOOK = """
import sys
sys.modules["numpy"] = None
sys.path.insert(0, "..")
from scripts.after_provision import main
from scripts.samples import WaitPolicy
sys.exit(main(wait_policy=WaitPolicy({longest}, 0.05)))
"""


@dataclass
class SearchService(Filled):
    """A search service for ingestion and for the chat."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        return None if self.of_chat(request) else super().refusal(request)

    def respond(self, request: RecordedRequest) -> list[Step]:
        if not self.of_chat(request):
            return super().respond(request)
        docs = [{"image": None, **doc} for doc in self.indexes["docs"].docs.values()]
        chat = FakeSearch(docs=docs)
        return chat.refusal(request) or chat.respond(request)

    def of_chat(self, request: RecordedRequest) -> bool:
        return "docs/search.post.search" in request.path and "orderby" not in request.body


@dataclass
class Cloud:
    """Fakes of Azure, and a provisioned clone of the project."""

    home: AzuriteHome
    project: Path
    search: SearchService
    model: Seeing
    values: dict[str, str] = field(default_factory=dict)

    @property
    def documents(self) -> dict[str, Any]:
        return self.search.indexes["docs"].docs

    def listening(self, server: Server) -> AbstractContextManager[Any]:
        return Azure(self.home, self.search, self.model, {}).listening(server)

    def command(self, longest: float = 30) -> list[str]:
        return [sys.executable, "-c", HOOK.format(longest=longest)]

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "SSL_CERT_FILE": self.home.ca, **self.values, **more}

    def hook(self, *, longest: float = 30, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the hook as azd does: in its folder, with azd's environment."""
        return subprocess.run(
            self.command(longest),
            cwd=self.project / "scripts",
            env=self.environment(more),
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
        )

    def local(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads((self.project / "local.settings.json").read_text())
        return settings

    def own(self, **values: str) -> None:
        """Write local.settings.json with these values."""
        settings = {"IsEncrypted": False, "Values": values, "Host": {"CORS": "http://mine"}}
        (self.project / "local.settings.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone_project(tmp_path_factory.mktemp("clone") / "my app")


@contextmanager
def make_cloud(project: Path, folder: Path, search: SearchService) -> Iterator[Cloud]:
    """The cloud around a search service; `folder` gets its home."""
    for name in ("local.settings.json", ".azure/local.settings.written.json"):
        (project / name).unlink(missing_ok=True)
    home = make_home(folder)
    with ExitStack() as stack:
        model = stack.enter_context(run_upstream(Seeing()))
        stack.enter_context(Azure(home, search, model, {}).listening(search))
        values = {
            "AZURE_SEARCH_ENDPOINT": search.url,
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "default",
            "AZURE_OPENAI_ENDPOINT": model.url,
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt-4o",
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "e",
            "AZURE_STORAGE_CONTAINER": "documents",
            "PATH": f"{home.folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        }
        yield Cloud(home, project, search, model, values)
