"""GET /health: the parts in use and whether they answer, or which settings are wrong."""

from __future__ import annotations

from shared.http.call import Reply
from shared.http.json_encoding import dumps
from shared.protocols import context_json
from shared.protocols.exchange import JSON, Exchange
from shared.protocols.route import READ, Route


async def health(exchange: Exchange) -> Reply:
    """Answer a call. Never raises."""
    app = exchange.app
    if app.problems:
        wrong = {"error": "Settings are wrong or missing.", "settings": list(app.problems)}
        return Reply(503, JSON, dumps(wrong))
    # HEAD only checks that the app runs: it calls no service.
    failing = {} if exchange.call.method == "HEAD" else await app.health.failures()
    status = {"status": "degraded" if failing else "ok"}
    more = {"failing": failing} if failing else {}
    return exchange.json_reply({**status, **app.health.names, **more})


ROUTES = (
    Route(
        path="/health",
        methods=READ,
        handler=health,
        errors=context_json.ERRORS,
        auth="anonymous",
        usage="GET /health",
    ),
)
