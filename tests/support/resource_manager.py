"""A fake Azure Resource Manager."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from scripts import existing_resources
from scripts.role_assignment import CALL_MODELS
from scripts.switches import EXISTING_SEARCH
from tests.support.http_server import QuietHandler, run_http_server

GROUP = "/subscriptions/1b2c/resourceGroups/their group/providers"
SEARCH_ID = f"{GROUP}/Microsoft.Search/searchServices/theirs"
OPENAI_ID = f"{GROUP}/Microsoft.CognitiveServices/accounts/models"
APP, PERSON = "app-principal", "person-principal"
BOTH_KINDS = {"authOptions": {"aadOrApiKey": {"aadAuthFailureMode": "http403"}}}


@dataclass
class ResourceManager:
    """Azure Resource Manager with one search service. `statuses` come first, one a request."""

    search: Mapping[str, Any] = field(default_factory=lambda: BOTH_KINDS)
    given: bool = False  # by somebody else
    statuses: list[int] = field(default_factory=list)
    retry_after: float = 0  # seconds, of a 429
    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def list_assignments(self, query: str) -> list[dict[str, Any]]:
        """The app's roles on everything, where somebody else has given them."""
        if not self.given or unquote(query).find(f"$filter=principalId eq '{APP}'") < 0:
            return []
        roles = (existing_resources.READ_INDEX, CALL_MODELS)
        return [{"properties": {"roleDefinitionId": f"/x/{role_id}"}} for _, role_id in roles]

    @property
    def assignments(self) -> dict[str, Any]:
        return {path: body["properties"] for method, path, body in self.requests if method == "PUT"}


def serve(
    fake: ResourceManager, add_certificate: Callable[[ssl.SSLContext], None]
) -> AbstractContextManager[str]:
    """Serve it over TLS on 127.0.0.1, at the address that is returned."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            path, _, query = self.path.partition("?")
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else {}
            fake.requests.append((self.command, path, body))
            status = fake.statuses.pop(0) if fake.statuses else 0
            if status == -1:  # closes the connection without a response
                return
            version = "2022-04-01" if "/roleAssignments" in path else "2025-05-01"
            known = f"api-version={version}" in query and self.headers["Authorization"]
            value: dict[str, Any] = {"properties": fake.search} if self.command == "GET" else {}
            if path.endswith("/roleAssignments"):
                value = {"value": fake.list_assignments(query)}
            data = json.dumps(value).encode()
            self.send_response(status or (200 if known else 400))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status == 429:
                self.send_header("Retry-After", str(fake.retry_after))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = respond

    return run_http_server(Handler, add_certificate)


def search(value: str = SEARCH_ID) -> dict[str, str]:
    return {EXISTING_SEARCH: value}
