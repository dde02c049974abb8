"""The routes of the Responses API, under the prefixes of OpenAI's and Azure's clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shared.domain.concurrency import run_in_thread_if
from shared.domain.errors import NoSuchRoute
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.http.call import EVENTS, Reply
from shared.memory.base import Interaction
from shared.protocols.exchange import READ, Exchange, Route, check_method
from shared.protocols.handler import ChatProtocol, read_request, respond
from shared.protocols.message_files import resolve_files, store_contents
from shared.protocols.openai.models import apply_task_model
from shared.protocols.openai.response import headers
from shared.protocols.openai.responses import operations, storage
from shared.protocols.openai.responses.errors import (
    MISSING,
    UNSUPPORTED,
    ParameterError,
    status,
    write_error,
)
from shared.protocols.openai.responses.items import Item, join_calls
from shared.protocols.openai.responses.request import ResponseState, parse
from shared.protocols.openai.responses.response import write_answer
from shared.protocols.openai.responses.stream import write_stream
from shared.protocols.openai.routes import add_notices, check_access, without_instructions
from shared.rag.passthrough import PASSTHROUGH

PREFIXES = ("/v1/responses", "/openai/v1/responses", "/openai/responses")
MISSING_PATHS = ("compact", "input_tokens")  # POST to these paths, where a response has its id
NO_ROUTE = "There is no POST {route}/{path} here: responses are made by POST {route}."
STORED_METHODS = ("GET", "DELETE", "HEAD")
MANY_ITEMS = 1_000  # which take about as long as the start of a few threads
NO_CANCELLATION = "No response runs in the background here, so there is none to cancel."
NO_STORED_STREAM = "is not available here for a stored response: leave it out"
RESPONSES = ChatProtocol(
    name="responses",
    media_type=EVENTS,
    parse=parse,
    write_answer=write_answer,
    write_stream=write_stream,
    prompt_builder=PASSTHROUGH,
    write_error=write_error,
    status=status,
    headers=headers,
)


async def create(exchange: Exchange) -> Reply:
    """Answer a request, and store the response where its owner can find it again."""
    check_access(exchange)
    body = await exchange.read_body()
    request = await read_request(exchange, RESPONSES, body)
    request = apply_task_model(exchange, request)
    if request.grounding == "none":
        request = replace(request, state=replace(request.state, store=False, searches=False))
    request, answer = await exchange.wait_for(_load(exchange, request))
    request = await resolve_files(exchange, request)
    if request.grounding != "none" and not exchange.rag.client_prompts:
        request = without_instructions(request)
        echo = {**request.state.echo, "instructions": None}
        request = replace(request, state=replace(request.state, echo=echo))
    notices = partial(add_notices, exchange.headers)
    return await respond(exchange, RESPONSES, request, (notices,), answer)


async def _load(
    exchange: Exchange, request: ChatRequest
) -> tuple[ChatRequest, storage.StoredAnswer | None]:
    """Return the request with its history and its items, and where the answer is stored."""
    state: ResponseState = request.state
    store = storage.find_store(exchange)
    items = await storage.resolve_items(store, state.items)
    previous: Interaction | None = None
    history: tuple[Message, ...] = ()
    if state.previous is not None:
        previous, history = await storage.load_previous(exchange, state.previous)
    messages = await run_in_thread_if(len(items) > MANY_ITEMS, partial(_join, items, history))
    messages = await store_contents(exchange, request, messages)
    request = replace(request, messages=(*request.messages, *history, *messages))
    if store is None or not state.store:
        return storage.with_id(request, exchange.call.id, False), None
    new = store.memory.new_id()
    own = tuple(each for each in messages if each.role != "system")
    answer = storage.StoredAnswer(store, new, own, previous)
    return storage.with_id(request, new.id, True), answer


def _join(items: Sequence[Item], history: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of items that follow a history. Raises ParameterError."""
    _check(items, history)
    return tuple(join_calls(item.message for item in items))


def _check(items: Sequence[Item], history: Sequence[Message]) -> None:
    """Check that there is a question, and that each output answers a call. Raises
    ParameterError."""
    calls = {call.id for message in history for call in message.tool_calls}
    messages = [item.message for item in items]
    for item in items:
        calls |= {call.id for call in item.message.tool_calls}
        output = item.message.tool_call_id
        if output is not None and output not in calls:
            raise ParameterError(f"{item.path}.call_id", "names no earlier function_call")
    if not messages or messages[-1].role not in ("user", "tool"):
        message = "the last item must be a message of the user or a function_call_output"
        raise ParameterError("input", message)
    questions = (each for each in (*history, *messages) if each.role == "user")
    if not any(each.content.strip() for each in questions):
        raise ParameterError("input", "needs a message of the user with a text", MISSING)


async def response(exchange: Exchange) -> Reply:
    """Return or delete a stored response.

    Raises ResponseNotFound, ParameterError for a stream, NoSuchRoute for a part of the API that
    there is not.
    """
    check_access(exchange)
    exchange.identify(RESPONSES)
    call, route = exchange.call, exchange.call.route.removesuffix("/{id}")
    if call.method == "POST" and call.path in MISSING_PATHS:
        raise NoSuchRoute(NO_ROUTE.format(route=route, path=call.path))
    check_method(call.method, STORED_METHODS, f"{', '.join(STORED_METHODS)} {call.route}")
    store, id = storage.require_store(exchange), exchange.call.path
    if exchange.call.method == "DELETE":
        await store.delete(id)
        return exchange.json_reply({"id": id, "object": "response", "deleted": True})
    if exchange.call.query.get("stream") == "true":  # else a client would read an empty stream
        raise ParameterError("stream", NO_STORED_STREAM, UNSUPPORTED)
    return exchange.json_reply(storage.read_response(await store.get(id)))


async def input_items(exchange: Exchange) -> Reply:
    """List the input of a stored response. Raises ResponseNotFound."""
    check_access(exchange)
    exchange.identify(RESPONSES)
    interaction = await storage.require_store(exchange).get(exchange.call.path)
    return exchange.json_reply(storage.read_input(interaction))


async def cancel(exchange: Exchange) -> Reply:
    """Raise an error: a response ends with its request."""
    check_access(exchange)
    exchange.identify(RESPONSES)
    raise ParameterError("background", NO_CANCELLATION)


def _routes(prefix: str) -> tuple[Route, ...]:
    route: Any = partial(Route, errors=RESPONSES, auth="anonymous")
    usage = f"POST {prefix} with Content-Type: application/json and a body such as "
    return (
        route(
            path=prefix,
            methods=("POST",),
            handler=create,
            operations={"POST": operations.CREATE},
            usage=usage + '{"input": "..."}',
        ),
        route(
            path=f"{prefix}/{{id}}",
            methods=(*STORED_METHODS, "POST"),
            handler=response,
            operations={"GET": operations.READ, "DELETE": operations.DELETE},
        ),
        route(
            path=f"{prefix}/{{id}}/input_items",
            methods=READ,
            handler=input_items,
            operations={"GET": operations.INPUT_ITEMS},
        ),
        route(path=f"{prefix}/{{id}}/cancel", methods=("POST",), handler=cancel),
    )


ROUTES = tuple(route for prefix in PREFIXES for route in _routes(prefix))
