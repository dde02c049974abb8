"""The Responses API of OpenAI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from bench.requests.endpoint import CHAIN, QUESTION, Chain, Endpoint, Json
from bench.schemas import OBJECT, TEXT, array, const, either, fields, sample, schema_of
from shared.http.auth import LOCAL_OWNER
from shared.http.call import dumps
from shared.memory.base import Memory
from shared.protocols.openai.responses import items, request
from tests.support.calls import ask, call, local_service
from tests.support.fakes import make_rag

RESPONSES = "/v1/responses"
WITHOUT_BODY = (f"{RESPONSES}/{{id}}", f"{RESPONSES}/{{id}}/cancel")
OTHER_MODELS = (items._Reference,)  # a stored item: `bench.flow` makes it


def ask_after_call(body: Json) -> Json:
    """Return a request of the Responses API, whose outputs answer an earlier call."""
    call = {"type": "function_call", "call_id": sample(TEXT), "name": "f"}
    return {**body, "input": [call, *body.get("input", ()), QUESTION]}


def list_endpoints() -> Iterator[Endpoint]:
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
        request._FileSearch,
        type=const("file_search"),
        vector_store_ids=array(TEXT, minItems=1),
        filters=schema_of(request._Filter),
    )
    function = schema_of(request._Function, type=const("function"), parameters=OBJECT)
    body = schema_of(
        request._Fields,
        input=input,
        tools=array(function, search),
        text=schema_of(request._Text, format=schema_of(request._Format, schema=OBJECT)),
        reasoning=schema_of(request._Reasoning),
    )
    yield Endpoint(RESPONSES, body, ask_after_call)


def store_chain(memory: Memory) -> Chain:
    """Store a chain of responses. Return the requests that refer to its turns."""
    reply = ask(call(RESPONSES, {"input": "a"}), local_service(make_rag(), memory=memory))
    turns = asyncio.run(_store_turns(memory, reply.json["id"].removeprefix("resp_")))

    def proceed(count: int) -> bytes:
        return dumps({"input": "a", "previous_response_id": f"resp_{turns[count - 1]}"})

    def refer(count: int) -> bytes:
        items = [{"type": "item_reference", "id": f"msg_{id}"} for id in turns[:count]]
        return dumps({"input": [*items, QUESTION]})

    endpoint = Endpoint(RESPONSES, {})
    return (
        (endpoint, ".previous_response_id, its turns", proceed),
        (endpoint, ".input[item_reference]", refer),
    )


async def _store_turns(memory: Memory, first: str) -> list[str]:
    """Store the turn of a response again and again, each time behind the one before."""
    interaction = await memory.interactions.get(LOCAL_OWNER, first)
    turns = [first]
    while len(turns) < CHAIN:
        new = memory.new_id()
        details = interaction.turn.details.replace(first, new.id)
        turn = replace(interaction.turn, parent=turns[-1], details=details)
        await memory.interactions.add(LOCAL_OWNER, interaction.conversation, turn, new)
        turns.append(new.id)
    return turns
