"""Runs the ingestion command over documents in storage, into an embedded index."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import CompletedProcess

from tests.support.azurite import AzuriteHome
from tests.support.ingest_command import run_command


def index_storage(
    home: AzuriteHome, index: Path, *arguments: str, **settings: str
) -> CompletedProcess[str]:
    """Run the command as somebody who is signed in, and trusts the services of `home`."""
    return run_command(
        *arguments,
        INDEX_FILE=str(index),
        EMBEDDINGS="off",
        SSL_CERT_FILE=home.ca,
        PATH=f"{home.folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        **settings,
    )
