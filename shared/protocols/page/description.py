"""What the app can do here, for its own page and others: GET /config and GET /auth_setup.

The names in camel case are those of the front end of azure-search-openai-demo.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.http.call import Json
from shared.protocols.exchange import Exchange
from shared.rag.flow import Rag
from shared.retrieval.base import IndexStatistics

SAMPLE_QUESTIONS = (
    "How many vacation days do I get?",
    "What does Northwind Health Plus cover that Northwind Standard does not?",
    "What does a Product Manager do?",
)
SIGN_IN_PATH = "/.auth/login/aad?post_login_redirect_uri=/"


def describe_app(exchange: Exchange) -> Json:
    """Describe what acts here. Names and numbers are for a laptop or a signed-in user alone.

    Raises ChatErrors.
    """
    rag, app = exchange.rag, exchange.app
    is_known = app.access.single_user or app.access.get_user(exchange.call.headers).is_signed_in
    statistics = rag.retriever.statistics()
    details = _details(rag, statistics) if is_known else {}
    return {
        "streamingEnabled": True,
        "showVectorOption": bool(statistics and statistics.has_vectors),
        "showSemanticRankerOption": bool(statistics and statistics.has_ranker),
        "showChatHistoryBrowser": True,
        "images": "images" not in rag.model.limits,
        "memory": app.memory is not None and is_known,
        "overrides": list(_overrides(rag, statistics, is_known)),
        "routes": sorted(exchange.routes),
        "examples": [],
        **details,
    }


def _details(rag: Rag, statistics: IndexStatistics | None) -> dict[str, Any]:
    details: dict[str, Any] = {"model": rag.model.name}
    if statistics is None:
        return details
    index = {**statistics.to_json(), "isSamples": statistics.is_samples}
    examples = SAMPLE_QUESTIONS if statistics.is_samples else ()
    return {**details, "index": index, "examples": examples}


def _overrides(rag: Rag, statistics: IndexStatistics | None, is_known: bool) -> Iterator[Json]:
    """Yield the main overrides that act here, with the type of their values."""
    yield {"name": "top", "type": "number", "minimum": 1, "maximum": 50}
    if "temperature" not in rag.model.limits:
        yield {"name": "temperature", "type": "number", "minimum": 0, "maximum": 2}
    if statistics and statistics.has_vectors:
        modes = ("hybrid", "text", "vectors")
        yield {"name": "retrieval_mode", "type": "choice", "values": modes}
    if statistics and statistics.has_ranker:
        yield {"name": "semantic_ranker", "type": "boolean"}
    if statistics and statistics.has_images and "images" not in rag.model.limits:
        yield {"name": "use_gpt4v", "type": "boolean"}
    names = rag.models.model_names
    if is_known and len(names) > 1:
        yield {"name": "model", "type": "choice", "values": names}
    yield {"name": "suggest_followup_questions", "type": "boolean"}
    yield {"name": "include_category", "type": "text"}
    yield {"name": "exclude_category", "type": "text"}


def describe_sign_in(exchange: Exchange) -> Json:
    """Describe the platform's sign-in, which needs no library in the page.

    `useLogin` is false: in the front end of azure-search-openai-demo it stands for a sign-in by
    the page itself.
    """
    sign_in = exchange.app.access.sign_in
    path = {"signInPath": SIGN_IN_PATH} if sign_in else {}
    return {"useLogin": False, "requireAccessControl": False, "platformSignIn": sign_in, **path}
