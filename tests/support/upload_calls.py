"""Calls of an app to the routes of uploads."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from shared.protocols.exchange import App
from shared.protocols.upload_form import UploadsConfig
from shared.uploads.base import Uploads
from tests.support.calls import ANNA, BufferedReply, ask, call
from tests.support.servers import LAPTOP, SIGN_IN
from tests.support.uploads import FORM, encode_form

SECONDS = 120.0  # only a hang takes so long
OWNERS = ("anna", "ben", "local")
SETTINGS = {**LAPTOP, **SIGN_IN, "INDEX_FILE": "samples", "CHAT_MODEL": "demo", "UPLOADS": "on"}


def store_of(app: App) -> Uploads:
    """The store of an app that takes uploads."""
    store = app.config(UploadsConfig).uploads
    assert store is not None
    return store


def upload(
    app: App, *files: tuple[str, bytes], headers: dict[str, str] = ANNA, name: str = "file"
) -> BufferedReply:
    """Upload files of these names and contents."""
    return ask(call("/upload", encode_form(*files, name=name), headers | FORM), app)


def list_names(app: App, headers: dict[str, str] = ANNA) -> Any:
    """The names that a user's uploads have."""
    return ask(call("/list_uploaded", headers=headers, method="GET"), app).json


def delete(app: App, name: str, headers: dict[str, str] = ANNA) -> BufferedReply:
    """Delete the uploads of a name."""
    return ask(call("/delete_uploaded", {"filename": name}, headers), app)


def describe(app: App, headers: dict[str, str] = ANNA) -> Any:
    """What the app says of a user's uploads."""
    return ask(call("/uploads", headers=headers, method="GET"), app).json


def delete_by_id(app: App, id: str, headers: dict[str, str] = ANNA) -> BufferedReply:
    """Delete one upload."""
    return ask(call("/uploads/{id}", headers=headers, method="DELETE", path=id), app)


def wait_until_read(app: App) -> None:
    """Wait until each upload is ready or has failed."""
    store = store_of(app)
    end = time.monotonic() + SECONDS
    while any(
        each.state in ("queued", "reading")
        for owner in OWNERS
        for each in asyncio.run(store.list(owner))
    ):
        assert time.monotonic() < end
        time.sleep(0.1)
