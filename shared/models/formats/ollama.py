"""Ollama's own `/api/chat`: lines of JSON, and the arguments of a tool as an object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from pydantic_core import from_json

from shared.chat.content_parts import is_json_safe, iterate_parts, part_image_url, part_text
from shared.chat.errors import BadRequest, Unavailable
from shared.chat.messages import Message
from shared.models.base import Prompt
from shared.models.formats.base import (
    DecodedChunk,
    ModelConfig,
    ModelFormat,
    RequestBody,
    decode_tool_calls,
    extra_fields,
    to_usage,
)
from shared.models.formats.openai import MESSAGE_FIELDS, max_answer_tokens
from shared.models.formats.openai import build_message as plain

# Ollama's names for what a client may ask.
OPTIONS = {"top_p": "top_p", "stop": "stop"}
SUPPORTED_FIELDS = ("keep_alive", "think", "format")


def build_body(traits: ModelConfig, prompt: Prompt) -> RequestBody:
    """The body of a request. Raises BadRequest for an image that is not in it."""
    options: RequestBody = {"temperature": prompt.temperature}
    options |= {ours: prompt.options[k] for k, ours in OPTIONS.items() if k in prompt.options}
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    if prompt.seed is not None:
        options["seed"] = prompt.seed
    if most := max_answer_tokens(traits, prompt):
        options["num_predict"] = most
    asked: RequestBody = {
        "messages": [_build_message(said) for said in prompt.messages],
        "options": options,
    }
    if traits.server_model is not None:
        asked["model"] = traits.server_model
    if prompt.tools:
        asked["tools"] = list(prompt.tools)
    asked["stream"] = traits.supports_streaming
    return asked | {key: prompt.options[key] for key in SUPPORTED_FIELDS if key in prompt.options}


def _build_message(said: Message) -> RequestBody:
    given = plain(said) if said.raw is None else said.raw
    parts = list(iterate_parts(given))
    kept = {key: given[key] for key in MESSAGE_FIELDS if given.get(key) not in (None, [])}
    if called := given.get("tool_calls"):
        kept["tool_calls"] = [_build_tool_call(call) for call in called]
    if given.get("content") is not None or parts:
        kept["content"] = "\n".join(text for part in parts if (text := part_text(part)))
    if images := list(_images(parts)):
        kept["images"] = images
    return kept


def _images(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        url = part_image_url(part)
        if url is None:
            continue
        data = re.fullmatch(r"data:[^,]*;base64,(.*)", url, re.S)
        if data is None:
            raise BadRequest(
                "messages: this model takes images as base64 or as data URLs: those behind an "
                "address are not fetched here."
            )
        yield data[1]


def _build_tool_call(call: Mapping[str, Any]) -> RequestBody:
    function = call["function"]
    written = {"name": function["name"], "arguments": parse_arguments(function.get("arguments"))}
    return {"id": call["id"], "type": "function", "function": written}


def parse_arguments(given: str | None) -> RequestBody:
    """A call's arguments as the object that Ollama wants; what is none stands inside of one."""
    if not (given or "").strip():
        return {}
    try:
        read = from_json(given or "", allow_inf_nan=False)
    except ValueError:
        read = None
    return read if isinstance(read, dict) and is_json_safe(read) else {"arguments": given}


def decode(line: Mapping[str, Any]) -> DecodedChunk:
    """What a line says, or a whole answer."""
    if line.get("error"):
        raise Unavailable(cause="the model's stream ended with an error")
    said, done = line.get("message") or {}, bool(line.get("done"))
    made = [{**call, "id": call.get("id") or f"call_{uuid4().hex}"} for call in _tool_calls(said)]
    return DecodedChunk(
        text=said.get("content") or "",
        calls=decode_tool_calls(made),
        finish_reason=(line.get("done_reason") or "stop") if done else None,
        is_last=done,
        model=line.get("model"),
        usage=to_usage(line.get("prompt_eval_count"), line.get("eval_count")),
        extra=extra_fields(line, "model", "created_at", "message", "done", "done_reason"),
        message_extra=extra_fields(said, "role", "content", "tool_calls"),
    )


def _tool_calls(said: Mapping[str, Any]) -> list[Any]:
    return said.get("tool_calls") or []


def ready_url(url: str) -> str | None:
    """Where the list of models is."""
    return url.removesuffix("/chat") + "/tags" if url.endswith("/api/chat") else None


OLLAMA = ModelFormat(
    "ollama",
    build_body,
    decode,
    framing="ndjson",
    tool_calls_reason="tool_calls",
    ready_url=ready_url,
)
