"""The format of OpenAI's chat completions, also of Azure OpenAI, Ollama, LM Studio and others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shared.domain.events import Extra, Usage
from shared.domain.messages import (
    Message,
    ToolCall,
    is_json_safe,
    iterate_parts,
    part_image_url,
    part_text,
    tool_call_json,
)
from shared.models.base import Prompt
from shared.models.formats import base
from shared.models.formats.base import NO_INDEX, DecodedChunk, ModelConfig, ModelFormat, RequestBody

# Known models, by their names. A deployment may have any name: settings override these.
REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d(?![a-z\d])|gpt-[56](?!\d))(?!.*chat)", re.I)
VISION_MODELS = re.compile(
    r"(?:^|/)(?:o[13](?!-mini|-preview)(?![a-z\d])|o4-mini|gpt-[56](?!\d)|gpt-4o|gpt-4\.1)"
    r"|vision|llava|-vl\b",
    re.I,
)
# Models that reason at the effort `medium` unless a request says `none`, which earlier ones do by
# themselves (https://developers.openai.com/api/docs/models/gpt-5.6-luna), and that reject tools in
# chat completions while they reason.
REASON_BY_DEFAULT = re.compile(r"(?:^|/)gpt-5\.6(?!\d)", re.I)
# Options of a client, beside temperature and seed.
SUPPORTED_OPTIONS = (
    "top_p",
    "stop",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
    "verbosity",
)
UNSUPPORTED_BY_REASONING = ("top_p", "stop", "frequency_penalty", "presence_penalty")
IMAGE_DETAILS = ("auto", "low", "high")  # of an image
MESSAGE_FIELDS = ("role", "name", "tool_calls", "tool_call_id")  # of a message, beside its content


def known_capabilities(name: str) -> tuple[bool, bool]:
    """Return, by the name of a model, whether it is a reasoning model and supports images."""
    return bool(REASONING_MODELS.search(name)), bool(VISION_MODELS.search(name))


def default_effort(name: str) -> str | None:
    """Return the reasoning effort that a model is asked for unless a setting or a client has one.

    Answers come from the passages in the prompt. None: the model's own default.
    """
    return "none" if REASON_BY_DEFAULT.search(name) else None


def model_limits(config: ModelConfig, unsupported: Sequence[str] = ()) -> Mapping[str, str]:
    """Return a sentence for each option that a model, or the format of its server, does not have.

    `unsupported` are those of the format.
    """
    name = config.name
    sentence = "{} was left out: the server of {} has no such parameter."
    limits = {option: sentence.format(option, name) for option in unsupported}
    if not config.supports_images:
        limits["images"] = (
            f"The images were left out: {name} is not known to see them (CHAT_MODEL_VISION)."
        )
    if not config.supports_streaming:
        limits["streaming"] = f"{name} gives its answer in one piece."
    if config.reasoning:
        for option in ("temperature", *UNSUPPORTED_BY_REASONING):
            limits[option] = f"{option} was left out: {name} is a reasoning model, without one."
    return limits


def build_body(config: ModelConfig, prompt: Prompt) -> RequestBody:
    """Build the body of a request, with the parameters that the model supports."""
    streams, reasoning = config.supports_streaming, config.reasoning
    fields = {
        "messages": [build_message(message) for message in prompt.messages],
        "model": config.server_model,
        "stream": True if streams else None,
        "stream_options": {"include_usage": True} if streams else None,
        "seed": prompt.seed,
        "tools": list(prompt.tools) or None,
        "temperature": None if reasoning else prompt.temperature,
        "reasoning_effort": config.reasoning_effort if reasoning else None,
        "max_completion_tokens" if reasoning else "max_tokens": max_answer_tokens(config, prompt),
    }
    unsupported = UNSUPPORTED_BY_REASONING if reasoning else ()
    names = [name for name in SUPPORTED_OPTIONS if name not in unsupported]
    return base.drop_none(fields) | base.select_fields(prompt.options, names)


def max_answer_tokens(config: ModelConfig, prompt: Prompt) -> int | None:
    """Return the limit of an answer: the lower one of the client's and the deployment's."""
    limits = [it for it in (prompt.options.get("max_tokens"), config.max_answer_tokens) if it]
    return min(limits, default=None)


def build_message(message: Message) -> RequestBody:
    """Build a message; one that already has this format is only cleaned."""
    if message.raw is not None:
        return _clean_message(message.raw)
    if message.tool_calls:
        calls = [tool_call_json(call) for call in message.tool_calls]
        return {"role": message.role, "content": message.content or None, "tool_calls": calls}
    if message.tool_call_id is not None:
        return {
            "role": message.role,
            "content": message.content,
            "tool_call_id": message.tool_call_id,
        }
    if not message.images:
        return {"role": message.role, "content": message.content}
    text = [{"type": "text", "text": message.content}] if message.content else []
    images = [{"type": "image_url", "image_url": {"url": url}} for url in message.images]
    return {"role": message.role, "content": [*text, *images]}


def message_fields(raw: Mapping[str, Any]) -> RequestBody:
    """Return the known fields of a message, beside its content."""
    return {key: raw[key] for key in MESSAGE_FIELDS if raw.get(key) not in (None, [])}


def _clean_message(raw: Mapping[str, Any]) -> RequestBody:
    fields = message_fields(raw)
    if "tool_calls" in fields:
        fields["tool_calls"] = [_clean_tool_call(call) for call in fields["tool_calls"]]
    content, images = raw.get("content"), raw.get("images")
    if isinstance(content, str) and not images:
        return {**fields, "content": content}
    parts = [_clean_part(part) for part in iterate_parts(raw)]
    if not parts:
        return fields
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if isinstance(content, dict) and len(texts) == len(parts):  # one text, with more around it
        return {**fields, "content": "".join(texts)}
    not_empty = [part for part in parts if part != {"type": "text", "text": ""}]
    return {**fields, "content": not_empty or ""}


def _clean_tool_call(call: Mapping[str, Any]) -> RequestBody:
    """Return a tool call with its known keys only; AOG allows it to have no arguments."""
    function = call["function"]
    arguments = function.get("arguments")
    arguments = "{}" if arguments is None else arguments
    return tool_call_json(ToolCall(0, call["id"], function["name"], arguments))


def _clean_part(part: Any) -> RequestBody:
    """Return a part with its known keys only: other servers fetch a URL in any key."""
    url = part_image_url(part)
    if url is None:
        return {"type": "text", "text": part_text(part)}
    detail = part["image_url"].get("detail") if part["type"] == "image_url" else None
    known = {"detail": detail} if detail in IMAGE_DETAILS else {}
    return {"type": "image_url", "image_url": {"url": url, **known}}


def decode(chunk: Mapping[str, Any]) -> DecodedChunk:
    """Decode a chunk of a stream, or a whole response."""
    if chunk.get("error"):
        raise base.to_error(chunk["error"])
    # Azure sends chunks without choices: filter results before, usage after the text.
    choice = next(iter(chunk.get("choices") or ()), None) or {}
    delta = choice.get("delta") or choice.get("message") or {}
    reason = choice.get("finish_reason")
    return DecodedChunk(
        text=_text(delta.get("content")) or _text(delta.get("refusal")),
        calls=decode_tool_calls(delta.get("tool_calls")),
        finish_reason=reason if isinstance(reason, str) and reason else None,
        model=chunk.get("model"),
        usage=decode_usage(chunk.get("usage")),
        fingerprint=chunk.get("system_fingerprint"),
        answer_filter=choice.get("content_filter_results"),
        prompt_filter=chunk.get("prompt_filter_results"),
        extra={
            **extra_fields(chunk, "id", "object", "created", "model", "choices"),
            **extra_fields(choice, "index", "delta", "message", "finish_reason"),
        },
        message_extra=extra_fields(delta, "role", "content", "refusal", "tool_calls"),
    )


def extra_fields(obj: Mapping[str, Any], *known: str) -> Extra:
    """Return the other fields of an object.

    Without null, and without values that JSON cannot express: 1e400 is read as infinity.
    """
    return {
        key: value
        for key, value in obj.items()
        if key not in known and value is not None and is_json_safe(value)
    }


def decode_tool_calls(parts: Any) -> tuple[ToolCall, ...]:
    """Decode the parts of tool calls. A server that sends whole calls may omit their indexes."""
    return tuple(map(_decode_tool_call, parts)) if parts else ()


def _decode_tool_call(part: Mapping[str, Any]) -> ToolCall:
    index, function = part.get("index"), part.get("function") or {}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, allow_nan=False)
    index = index if isinstance(index, int) else NO_INDEX
    name = function.get("name") or None
    return ToolCall(index, part.get("id") or None, name, "" if arguments is None else text)


def to_usage(prompt: Any, completion: Any) -> Usage | None:
    """Return the numbers of tokens, if the server reports both."""
    both = isinstance(prompt, int) and isinstance(completion, int)
    return Usage(prompt, completion) if both else None


def decode_usage(
    usage: Any, prompt: str = "prompt_tokens", completion: str = "completion_tokens"
) -> Usage | None:
    """Decode the `usage` of a response, if it is an object with both numbers, by their names."""
    if not isinstance(usage, dict):
        return None
    counts = to_usage(usage.get(prompt), usage.get(completion))
    cached = _detail(usage.get(f"{prompt}_details"), "cached_tokens")
    reasoning = _detail(usage.get(f"{completion}_details"), "reasoning_tokens")
    return counts and replace(counts, cached_tokens=cached, reasoning_tokens=reasoning)


def _detail(details: Any, name: str) -> int:
    count = details.get(name) if isinstance(details, dict) else None
    return count if isinstance(count, int) else 0


def _text(content: Any) -> str:
    """Return the text of a content; other servers send it in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content)
    return content if isinstance(content, str) else ""


def models_url(route: str, url: str) -> str | None:
    """Return the URL of the list of models, if the URL is the usual one of a route."""
    path, mark, query = url.partition("?")
    if not path.endswith(route) or "/deployments/" in path:
        return None
    return path.removesuffix(route) + "/models" + mark + query


OPENAI = ModelFormat(
    "openai", build_body, lambda: decode, ready_url=partial(models_url, "/chat/completions")
)
