"""The deletion of an upload. The other routes read no JSON."""

from __future__ import annotations

from collections.abc import Iterator

from bench.requests.endpoint import Endpoint
from bench.schemas import schema_of
from shared.protocols.openai.files import PREFIXES as FILES
from shared.protocols.uploads.routes import DeleteFields

WITHOUT_BODY = ("/upload", *FILES)


def list_endpoints() -> Iterator[Endpoint]:
    """The deletion of an upload."""
    yield Endpoint("/delete_uploaded", schema_of(DeleteFields))
