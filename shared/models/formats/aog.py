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
    calls,
    extra_fields,
    failure,
    usage,
)
from shared.models.formats.openai import message as plain
from shared.models.formats.openai import most_tokens

PATH = "/services/chat"
# What decides who answers was for us.
OURS = ("hybrid_policy", "remote_service_provider", "model", "messages", "stream")


def body(traits: ModelConfig, prompt: Prompt) -> RequestBody:
    """The body of a request: it takes every option, and leaves out itself what it cannot use."""
    asked: RequestBody = {key: it for key, it in prompt.options.items() if key not in OURS}
    asked["messages"] = [_message(said) for said in prompt.messages]
    asked |= {"stream": traits.streams, "temperature": prompt.temperature}
    if traits.asked is not None:
        asked["model"] = traits.asked
    if prompt.seed is not None:
        asked["seed"] = prompt.seed
    if prompt.tools:
        asked["tools"] = list(prompt.tools)
    if most := most_tokens(traits, prompt):
        asked["max_tokens"] = most
    return asked


def _message(said: Message) -> RequestBody:
    return plain(said) if said.raw is None else dict(said.raw)


def heard(event: Mapping[str, Any]) -> DecodedChunk:
    """What an event of a stream says, or a whole answer."""
    if "business_code" in event:
        raise failure({"code": event["business_code"]})
    said, ended = event["message"], bool(event["finished"])
    used = event.get("usage")
    told = used if isinstance(used, Mapping) else {}
    return DecodedChunk(
        text=said.get("content") or "",
        calls=calls(said.get("tool_calls")),
        reason=(event.get("finish_reason") or "stop") if ended else None,
        ended=ended,
        model=event.get("model"),
        usage=usage(told.get("prompt_tokens"), told.get("completion_tokens")),
        extra=extra_fields(
            event, "id", "model", "created_at", "message", "finished", "finish_reason"
        ),
        message_extra=extra_fields(said, "role", "content", "tool_calls"),
    )


def ready(url: str) -> str | None:
    """Where its services are listed."""
    return url.removesuffix(PATH) + "/service" if url.endswith(PATH) else None


AOG = ModelFormat("aog", body, heard, ready=ready)
