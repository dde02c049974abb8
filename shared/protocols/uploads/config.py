"""Whether the deployment takes uploads, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.errors import Forbidden, NotFound
from shared.protocols.exchange import Exchange
from shared.uploads.base import Uploads

NO_UPLOADS = "This deployment takes no uploads (UPLOADS)."
NO_OWNER = "Sign in: an upload belongs to the user who sends it, and a key names nobody."


@dataclass(frozen=True, slots=True)
class UploadsConfig:
    """Where the deployment keeps uploads."""

    uploads: Uploads | None = None
    wait_seconds: float = 20  # for the passages of an upload, before POST /upload answers


def find_uploads(exchange: Exchange) -> tuple[Uploads, str]:
    """Return the store, and the id of the caller who owns uploads. Raises NotFound, Forbidden."""
    uploads = exchange.app.config(UploadsConfig).uploads
    if uploads is None:
        raise NotFound(NO_UPLOADS)
    owner = exchange.app.access.find_owner(exchange.call.headers)
    if owner is None:
        raise Forbidden(NO_OWNER)
    return uploads, owner
