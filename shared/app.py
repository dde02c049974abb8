"""The routes of all protocols.

May import the protocols and what they import; no adapter.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.http.call import Call, Reply
from shared.protocols import content, health
from shared.protocols.ai_chat import routes as ai_chat
from shared.protocols.aog import routes as aog
from shared.protocols.exchange import App, Exchange, Route
from shared.protocols.feedback import routes as feedback
from shared.protocols.mcp import routes as mcp
from shared.protocols.openai import files as openai_files
from shared.protocols.openai import routes as openai
from shared.protocols.openai.responses import routes as responses
from shared.protocols.openapi import routes as openapi
from shared.protocols.opensearch import routes as opensearch
from shared.protocols.page import routes as page
from shared.protocols.ui_message_stream import routes as ui_message_stream
from shared.protocols.uploads import routes as uploads

PROTOCOLS = (
    ai_chat,
    health,
    content,
    feedback,
    uploads,
    aog,
    openai,
    openai_files,
    responses,
    opensearch,
    mcp,
    page,
    ui_message_stream,
    openapi,
)
ROUTES: Mapping[str, Route] = {
    route.path: route for protocol in PROTOCOLS for route in protocol.ROUTES
}


async def handle_call(app: App, call: Call) -> Reply:
    """Answer one call. Never raises, but for being cancelled."""
    return await Exchange(app, call, ROUTES).run()
