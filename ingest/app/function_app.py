"""The Functions app that reads what users have uploaded."""

from __future__ import annotations

import logging
import os
from functools import cache

import azure.functions as func

from ingest.uploads.service import UploadService, make_service
from shared.settings import SettingsError, read_settings
from shared.telemetry.access_log import quiet_libraries

CONNECTION = "AzureWebJobsStorage"

quiet_libraries()
app = func.FunctionApp()
log = logging.getLogger("uploads")


@cache
def get_service() -> UploadService:
    """Return the service of this process. Raises SettingsError."""
    try:
        return make_service(read_settings(os.environ))
    except SettingsError as error:
        log.error("uploads: nothing is read until the app's settings are right: %s", error)
        raise


def _text(message: func.QueueMessage) -> str:
    return message.get_body().decode("utf-8", "replace")


@app.queue_trigger("message", "uploads", CONNECTION)
async def read_upload(message: func.QueueMessage) -> None:
    """Read or remove the upload of a message."""
    await get_service().read(_text(message))


@app.queue_trigger("message", "uploads-poison", CONNECTION)
async def give_up_upload(message: func.QueueMessage) -> None:
    """Store that an upload could not be read, after all attempts to handle its message."""
    await get_service().give_up(_text(message))


@app.timer_trigger("timer", "0 */30 * * * *", run_on_startup=False)
async def sweep_uploads(timer: func.TimerRequest) -> None:
    """Find uploads that ended attempts have left."""
    await get_service().sweep()
