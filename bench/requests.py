"""The requests of every route that reads a body, each with its lists at any length.

Lists come from the models that parse a request: a new field needs no line. What a parser reads by
hand is described here. `uncovered_models` and `uncovered_routes` name what this file lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from bench.schemas import (
    ANY,
    IMAGE,
    OBJECT,
    TEXT,
    Place,
    Schema,
    array,
    const,
    either,
    fields,
    keys,
    models_of,
    places,
    sample,
    schema_of,
)
from shared.domain.overrides import Overrides
from shared.protocols import feedback, message_json
from shared.protocols.ai_chat import output_text
from shared.protocols.ai_chat import request as ai_chat
from shared.protocols.aog import request as aog
from shared.protocols.exchange import EVERY_METHOD, Route
from shared.protocols.mcp import tools as mcp
from shared.protocols.openai import request as openai
from shared.protocols.openai.responses import items
from shared.protocols.openai.responses import request as responses
from shared.protocols.opensearch import generation, memory, pipelines

Json = dict[str, Any]
QUESTION = {"role": "user", "content": "What is in Plus?"}
PNG = b"\x89PNG\r\n\x1a\n"
ML = "/_plugins/_ml/memory"
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
# A conversation and an interaction that are stored, in the path of a request.
CONVERSATION, INTERACTION = "conversation", "interaction"


def unchanged(body: Any) -> Any:
    """Return the body itself."""
    return body


def ask(body: Json) -> Json:
    """Return a chat that ends with a question of the user's."""
    key = "input" if "input" in body else "messages"
    return {**body, key: [*body.get(key, ()), QUESTION]}


