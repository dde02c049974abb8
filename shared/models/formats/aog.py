"""Another gateway that speaks AOG v0.2: it gets its client's messages unchanged."""

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
# What decides who answers was for us.
ROUTING_FIELDS = ("hybrid_policy", "remote_service_provider", "model", "messages", "stream")


def build_body(traits: ModelConfig, prompt: Prompt) -> RequestBody:
    """The body of a request: it takes every option, and leaves out itself what it cannot use."""
    asked: RequestBody = {
        key: it for key, it in prompt.options.items() if key not in ROUTING_FIELDS
    }
    asked["messages"] = [_build_message(said) for said in prompt.messages]
    asked |= {"stream": traits.supports_streaming, "temperature": prompt.temperature}
    if traits.server_model is not None:
        asked["model"] = traits.server_model
    if prompt.seed is not None:
        asked["seed"] = prompt.seed
    if prompt.tools:
        asked["tools"] = list(prompt.tools)
    if most := max_answer_tokens(traits, prompt):
        asked["max_tokens"] = most
    return asked


def _build_message(said: Message) -> RequestBody:
    return plain(said) if said.raw is None else dict(said.raw)


def decode(event: Mapping[str, Any]) -> DecodedChunk:
    """What an event of a stream says, or a whole answer."""
    if "business_code" in event:
        raise to_error({"code": event["business_code"]})
    said, ended = event["message"], bool(event["finished"])
    used = event.get("usage")
    told = used if isinstance(used, Mapping) else {}
    return DecodedChunk(
        text=said.get("content") or "",
        calls=decode_tool_calls(said.get("tool_calls")),
        finish_reason=(event.get("finish_reason") or "stop") if ended else None,
        is_last=ended,
        model=event.get("model"),
        usage=to_usage(told.get("prompt_tokens"), told.get("completion_tokens")),
        extra=extra_fields(
            event, "id", "model", "created_at", "message", "finished", "finish_reason"
        ),
        message_extra=extra_fields(said, "role", "content", "tool_calls"),
    )


def ready_url(url: str) -> str | None:
    """Where its services are listed."""
    return url.removesuffix(PATH) + "/service" if url.endswith(PATH) else None


AOG = ModelFormat("aog", build_body, decode, ready_url=ready_url)
