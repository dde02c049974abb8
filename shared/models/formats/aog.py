"""The format of AOG v0.2, for another gateway: messages are sent unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.chat.messages import Message
from shared.models.base import Prompt
from shared.models.formats.base import (
    DecodedChunk,
    ModelConfig,
    ModelFormat,
    RequestBody,
    decode_tool_calls,
    extra_fields,
    to_error,
    to_usage,
)
from shared.models.formats.openai import build_message as plain
from shared.models.formats.openai import max_answer_tokens

PATH = "/services/chat"
# Fields of a client that this app has used to select a model: they are not sent.
ROUTING_FIELDS = ("hybrid_policy", "remote_service_provider", "model", "messages", "stream")


def build_body(config: ModelConfig, prompt: Prompt) -> RequestBody:
    """Build the body of a request, with all options: the gateway ignores those it does not use."""
    body: RequestBody = {k: v for k, v in prompt.options.items() if k not in ROUTING_FIELDS}
    body["messages"] = [_build_message(message) for message in prompt.messages]
    body |= {"stream": config.supports_streaming, "temperature": prompt.temperature}
    if config.server_model is not None:
        body["model"] = config.server_model
    if prompt.seed is not None:
        body["seed"] = prompt.seed
    if prompt.tools:
        body["tools"] = list(prompt.tools)
    if max_tokens := max_answer_tokens(config, prompt):
        body["max_tokens"] = max_tokens
    return body


def _build_message(message: Message) -> RequestBody:
    return plain(message) if message.raw is None else dict(message.raw)


def decode(event: Mapping[str, Any]) -> DecodedChunk:
    """Decode an event of a stream, or a whole response."""
    if "business_code" in event:
        raise to_error({"code": event["business_code"]})
    message, is_last = event["message"], bool(event["finished"])
    usage = event.get("usage")
    tokens = usage if isinstance(usage, Mapping) else {}
    return DecodedChunk(
        text=message.get("content") or "",
        calls=decode_tool_calls(message.get("tool_calls")),
        finish_reason=(event.get("finish_reason") or "stop") if is_last else None,
        is_last=is_last,
        model=event.get("model"),
        usage=to_usage(tokens.get("prompt_tokens"), tokens.get("completion_tokens")),
        extra=extra_fields(
            event, "id", "model", "created_at", "message", "finished", "finish_reason"
        ),
        message_extra=extra_fields(message, "role", "content", "tool_calls"),
    )


def ready_url(url: str) -> str | None:
    """Return the URL of the list of services."""
    return url.removesuffix(PATH) + "/service" if url.endswith(PATH) else None


AOG = ModelFormat("aog", build_body, decode, ready_url=ready_url)
