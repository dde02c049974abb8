"""A client of the AOG v0.2 chat service, written from its specification alone.

It reads a stream as AOG's own client does: whatever one read of the network gives is one event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

VERSION = "/aog/v0.2"
Message = Mapping[str, Any]


class AogError(Exception):
    """An error response or an error event of the service."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(body["message"])
        self.code = int(body["business_code"])


class AogClient:
    """Calls the services of a gateway."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def services(self) -> list[Any]:
        """The services' metadata."""
        return self._data("service")

    def providers(self) -> list[Any]:
        """The providers' metadata."""
        return self._data("service_provider")

    def chat(self, messages: Sequence[Message], **fields: Any) -> Any:
        """A whole answer."""
        body = {"messages": messages, **fields}
        return self._check(self.http.post(f"{VERSION}/services/chat", json=body))

    def stream(self, messages: Sequence[Message], **fields: Any) -> Iterator[Any]:
        """An answer's events, until the one that is finished."""
        body = {"messages": messages, "stream": True, **fields}
        with self.http.stream("POST", f"{VERSION}/services/chat", json=body) as response:
            if response.status_code != 200:
                response.read()
                self._check(response)
            for piece in response.iter_raw():
                event = json.loads(piece.decode().removeprefix("data:"))
                if "business_code" in event:
                    raise AogError(event)
                yield event
                if event["finished"]:
                    return

    def _data(self, name: str) -> list[Any]:
        return list(self._check(self.http.get(f"{VERSION}/{name}"))["data"])

    def _check(self, response: httpx.Response) -> Any:
        body = response.json()
        if response.status_code != 200:
            raise AogError(body)
        return body
