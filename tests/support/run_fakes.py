"""Runs the app with its Azure adapters and the real SDKs against fakes of the Azure services.

`python -m tests.support.run_fakes --port 7071`. The index holds the sample passages.
The model quotes its sources.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import trustme

from shared.domain.events import Source
from shared.domain.messages import Message, iterate_parts, part_text
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.models.demo import reply
from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages
from shared.settings import SHARED_FOLDER
from tests.support.azure_cli import AZ, write_cli
from tests.support.fake_cosmos import CONTAINER, DATABASE, run_cosmos
from tests.support.fake_search import FIELDS, FakeSearch
from tests.support.isolation import app_copy
from tests.support.prompts import APP_PROMPTS
from tests.support.upstream import (
    RecordedRequest,
    Step,
    Upstream,
    answer_events,
    json_response,
    run_upstream,
    stream_response,
)

STARTED_MESSAGE = """\
The app answers over fakes of Azure AI Search, Azure OpenAI and Cosmos DB, by a fake `az`:
  search {search}
  model  {model}
  memory {memory}
Not imitated: vector ranking, the semantic ranker, rate limits."""


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may be parts, or missing beside calls of tools."""
    return "\n".join(filter(None, map(part_text, iterate_parts(message))))


class QuotingModel(Upstream):
    """A model deployment that quotes the sources of its prompt, as the demo model does."""

    def respond(self, request: RecordedRequest) -> list[Step]:
        if not request.path.endswith("/chat/completions"):
            return super().respond(request)
        messages = [Message(it["role"], message_text(it)) for it in request.body["messages"]]
        task = "rewrite" if messages[0].content == APP_PROMPTS.rewrite else "answer"
        words = reply(task, messages).split(" ")
        return stream_response(answer_events(*(f"{word} " for word in words[:-1]), words[-1]))


def to_document(source: Source) -> dict[str, Any]:
    """A passage as the index stores it."""
    return {name: getattr(source, name) for name in FIELDS}


class SampleSearch(FakeSearch):
    """An index that searches the sample passages by their words."""

    def __init__(self) -> None:
        passages = tuple(read_passages(SHARED_FOLDER / "data" / "samples.jsonl"))
        self.index = SqliteRetriever(passages)
        super().__init__(docs=[to_document(passage) for passage in passages])

    def respond(self, request: RecordedRequest) -> list[Step]:
        words, top = request.body.get("search") or "", request.body["top"]
        if words == "*" or top == 0:  # the passages of a file, or their number
            return super().respond(request)
        searching = self.index.search(User(), words, Overrides(top=top))
        with ThreadPoolExecutor() as thread:  # this thread has a loop that runs already
            result = thread.submit(asyncio.run, searching).result()
        docs = [to_document(source) for source in result.sources]
        options = ("queryType" in request.body, "captions" in request.body)
        return json_response({"value": [self.hit(doc, *options) for doc in docs]})


def serve(port: int, folder: Path) -> int:
    """Run fakes and app until Ctrl+C. Returns the app's exit status."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    write_cli(folder, "az", AZ)
    searching = SampleSearch()
    with (
        closing(searching.index),
        run_upstream(searching, tls) as search,
        run_upstream(QuotingModel()) as model,
        run_cosmos() as memory,
    ):
        message = STARTED_MESSAGE.format(search=search.url, model=model.url, memory=memory.url)
        print(message, flush=True)
        settings = {
            "AZURE_SEARCH_ENDPOINT": search.url,
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "default",
            "AZURE_OPENAI_ENDPOINT": model.url,
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embedding",
            "AZURE_COSMOS_ENDPOINT": memory.url,
            "AZURE_COSMOS_DATABASE": DATABASE,
            "AZURE_COSMOS_CONTAINER": CONTAINER,
            "CHAT_MODEL": "",
            "SSL_CERT_FILE": str(folder / "ca.pem"),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        }
        command = [sys.executable, "dev_server.py", "--port", str(port)]
        app = subprocess.Popen(command, cwd=app_copy(), env={**os.environ, **settings})
        while app.poll() is None:
            with suppress(KeyboardInterrupt):
                app.wait()
        return app.returncode


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=7071)
    with tempfile.TemporaryDirectory() as folder:
        return serve(parser.parse_args().port, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
