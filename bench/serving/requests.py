"""What Azure AI Search and Azure OpenAI accept: paths, keys, bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.serving import replies

SEARCH_PATH = "/indexes('docs')/docs/search.post.search?api-version=2026-04-01"
RETRIEVE_PATH = "/knowledgebases('docs')/retrieve?api-version=2026-10-01"
CHAT_PATH, EMBEDDINGS_PATH = "/openai/v1/chat/completions", "/openai/v1/embeddings"
RESPONSES_PATH, MODELS_PATH = "/openai/v1/responses", "/openai/v1/models"
KEY = "key-of-the-bench"
AUTHORIZATION = f"Bearer {KEY}"
CHAT_KEYS = {"model", "messages", "stream", "stream_options", "temperature", "seed"}
RESPONSES_KEYS = {"model", "input", "instructions", "stream", "store", "temperature"}
SEARCH_KEYS = {"search", "filter", "select", "top", "vectorQueries", "count"}


class Rejected(Exception):
    """The service would not accept this request."""


def require(condition: object, problem: str) -> None:
    """Raise Rejected with the problem unless the condition holds."""
    if not condition:
        raise Rejected(problem)


def check_search(body: Mapping[str, Any]) -> None:
    """Raise Rejected for a body that the index does not accept."""
    require(not body.keys() - SEARCH_KEYS, f"keys {sorted(body)}")
    require(body.get("search"), "no text to search")
    require(isinstance(body.get("top"), int), "top")
    selected = set(str(body.get("select")).split(","))
    require(selected <= set(replies.FIELDS), f"select {selected}")
    for query in body.get("vectorQueries", ()):
        require(query["kind"] == "vector" and query["fields"] == "embedding", "vector query")
        numbers = {type(number) for number in query["vector"]}
        require(len(query["vector"]) == replies.DIMENSIONS, "dimensions")
        require(numbers <= {int, float}, "vector of other things than numbers")


def check_retrieve(body: Mapping[str, Any]) -> None:
    """Raise Rejected for a body that the knowledge base does not accept."""
    (intent,) = body["intents"]
    (source,) = body["knowledgeSourceParams"]
    require(intent["type"] == "semantic" and intent["search"], "no query")
    require(source["kind"] == "searchIndex", "kind of the source")
    require(source["knowledgeSourceName"] == "docs", "name of the source")
    require(source["includeReferenceSourceData"] is True, "no data of the references")


def check_chat(body: Mapping[str, Any]) -> None:
    """Raise Rejected for a body that the deployment does not accept."""
    require(not body.keys() - CHAT_KEYS, f"keys {sorted(body)}")
    require(body.get("model") == "chat", "model")
    require(body.get("stream") is True, "stream")
    require(body.get("messages"), "messages")
    for message in body["messages"]:
        require(message["role"] in ("system", "user", "assistant"), "role")
        require(isinstance(message["content"], str), "content")


def check_responses(body: Mapping[str, Any]) -> None:
    """Raise Rejected for a body that the deployment does not accept as a request of Responses."""
    require(not body.keys() - RESPONSES_KEYS, f"keys {sorted(body)}")
    require(body.get("instructions"), "instructions")
    check_chat({"model": body["model"], "stream": body["stream"], "messages": body["input"]})


def check_embeddings(body: Mapping[str, Any]) -> None:
    """Raise Rejected for a body that the embedding deployment does not accept."""
    require(not body.keys() - {"model", "input", "encoding_format"}, f"keys {sorted(body)}")
    require(body.get("model") == "embedding", "model")
    texts = body.get("input")
    require(isinstance(texts, str) or (isinstance(texts, list) and len(texts) == 1), "input")
    require(body.get("encoding_format", "float") in replies.EMBEDDING_REPLIES, "encoding_format")
