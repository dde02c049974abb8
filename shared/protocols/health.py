"""GET /health: the parts in use and whether they answer, or which settings are wrong."""

from __future__ import annotations

from shared.http.call import Reply, dumps
from shared.http.health import HealthReport
from shared.protocols import context_json
from shared.protocols.exchange import JSON, READ, Exchange, Route


async def health(exchange: Exchange) -> Reply:
    """Answer a call. Never raises."""
    app = exchange.app
    if app.problems:
        wrong = {"error": "Settings are wrong or missing.", "settings": list(app.problems)}
        return Reply(503, JSON, dumps(wrong))
    # HEAD only checks that the app runs: it calls no service.
    report = HealthReport() if exchange.call.method == "HEAD" else await app.health.report()
    status = {"status": "degraded" if report.failing else "ok"}
    more = {"failing": report.failing, "details": report.details}
    present = {key: value for key, value in more.items() if value}
    return exchange.json_reply({**status, **app.health.names, **present})


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
