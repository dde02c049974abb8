"""The list of protocols: a new one is a line here."""

from __future__ import annotations

from collections.abc import Mapping

from shared.protocols import health
from shared.protocols.ai_chat import routes as ai_chat
from shared.protocols.aog import routes as aog
from shared.protocols.content import routes as content
from shared.protocols.openai import routes as openai
from shared.protocols.opensearch import routes as opensearch
from shared.protocols.route import Route

PROTOCOLS = (ai_chat, health, content, aog, openai, opensearch)
ROUTES: Mapping[str, Route] = {
    route.path: route for protocol in PROTOCOLS for route in protocol.ROUTES
}
