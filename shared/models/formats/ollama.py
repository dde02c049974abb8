"""The format of Ollama's `/api/chat`: JSON lines, with the arguments of tools as objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from pydantic_core import from_json

from shared.chat.errors import BadRequest, Unavailable
from shared.chat.messages import Message, is_json_safe, iterate_parts, part_image_url, part_text
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

# Ollama's names of options.
OPTIONS = {"top_p": "top_p", "stop": "stop"}
SUPPORTED_FIELDS = ("keep_alive", "think", "format")


def build_body(config: ModelConfig, prompt: Prompt) -> RequestBody:
    """Build the body of a request. Raises BadRequest for an image at a URL."""
    options: RequestBody = {"temperature": prompt.temperature}
    options |= {ours: prompt.options[k] for k, ours in OPTIONS.items() if k in prompt.options}
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    if prompt.seed is not None:
        options["seed"] = prompt.seed
    if max_tokens := max_answer_tokens(config, prompt):
        options["num_predict"] = max_tokens
    body: RequestBody = {
        "messages": [_build_message(message) for message in prompt.messages],
        "options": options,
    }
    if config.server_model is not None:
        body["model"] = config.server_model
    if prompt.tools:
        body["tools"] = list(prompt.tools)
    body["stream"] = config.supports_streaming
    return body | {key: prompt.options[key] for key in SUPPORTED_FIELDS if key in prompt.options}


def _build_message(message: Message) -> RequestBody:
    raw = plain(message) if message.raw is None else message.raw
    parts = list(iterate_parts(raw))
    fields = {key: raw[key] for key in MESSAGE_FIELDS if raw.get(key) not in (None, [])}
    if calls := raw.get("tool_calls"):
        fields["tool_calls"] = [_build_tool_call(call) for call in calls]
    if raw.get("content") is not None or parts:
        fields["content"] = "\n".join(text for part in parts if (text := part_text(part)))
    if images := list(_images(parts)):
        fields["images"] = images
    return fields


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
    function_json = {
        "name": function["name"],
        "arguments": parse_arguments(function.get("arguments")),
    }
    return {"id": call["id"], "type": "function", "function": function_json}


def parse_arguments(text: str | None) -> RequestBody:
    """Parse the arguments of a call into an object; another text becomes the value of one."""
    if not (text or "").strip():
        return {}
    try:
        value = from_json(text or "", allow_inf_nan=False)
    except ValueError:
        value = None
    return value if isinstance(value, dict) and is_json_safe(value) else {"arguments": text}


def decode(line: Mapping[str, Any]) -> DecodedChunk:
    """Decode a line of a stream, or a whole response."""
    if line.get("error"):
        raise Unavailable(cause="the model's stream ended with an error")
    message, is_last = line.get("message") or {}, bool(line.get("done"))
    tool_calls = [
        {**call, "id": call.get("id") or f"call_{uuid4().hex}"} for call in _tool_calls(message)
    ]
    return DecodedChunk(
        text=message.get("content") or "",
        calls=decode_tool_calls(tool_calls),
        finish_reason=(line.get("done_reason") or "stop") if is_last else None,
        is_last=is_last,
        model=line.get("model"),
        usage=to_usage(line.get("prompt_eval_count"), line.get("eval_count")),
        extra=extra_fields(line, "model", "created_at", "message", "done", "done_reason"),
        message_extra=extra_fields(message, "role", "content", "tool_calls"),
    )


def _tool_calls(message: Mapping[str, Any]) -> list[Any]:
    return message.get("tool_calls") or []


def ready_url(url: str) -> str | None:
    """Return the URL of the list of models."""
    return url.removesuffix("/chat") + "/tags" if url.endswith("/api/chat") else None


OLLAMA = ModelFormat(
    "ollama",
    build_body,
    decode,
    framing="ndjson",
    tool_calls_reason="tool_calls",
    ready_url=ready_url,
)
