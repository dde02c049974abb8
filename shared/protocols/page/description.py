"""What the app can do here, for its own page and others: GET /config and GET /auth_setup.

The names in camel case are those of the front end of azure-search-openai-demo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from shared.domain.errors import ChatError
from shared.domain.overrides import Overrides
from shared.http.call import Json
from shared.protocols.exchange import Exchange
from shared.protocols.page.config import PageConfig
from shared.rag.inputs import Rag
from shared.retrieval.base import IndexStatistics

SAMPLE_QUESTIONS = (
    "How many vacation days do I get?",
    "What does Northwind Health Plus cover that Northwind Standard does not?",
    "What does a Product Manager do?",
)
MAX_CATEGORIES = 50
CATEGORIES_SECONDS = 1.0
SIGN_IN_PATH = "/.auth/login/aad?post_login_redirect_uri=/"
TOKEN_HEADER = "x-ms-token-aad-access-token"  # set by the platform where its token store is on
# The page of azure-search-openai-demo constructs a client of MSAL with it. It does not sign in by
# it: it finds the user in /.auth/me.
MSAL_SETUP: Json = {
    "msalConfig": {
        "auth": {"clientId": "", "redirectUri": "/", "postLogoutRedirectUri": "/"},
        "cache": {"cacheLocation": "sessionStorage"},
    },
    "loginRequest": {"scopes": []},
    "tokenRequest": {"scopes": []},
}


def is_known(exchange: Exchange) -> bool:
    """Return whether the caller may read names and numbers: on a laptop, or signed in."""
    access = exchange.app.access
    return access.single_user or access.get_user(exchange.call.headers).is_signed_in


async def list_categories(exchange: Exchange) -> tuple[str, ...]:
    """Return the categories that the caller may filter by, if the index lists them."""
    if not is_known(exchange):
        return ()
    access, app = exchange.app.access, exchange.app
    user = access.get_user(exchange.call.headers)
    with suppress(ChatError, TimeoutError):  # the page works without, and waits for the response
        async with asyncio.timeout(CATEGORIES_SECONDS), app.lookups:
            overrides, retriever = access.apply_filters(user, Overrides()), exchange.rag.retriever
            return await retriever.list_categories(user, overrides, MAX_CATEGORIES)
    return ()


def describe_app(exchange: Exchange, categories: tuple[str, ...] = ()) -> Json:
    """Describe what acts here. Names and numbers are for callers that are known.

    `categories` are those that a request can filter by. Raises ChatErrors.
    """
    rag, app, page = exchange.rag, exchange.app, exchange.app.config(PageConfig)
    known = is_known(exchange)
    uploads = page.uploads and _has_owner(exchange)
    statistics = rag.retriever.statistics()
    details = _details(rag, statistics) if known else {}
    questions = {"examples": page.questions} if page.questions else {}
    return {
        "streamingEnabled": True,
        "showVectorOption": bool(statistics and statistics.has_vectors),
        "showSemanticRankerOption": bool(statistics and statistics.has_ranker),
        "showChatHistoryBrowser": True,
        "images": "images" not in rag.model.limits,
        "memory": app.memory is not None and known,
        "uploads": uploads,
        "showUserUpload": uploads and _has_token(exchange),  # that page fails without a token
        "overrides": list(_overrides(rag, statistics, known, categories)),
        "routes": sorted(exchange.routes),
        "examples": [],
        **details,
        **questions,
        **({"title": page.title} if page.title else {}),
        **({"color": page.color} if page.color else {}),
    }


def _has_owner(exchange: Exchange) -> bool:
    """Whether the caller has an id, to which documents can belong."""
    return exchange.app.access.find_owner(exchange.call.headers) is not None


def _has_token(exchange: Exchange) -> bool:
    """Whether the platform's sign-in keeps a token of the caller, which `/.auth/me` shows."""
    return exchange.app.access.sign_in and bool(exchange.call.headers.get(TOKEN_HEADER))


def _details(rag: Rag, statistics: IndexStatistics | None) -> dict[str, Any]:
    details: dict[str, Any] = {"model": rag.model.name}
    if statistics is None:
        return details
    index = {**statistics.to_json(), "isSamples": statistics.is_samples}
    examples = SAMPLE_QUESTIONS if statistics.is_samples else ()
    return {**details, "index": index, "examples": examples}


def _overrides(
    rag: Rag, statistics: IndexStatistics | None, known: bool, categories: tuple[str, ...]
) -> Iterator[Json]:
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
    if known and len(names) > 1:
        yield {"name": "model", "type": "choice", "values": names}
    yield {"name": "suggest_followup_questions", "type": "boolean"}
    values = {"values": categories} if categories else {}
    yield {"name": "include_category", "type": "text", **values}
    yield {"name": "exclude_category", "type": "text", **values}


def describe_sign_in(exchange: Exchange) -> Json:
    """Describe the platform's sign-in, which needs no library in the page.

    `useLogin` is for the page of azure-search-openai-demo: with it, the page reads the user's name
    and token from `/.auth/me`, and offers uploads. Where the platform keeps no tokens, the page
    would sign in by itself: there it is false.
    """
    sign_in, has_token = exchange.app.access.sign_in, _has_token(exchange)
    return {
        "useLogin": has_token,
        "requireAccessControl": False,
        "platformSignIn": sign_in,
        **({"signInPath": SIGN_IN_PATH} if sign_in else {}),
        **(MSAL_SETUP if has_token else {}),
    }
