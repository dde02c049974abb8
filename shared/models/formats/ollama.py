"""The format of Ollama's `/api/chat`: JSON lines, with the arguments of tools as objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from pydantic_core import from_json

from shared.domain.errors import BadRequest, Unavailable
from shared.domain.messages import Message, is_json_safe, iterate_parts, part_image_url, part_text
from shared.models.base import Prompt
from shared.models.formats import base, openai
from shared.models.formats.base import DecodedChunk, ModelConfig, ModelFormat, RequestBody

SUPPORTED_OPTIONS = ("top_p", "stop")
SUPPORTED_FIELDS = ("keep_alive", "think", "format")


def build_body(config: ModelConfig, prompt: Prompt) -> RequestBody:
    """Build the body of a request. Raises BadRequest for an image at a URL."""
    options: RequestBody = {"temperature": prompt.temperature}
    options |= base.select_fields(prompt.options, SUPPORTED_OPTIONS)
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    limits = {"seed": prompt.seed, "num_predict": openai.max_answer_tokens(config, prompt)}
    fields = {
        "messages": [_build_message(message) for message in prompt.messages],
        "options": options | base.drop_none(limits),
        "model": config.server_model,
        "tools": list(prompt.tools) or None,
        "stream": config.supports_streaming,
    }
    return base.drop_none(fields) | base.select_fields(prompt.options, SUPPORTED_FIELDS)


def _build_message(message: Message) -> RequestBody:
    raw = openai.build_message(message) if message.raw is None else message.raw
    parts = list(iterate_parts(raw))
    fields = openai.message_fields(raw)
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
    arguments = parse_arguments(function.get("arguments"))
    described = {"name": function["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": described}


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
        {**call, "id": call.get("id") or f"call_{uuid4().hex}"}
        for call in message.get("tool_calls") or ()
    ]
    return DecodedChunk(
        text=message.get("content") or "",
        calls=openai.decode_tool_calls(tool_calls),
        finish_reason=(line.get("done_reason") or "stop") if is_last else None,
        is_last=is_last,
        model=line.get("model"),
        usage=openai.to_usage(line.get("prompt_eval_count"), line.get("eval_count")),
        extra=openai.extra_fields(line, "model", "created_at", "message", "done", "done_reason"),
        message_extra=openai.extra_fields(message, "role", "content", "tool_calls"),
    )


def ready_url(url: str) -> str | None:
    """Return the URL of the list of models."""
    return url.removesuffix("/chat") + "/tags" if url.endswith("/api/chat") else None


OLLAMA = ModelFormat(
    "ollama",
    build_body,
    lambda: decode,
    framing="ndjson",
    tool_calls_reason="tool_calls",
    unsupported=tuple(name for name in openai.SUPPORTED_OPTIONS if name not in SUPPORTED_OPTIONS),
    ready_url=ready_url,
)
