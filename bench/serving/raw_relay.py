"""A baseline: one search, one chat call and a JSON line for each token, on aiohttp without SDKs."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web

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

SEARCH = "/indexes('docs')/docs/search.post.search?api-version=2026-04-01"
EMBEDDINGS, CHAT = "/openai/v1/embeddings", "/openai/v1/chat/completions"
SESSION = web.AppKey("session", aiohttp.ClientSession)


async def post(session: aiohttp.ClientSession, path: str, body: Any) -> Any:
    """The JSON of a service's answer."""
    async with session.post(ENDPOINT + path, json=body) as response:
        response.raise_for_status()
        return await response.json()


async def search(session: aiohttp.ClientSession, query: str) -> Any:
    """The passages."""
    body: dict[str, Any] = {"search": query, "select": ",".join(FIELDS), "top": TOP}
    if IS_HYBRID:
        reply = await post(session, EMBEDDINGS, {"model": "embedding", "input": [query]})
        vector = {"kind": "vector", "fields": "embedding", "k": 50}
        body["vectorQueries"] = [vector | {"vector": reply["data"][0]["embedding"]}]
    return (await post(session, SEARCH, body))["value"]


async def complete(session: aiohttp.ClientSession, messages: Messages) -> AsyncIterator[str]:
    """The texts of the model's tokens."""
    body = {"model": "chat", "messages": messages, "stream": True}
    async with session.post(ENDPOINT + CHAT, json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    if text := choice["delta"].get("content"):
                        yield text


async def answer(session: aiohttp.ClientSession, messages: Messages) -> AsyncIterator[str]:
    """The texts of the answer's tokens."""
    query = messages[-1]["content"]
    if len(messages) > 1:
        query = "".join([text async for text in complete(session, rewrite_prompt(messages))])
    passages = await search(session, query)
    async for text in complete(session, answer_prompt(messages, passages)):
        yield text


async def chat(request: web.Request) -> web.Response:
    """Answer with one JSON object."""
    body = await request.json()
    texts = [text async for text in answer(request.app[SESSION], body["messages"])]
    return web.json_response({"message": {"role": "assistant", "content": "".join(texts)}})


async def chat_stream(request: web.Request) -> web.StreamResponse:
    """Answer with a JSON line for each token."""
    body = await request.json()
    response = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
    await response.prepare(request)
    async for text in answer(request.app[SESSION], body["messages"]):
        await response.write(json.dumps({"delta": {"content": text}}).encode() + b"\n")
    return response


async def open_session(app: web.Application) -> AsyncIterator[None]:
    """Keep one client for all requests."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        app[SESSION] = session
        yield


if __name__ == "__main__":
    web_app = web.Application()
    web_app.cleanup_ctx.append(open_session)
    web_app.add_routes([web.post("/chat", chat), web.post("/chat/stream", chat_stream)])
    web.run_app(web_app, host="127.0.0.1", port=int(sys.argv[2]), print=None, access_log=None)
