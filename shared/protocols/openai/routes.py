"""The routes for OpenAI's clients."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shared.domain.errors import NoSuchModel, NoSuchRoute
from shared.domain.events import Context, Done, Events
from shared.domain.request import ChatRequest
from shared.http.call import Reply
from shared.protocols.exchange import EVERY_METHOD, READ, Exchange, Route
from shared.protocols.handler import USAGE, read_request, respond
from shared.protocols.message_files import resolve_files
from shared.protocols.openai import operations
from shared.protocols.openai.data_sources import with_data_source
from shared.protocols.openai.models import apply_task_model, list_models
from shared.protocols.openai.response import CHAT, format_model, format_models
from shared.rag.citations import number_citations

DEPLOYMENT = "/openai/deployments/{deployment}/chat/completions"
CHATS = ("/v1/chat/completions", "/openai/v1/chat/completions", DEPLOYMENT)
LISTS = ("/v1/models", "/openai/v1/models", "/openai/models")
ONES = ("/v1/models/{*id}", "/openai/v1/models/{*id}")  # a model's name may have a slash in it
OTHERS = ("/v1/{*path}", "/openai/{*path}")

LONGEST_NAME = 200  # characters of a model's
NOTICE, LONGEST_NOTICE = "x-chat-notice", 1000
NO_INSTRUCTIONS = (
    "The client's instructions (system, developer, role_information) were left out: this "
    "deployment has its own instructions."
)


@dataclass(frozen=True, slots=True)
class ChatCompletionsConfig:
    """How the deployment answers chat completions."""

    links_citations: bool = False  # whether each citation in the text is a link, in Markdown


async def chat(exchange: Exchange) -> Reply:
    """Answer a chat completion, with numbered citations and the answer's notes in a header."""
    check_access(exchange)
    body = await exchange.read_body()
    request = await read_request(exchange, CHAT, body)
    request = _with_deployment(exchange, request)
    request = apply_task_model(exchange, request)
    request = _with_citation_links(exchange, request)
    request = with_data_source(exchange, request)
    request = await resolve_files(exchange, request)
    if request.grounding != "none" and not exchange.rag.client_prompts:
        request = without_instructions(request)
    notices = partial(add_notices, exchange.headers)
    return await respond(exchange, CHAT, request, (number_citations, notices))


def _with_citation_links(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request with links for its citations, if the deployment adds them."""
    enabled = exchange.app.config(ChatCompletionsConfig).links_citations
    return replace(request, state=replace(request.state, links_citations=enabled))


async def models(exchange: Exchange) -> Reply:
    """List the models."""
    check_access(exchange)
    exchange.identify(CHAT)
    return exchange.json_reply(format_models(list_models(exchange)))


async def model(exchange: Exchange) -> Reply:
    """Describe a model. Raises NoSuchModel."""
    check_access(exchange)
    exchange.identify(CHAT)
    name, owners = exchange.call.path, list_models(exchange)
    if name not in owners:
        raise NoSuchModel(f"There is no model {name!r:.100}.")
    return exchange.json_reply(format_model(name, owners[name]))


async def reject_path(exchange: Exchange) -> Reply:
    """Raise NoSuchRoute for any other path, with the routes that there are."""
    check_access(exchange)
    root = OTHERS[exchange.call.route.startswith("/openai")].removesuffix("{*path}")
    routes = (each for each in ROUTES if each.path.startswith(root) and each.path not in OTHERS)
    listed = ", ".join(f"{each.methods[0]} {each.path.replace('{*', '{')}" for each in routes)
    printable = re.sub(r"[^!-~]", "?", exchange.call.path)[:60]
    raise NoSuchRoute(
        f"There is no {exchange.call.method} {root}{printable} here. Chat completions and models "
        f"are at {listed}."
    )


def check_access(exchange: Exchange) -> None:
    """Raise Unauthorized for a caller without the key or a sign-in."""
    exchange.app.api_key.check(exchange.app.access, exchange.call.headers)


def _with_deployment(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request with the model of its path, which takes precedence over the body's.

    Raises NoSuchModel for an invalid name.
    """
    call = exchange.call
    if call.route != DEPLOYMENT:
        return request
    if not call.path.isprintable() or len(call.path) > LONGEST_NAME or not call.path:
        raise NoSuchModel("There is no model of that name.")
    return replace(request, overrides=request.overrides.model_copy(update={"model": call.path}))


def without_instructions(request: ChatRequest) -> ChatRequest:
    """Return the request without the client's instructions, of text or images, and with a note."""
    messages = tuple(each for each in request.messages if each.role != "system")
    if len(messages) == len(request.messages):
        return request
    return replace(request, messages=messages, notes=(*request.notes, NO_INSTRUCTIONS))


async def add_notices(headers: dict[str, str], events: Events) -> Events:
    """Pass events through and put the notes and warnings of an answer into a header."""
    notices: tuple[str, ...] = ()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Context | Done):
                notices += event.notes if isinstance(event, Context) else event.warnings
                if notices:
                    text = " ".join(notices).encode("ascii", "replace").decode()
                    headers[NOTICE] = re.sub(r"[^ -~]", " ", text)[:LONGEST_NOTICE]
            yield event


def _route(path: str, **more: Any) -> Route:
    return Route(path=path, errors=CHAT, auth="anonymous", **more)


_chat = partial(_route, methods=("POST",), handler=chat, operations={"POST": operations.CHAT})
_models = partial(_route, methods=READ, handler=models, operations={"GET": operations.LIST})
_model = partial(_route, methods=READ, handler=model, operations={"GET": operations.MODEL})
ROUTES = (
    *(_chat(path, usage=USAGE.format(path)) for path in CHATS),
    *map(_models, LISTS),
    *map(_model, ONES),
    *(_route(it, methods=EVERY_METHOD, handler=reject_path) for it in OTHERS),
)
