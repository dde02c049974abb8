"""A baseline: the SDKs of Azure AI Search and OpenAI as their documentation shows them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from azure.core.credentials import AzureKeyCredential
from azure.search.documents.aio import SearchClient
from azure.search.documents.models import VectorizedQuery
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bench.serving.baseline import (
    ENDPOINT,
    FIELDS,
    IS_HYBRID,
    KEY,
    TOP,
    Messages,
    answer_prompt,
    rewrite_prompt,
)

openai = AsyncOpenAI(base_url=f"{ENDPOINT}/openai/v1/", api_key=KEY)
index = SearchClient(ENDPOINT, "docs", AzureKeyCredential(KEY))


async def search(query: str) -> list[Any]:
    """The passages."""
    options: dict[str, Any] = {"select": FIELDS, "top": TOP}
    if IS_HYBRID:
        reply = await openai.embeddings.create(model="embedding", input=[query])
        vector = reply.data[0].embedding
        queries = [VectorizedQuery(vector=vector, k_nearest_neighbors=50, fields="embedding")]
        options["vector_queries"] = queries
    return [hit async for hit in await index.search(query, **options)]


async def complete(messages: Messages) -> AsyncIterator[str]:
    """The texts of the model's tokens."""
    prompt: Any = messages
    stream = await openai.chat.completions.create(model="chat", messages=prompt, stream=True)
    async for chunk in stream:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            yield text


async def answer(messages: Messages) -> AsyncIterator[str]:
    """The texts of the answer's tokens."""
    query = messages[-1]["content"]
    if len(messages) > 1:
        query = "".join([text async for text in complete(rewrite_prompt(messages))])
    async for text in complete(answer_prompt(messages, await search(query))):
        yield text


async def chat(request: Request) -> Response:
    """Answer with one JSON object."""
    texts = [text async for text in answer((await request.json())["messages"])]
    return JSONResponse({"message": {"role": "assistant", "content": "".join(texts)}})


async def chat_stream(request: Request) -> Response:
    """Answer with a JSON line for each token."""
    messages = (await request.json())["messages"]

    async def lines() -> AsyncIterator[str]:
        async for text in answer(messages):
            yield json.dumps({"delta": {"content": text}}) + "\n"

    return StreamingResponse(lines(), media_type="application/jsonl")


app = Starlette(
    routes=[
        Route("/chat", chat, methods=["POST"]),
        Route("/chat/stream", chat_stream, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
