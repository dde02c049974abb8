"""Stands in for the Functions host: hands the messages of the queue to what reads uploads.

A program of its own, `python -m tests.support.upload_reader`, with the settings of the reader.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from azure.storage.queue import TextBase64DecodePolicy

from ingest.uploads.service import make_service
from shared.bootstrap.clients import Clients
from shared.settings import read_settings, require_settings
from shared.uploads.blob.queue import make_queue_client

ROOT = Path(__file__).parent.parent.parent
POLL_SECONDS = 0.1


async def main() -> None:
    """Handle messages until the process is ended. One that fails is handled again."""
    settings = read_settings(os.environ)
    service = make_service(settings)
    (endpoint,) = require_settings(settings, "AZURE_UPLOADS_QUEUE_ENDPOINT")
    queue = make_queue_client(
        endpoint, Clients(settings).identity, message_decode_policy=TextBase64DecodePolicy()
    )
    while True:
        async for message in queue.receive_messages(visibility_timeout=60):
            await service.read(message.content)
            await queue.delete_message(message)
        await asyncio.sleep(POLL_SECONDS)


@contextmanager
def run_upload_reader(folder: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Run it until the block ends. Its output goes to a file in `folder`."""
    with (folder / "reader.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.upload_reader"],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(main())
