"""Questions about uploads that messages of OpenAI's clients name."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from shared.domain.events import Delta, Done
from shared.http.auth import AccessPolicy
from shared.protocols.exchange import App
from shared.protocols.upload_form import UploadsConfig
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.uploads.base import UploadLimits
from shared.uploads.retriever import UploadsRetriever
from tests.support.calls import ANNA, BufferedReply, ask, call, local_service
from tests.support.fakes import FakeModel, make_rag
from tests.support.uploads import UploadsFolder

LIMITS = UploadLimits(file_bytes=1_000_000, files=100, files_per_day=100)
QUESTION = "Which animals are there?"
SECTIONS = [f"The animal number {number} is a quokka." for number in range(40)]
TEXT = "\n\n".join(f"# Chapter {n}\n\n{text} {'word ' * 120}" for n, text in enumerate(SECTIONS))
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ROUTES = [CHAT, RESPONSES]
KEYS = {CHAT: "messages", RESPONSES: "input"}  # of the messages in a body


class ReadingFolder(UploadsFolder):
    """Uploads that a thread reads as soon as they are stored."""

    def __init__(self, root: Path, limits: UploadLimits) -> None:
        super().__init__(root, limits)
        self._reading = Lock()

    def _wake(self) -> None:
        Thread(target=self._read).start()

    def _read(self) -> None:
        with self._reading:
            self.run()


class Files:
    """An app whose model is a fake, over uploads in a folder."""

    def __init__(self, root: Path, reads: bool = False, wait_seconds: float = 20) -> None:
        """`reads`: uploads are read as soon as they are stored; a request waits for that."""
        self.uploads = (ReadingFolder if reads else UploadsFolder)(root, LIMITS)
        self.wait_seconds = wait_seconds
        self.model = FakeModel((Delta("Many."), Done()), max_prompt_tokens=100_000)
        self.access = AccessPolicy(sign_in=True)
        self.shared = SqliteRetriever(())

    @property
    def app(self) -> App:
        uploads = self.uploads
        retriever: Any = UploadsRetriever(self.shared, uploads.passages, uploads.store)
        rag = make_rag(self.model, retriever)
        config = UploadsConfig(uploads.store, self.wait_seconds)
        return local_service(rag, self.access, configs=(config,))

    def add(self, owner: str, name: str, text: str) -> str:
        id = self.uploads.add(owner, name, text).id
        self.uploads.run()
        return id

    def ask(self, route: str, *ids: str, headers: dict[str, str] = ANNA) -> BufferedReply:
        """The reply to a question about files."""
        return ask(call(route, body_of(route, *ids), headers), self.app)

    @property
    def prompt(self) -> str:
        """All text that the model got last."""
        messages = self.model.calls[-1].messages
        assert "file" not in {
            part["type"]
            for message in messages
            for part in ((message.raw or {}).get("content") or [])
            if isinstance(part, dict)
        }
        return "\n".join(message.content for message in messages)


def body_of(route: str, *ids: str) -> Any:
    """The body of a question about files."""
    if route == CHAT:
        parts: list[Any] = [{"type": "file", "file": {"file_id": id}} for id in ids]
        parts.append({"type": "text", "text": QUESTION})
        return {"messages": [{"role": "user", "content": parts}]}
    parts = [{"type": "input_file", "file_id": id} for id in ids]
    parts.append({"type": "input_text", "text": QUESTION})
    return {"input": [{"role": "user", "content": parts}]}


def inline_body(route: str, *files: tuple[str, bytes], text: str = QUESTION) -> Any:
    """The body of a question that contains files."""
    urls = [(name, f"data:text/markdown;base64,{b64encode(data).decode()}") for name, data in files]
    parts: list[Any]
    if route == CHAT:
        parts = [{"type": "file", "file": {"filename": n, "file_data": url}} for n, url in urls]
        parts.append({"type": "text", "text": text})
    else:
        parts = [{"type": "input_file", "filename": n, "file_data": url} for n, url in urls]
        parts.append({"type": "input_text", "text": text})
    return {KEYS[route]: [{"role": "user", "content": parts}]}


def place(route: str, index: int = 0) -> str:
    """Where the body names a file."""
    if route == CHAT:
        return f"messages[0].content[{index}].file.file_id"
    return f"input[0].content[{index}].file_id"
