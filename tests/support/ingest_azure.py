"""The services of Azure that ingestion uses, as doubles."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.support.azurite import AzuriteHome
from tests.support.fake_service import FakeIndexService
from tests.support.ingest_command import Seeing
from tests.support.upstream import RecordedRequest, Server, Step


class Filled(FakeIndexService):
    """Takes the token of the `az` beside it."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        signed_in = request.headers["authorization"].startswith("Bearer ")
        same = {**request.headers, "authorization": "Bearer token" if signed_in else ""}
        return super().refusal(RecordedRequest(request.path, same, request.body, request.method))


@dataclass(frozen=True)
class Azure:
    """What stands in for Azure, and the settings that name it."""

    home: AzuriteHome
    search: Filled
    model: Seeing
    settings: dict[str, str]

    def listening(self, server: Server) -> AbstractContextManager[Any]:
        """Run a server with the certificate until the block ends."""
        return self.home.listening(server)
