"""The format of AOG v0.2, for another gateway: messages are sent unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.messages import Message
from shared.models.base import Prompt
from shared.models.formats import base, openai
from shared.models.formats.base import DecodedChunk, ModelConfig, ModelFormat, RequestBody

PATH = "/services/chat"
# Fields of a client that this app has used to select a model: they are not sent.
ROUTING_FIELDS = ("hybrid_policy", "remote_service_provider", "model", "messages", "stream")


def build_body(config: ModelConfig, prompt: Prompt) -> RequestBody:
    """Build the body of a request, with all options: the gateway ignores those it does not use."""
    options = {k: v for k, v in prompt.options.items() if k not in ROUTING_FIELDS}
    fields = {
        "messages": [_build_message(message) for message in prompt.messages],
        "stream": config.supports_streaming,
        "temperature": prompt.temperature,
        "model": config.server_model,
        "seed": prompt.seed,
        "tools": list(prompt.tools) or None,
        "max_tokens": openai.max_answer_tokens(config, prompt),
    }
    return options | base.drop_none(fields)


def _build_message(message: Message) -> RequestBody:
    return openai.build_message(message) if message.raw is None else dict(message.raw)


def decode(event: Mapping[str, Any]) -> DecodedChunk:
    """Decode an event of a stream, or a whole response."""
    if "business_code" in event:
        raise base.to_error({"code": event["business_code"]})
    message, is_last = event["message"], bool(event["finished"])
    return DecodedChunk(
        text=message.get("content") or "",
        calls=openai.decode_tool_calls(message.get("tool_calls")),
        finish_reason=(event.get("finish_reason") or "stop") if is_last else None,
        is_last=is_last,
        model=event.get("model"),
        usage=openai.decode_usage(event.get("usage")),
        extra=openai.extra_fields(
            event, "id", "model", "created_at", "message", "finished", "finish_reason"
        ),
        message_extra=openai.extra_fields(message, "role", "content", "tool_calls"),
    )


def ready_url(url: str) -> str | None:
    """Return the URL of the list of services."""
    return url.removesuffix(PATH) + "/service" if url.endswith(PATH) else None


AOG = ModelFormat("aog", build_body, lambda: decode, ready_url=ready_url)