def ask_after_call(body: Json) -> Json:
    """Return a request of the Responses API, whose outputs answer an earlier call."""
    call = {"type": "function_call", "call_id": sample(TEXT), "name": "f"}
    return {**body, "input": [call, *body.get("input", ()), QUESTION]}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route, the schema of its body, and how a body of that schema becomes a valid one."""

    route: str
    schema: Schema
    complete: Callable[[Any], Any] = unchanged
    method: str = "POST"
    path: str = ""

    @property
    def name(self) -> str:
        """Its method, unless it is POST, and its route."""
        return f"{'' if self.method == 'POST' else self.method + ' '}{self.route}"

    def places(self) -> Iterator[Place]:
        """Yield the lists of its body, and its unknown keys."""
        yield from places(self.schema)
        if self.schema.get("type") == "object":
            rest = sample(self.schema)
            yield Place("{}", lambda count: {**rest, **keys(count)}, valid=False)


def chats() -> Iterator[Endpoint]:
    """The versions of the chat protocol."""
    image = either(const(IMAGE), array(const(0), prefix=list(PNG)))
    message = schema_of(
        ai_chat.RequestMessage, files=array(schema_of(ai_chat.RequestFile, data=image))
    )
    context = fields(overrides=schema_of(Overrides))
    body = schema_of(ai_chat._Fields, messages=array(message), context=context)
    for route, state in (("/chat", "sessionState"), ("/ask", "session_state")):
        yield Endpoint(route, {**body, "properties": body["properties"] | {state: ANY}}, ask)
    yield Endpoint("/chat/stream", schema_of(output_text._Fields, context=context), ask)
    yield Endpoint("/feedback", schema_of(feedback._Fields))


def chat_completions() -> Iterator[Endpoint]:
    """Chat completions of OpenAI, and the service of AOG."""
    function = schema_of(openai._Function, parameters=OBJECT)
    tool = schema_of(openai._Tool, function=function)
    stop = array(TEXT)
    yield Endpoint(CHAT, schema_of(openai._Fields, tools=array(tool), stop=stop), ask)
    parts = array(
        TEXT,
        fields(type=const("text"), text=TEXT),
        fields(type=const("text"), text=fields(value=TEXT)),
        fields(type=const("image_url"), image_url=fields(url=TEXT)),
        fields(type=const("image"), image=const("iVBORw0KGgo=")),
    )
    message = schema_of(aog._Message, content=either(TEXT, parts))
    body = schema_of(aog._Fields, messages=array(message), stop=stop)
    yield Endpoint("/aog/v0.2/services/{service}", body, ask, path="chat")


def response() -> Endpoint:
    """A request of the Responses API."""
    kinds = ("input_text", "output_text", "text", "refusal", "input_image")
    parts = array(schema_of(items._Part, type={"enum": kinds}))
    texts = array(schema_of(items._Part, type={"enum": kinds[:-1]}))
    input = array(
        schema_of(items._Message, content=either(TEXT, parts)),
        schema_of(items._Call, type=const("function_call")),
        schema_of(items._Output, type=const("function_call_output"), output=either(TEXT, texts)),
        *(fields(type=const(kind), id=TEXT) for kind in items.IGNORED),
    )
    search = schema_of(
        responses._FileSearch,
        type=const("file_search"),
        vector_store_ids=array(TEXT, minItems=1),
        filters=schema_of(responses._Filter),
    )
    body = schema_of(
        responses._Fields,
        input=input,
        tools=array(
            schema_of(responses._Function, type=const("function"), parameters=OBJECT), search
        ),
        text=schema_of(responses._Text, format=schema_of(responses._Format, schema=OBJECT)),
        reasoning=schema_of(responses._Reasoning),
    )
    return Endpoint(RESPONSES, body, ask_after_call)


def opensearch() -> Iterator[Endpoint]:
    """The search, the memory and the pipelines of OpenSearch."""
    names = array(TEXT)
    question = fields(generative_qa_parameters=schema_of(generation.Question))
    source = either(names, fields(includes=names, excludes=names))
    search = fields(query=fields(match=fields(text=TEXT)), ext=question)
    search = {**search, "properties": {**search["properties"], "_source": source}}
    for route in ("/_search", "/{index}/_search"):
        yield Endpoint(route, search, path="documents" if "index" in route else "")
    turn = {**schema_of(memory.MemoryBody), "required": ["input"]}
    info = {**schema_of(memory.ObjectInfoBody), "required": ["additional_info"]}
    yield Endpoint(f"{ML}/conversation", schema_of(memory.MemoryBody))
    yield Endpoint(f"{ML}/conversation/{{id}}", turn, path=CONVERSATION)
    yield Endpoint(ML, schema_of(memory.MemoryBody))
    named = {**schema_of(memory.MemoryBody), "required": ["name"]}
    yield Endpoint(f"{ML}/{{id}}", named, method="PUT", path=CONVERSATION)
    yield Endpoint(f"{ML}/{{id}}/messages", info, path=CONVERSATION)
    yield Endpoint(f"{ML}/message/{{id}}", info, method="PUT", path=INTERACTION)
    model = {"model_id": const("fake"), "context_field_list": array(TEXT, minItems=1)}
    processor = fields(**{pipelines.RAG: schema_of(pipelines.Pipeline, **model)})
    body = fields(response_processors=array(processor))
    yield Endpoint("/_search/pipeline/{name}", body, method="PUT", path="p")
    body = fields(persistent=ANY)
    yield Endpoint("/_cluster/settings", body, method="PUT")


def messages() -> Iterator[Endpoint]:
    """The messages of MCP."""
    rpc = {"jsonrpc": const("2.0"), "id": const(1)}
    models: dict[str, type[BaseModel]] = {
        "search": mcp.Search,
        "fetch": mcp.Fetch,
        "ask": mcp.Ask,
    }
    for name, model in models.items():
        params = fields(name=const(name), arguments=schema_of(model), _meta=OBJECT)
        yield Endpoint("/mcp", fields(**rpc, method=const("tools/call"), params=params))
    ping = fields(**rpc, method=const("ping"), params=OBJECT)
    yield Endpoint("/mcp", either(ping, ANY))


ENDPOINTS = (*chats(), *chat_completions(), response(), *opensearch(), *messages())
METHODS = ("POST", "PUT", "PATCH")  # those with a body
# They refuse each call, whatever its body is.
WITHOUT_BODY = (
    *("/aog/{*path}", "/v1/{*path}", "/openai/{*path}", "/_plugins/_ml/{*path}"),
    *(f"{ML}/_search", f"{ML}/{{id}}/_search", f"{RESPONSES}/{{id}}", f"{RESPONSES}/{{id}}/cancel"),
)
# Parameters of a query, what only a row of `bench.flow` can make (a stored item), and a base.
OTHER_MODELS = (memory.Paging, items._Reference, message_json.ContentPart)


def uncovered_routes(routes: Mapping[str, Route], endpoints: Iterable[Endpoint]) -> set[str]:
    """Return the routes that read a body and whose handler no endpoint calls, by their methods."""
    known = {(each.method, routes[each.route].handler) for each in endpoints}
    known |= {(method, routes[path].handler) for path in WITHOUT_BODY for method in METHODS}
    return {
        f"{method} {path}"
        for path, route in routes.items()
        for method in (METHODS[:1] if route.methods == EVERY_METHOD else METHODS)
        if method in route.methods and (method, route.handler) not in known
    }


def uncovered_models(
    models: Iterable[type[BaseModel]], endpoints: Iterable[Endpoint]
) -> set[type[BaseModel]]:
    """Return the models of the protocols that are in no endpoint's schema."""
    known = frozenset(OTHER_MODELS).union(*(models_of(each.schema) for each in endpoints))
    return {each for each in models if each.__module__.startswith("shared.protocols")} - known


def subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models that are derived from one, at any distance."""
    for each in model.__subclasses__():
        yield each
        yield from subclasses(each)
