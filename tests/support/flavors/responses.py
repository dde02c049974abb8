"""The Responses API, as a provider has it."""

from __future__ import annotations

from tests.support.responses_upstream import ResponsesUpstream

PATH = "/v1/responses"
HEALTH_PATH = "/v1/models"


class Server(ResponsesUpstream):
    """The Responses API."""

    texts = ("Remote ", "[a.md].")
