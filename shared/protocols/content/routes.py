"""The route of the files behind citations."""

from __future__ import annotations

from shared.chat.errors import NotFound
from shared.http.call import Reply, cancel_on_disconnect
from shared.protocols import context_json
from shared.protocols.content.handler import FileHandler
from shared.protocols.exchange import Exchange
from shared.protocols.route import READ, Route


async def content(exchange: Exchange) -> Reply:
    """Answer a call. Raises NotFound where there are no files."""
    app, call, retriever = exchange.app, exchange.call, exchange.engine.retriever
    if app.files is None:
        raise NotFound("This deployment serves no documents.")
    files = FileHandler(app.files, retriever, app.access)
    return await cancel_on_disconnect(files.reply(call, exchange.deadline), call.is_disconnected)


ROUTES = (
    Route(
        path="/content/{path}",
        methods=READ,
        handler=content,
        errors=context_json.ERRORS,
        usage="GET /content/{path}, where path is a citation's",
        name="content",
        pattern="content/{*path}",
    ),
)
