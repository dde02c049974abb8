"""OpenAI's chat completions, which Azure OpenAI, Ollama, LM Studio and many others speak, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.chat.content_parts import iterate_parts, part_image_url, part_text, tool_call_json
from shared.chat.messages import Message, ToolCall
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

# What is known of models by their names. A deployment may have any name: settings say otherwise.
REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d(?![a-z\d])|gpt-5(?!\d))(?!.*chat)", re.I)
VISION_MODELS = re.compile(
    r"(?:^|/)(?:o[13](?!-mini|-preview)(?![a-z\d])|o4-mini|gpt-5(?!\d)|gpt-4o|gpt-4\.1)"
    r"|vision|llava|-vl\b",
    re.I,
)
# What a client may ask of such a model beside an answer, temperature and seed.
SUPPORTED_OPTIONS = (
    "top_p",
    "stop",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
)
UNSUPPORTED_BY_REASONING = ("top_p", "stop", "frequency_penalty", "presence_penalty")
IMAGE_DETAILS = ("auto", "low", "high")  # of an image
MESSAGE_FIELDS = ("role", "name", "tool_calls", "tool_call_id")  # of a message, beside its content


def known_capabilities(name: str) -> tuple[bool, bool]:
    """What is known of a model by its name alone: whether it reasons, whether it sees."""
    return bool(REASONING_MODELS.search(name)), bool(VISION_MODELS.search(name))


def model_limits(traits: ModelConfig) -> Mapping[str, str]:
    """What a model cannot do, in sentences."""
    name, found = traits.name, {}
    if not traits.supports_images:
        found["images"] = (
            f"The images were left out: {name} is not known to see them (CHAT_MODEL_VISION)."
        )
    if not traits.supports_streaming:
        found["streaming"] = f"{name} gives its answer in one piece."
    if traits.reasoning:
        for option in ("temperature", *UNSUPPORTED_BY_REASONING):
            found[option] = f"{option} was left out: {name} is a reasoning model, without one."
    return found


def build_body(traits: ModelConfig, prompt: Prompt) -> RequestBody:
    """The body of a request, with the parameters that this kind of model takes."""
    asked: RequestBody = {"messages": [build_message(said) for said in prompt.messages]}
    if traits.server_model is not None:
        asked["model"] = traits.server_model
    if traits.supports_streaming:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    if prompt.seed is not None:
        asked["seed"] = prompt.seed
    if prompt.tools:
        asked["tools"] = list(prompt.tools)
    if not traits.reasoning:
        asked["temperature"] = prompt.temperature
    elif traits.reasoning_effort:
        asked["reasoning_effort"] = traits.reasoning_effort
    if most := max_answer_tokens(traits, prompt):
        asked["max_completion_tokens" if traits.reasoning else "max_tokens"] = most
    refused = UNSUPPORTED_BY_REASONING if traits.reasoning else ()
    return asked | {
        k: prompt.options[k] for k in SUPPORTED_OPTIONS if k in prompt.options and k not in refused
    }


def max_answer_tokens(traits: ModelConfig, prompt: Prompt) -> int | None:
    """How long the answer may be: as the client asks, within what the deployment allows."""
    wanted = [it for it in (prompt.options.get("max_tokens"), traits.max_answer_tokens) if it]
    return min(wanted, default=None)


def build_message(said: Message) -> RequestBody:
    """A message in OpenAI's form: one that has it goes out as it was given."""
    if said.raw is not None:
        return _clean_message(said.raw)
    if said.tool_calls:
        made = [tool_call_json(call) for call in said.tool_calls]
        return {"role": said.role, "content": said.content or None, "tool_calls": made}
    if said.tool_call_id is not None:
        return {"role": said.role, "content": said.content, "tool_call_id": said.tool_call_id}
    if not said.images:
        return {"role": said.role, "content": said.content}
    text = [{"type": "text", "text": said.content}] if said.content else []
    images = [{"type": "image_url", "image_url": {"url": url}} for url in said.images]
    return {"role": said.role, "content": [*text, *images]}


def _clean_message(given: Mapping[str, Any]) -> RequestBody:
    kept = {key: given[key] for key in MESSAGE_FIELDS if given.get(key) not in (None, [])}
    if "tool_calls" in kept:
        kept["tool_calls"] = [_clean_tool_call(call) for call in kept["tool_calls"]]
    content, images = given.get("content"), given.get("images")
    if isinstance(content, str) and not images:
        return {**kept, "content": content}
    parts = [_clean_part(part) for part in iterate_parts(given)]
    if not parts:
        return kept
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if isinstance(content, dict) and len(texts) == len(parts):  # one text, with more around it
        return {**kept, "content": "".join(texts)}
    some = [part for part in parts if part != {"type": "text", "text": ""}]
    return {**kept, "content": some or ""}


def _clean_tool_call(call: Mapping[str, Any]) -> RequestBody:
    """A call without keys that nobody reads; arguments, which AOG lets a call lack, are added."""
    function = call["function"]
    arguments = function.get("arguments")
    arguments = "{}" if arguments is None else arguments
    return tool_call_json(ToolCall(0, call["id"], function["name"], arguments))


def _clean_part(part: Any) -> RequestBody:
    """A part without keys that nobody reads: some servers fetch an address that stands in one."""
    url = part_image_url(part)
    if url is None:
        return {"type": "text", "text": part_text(part)}
    detail = part["image_url"].get("detail") if part["type"] == "image_url" else None
    known = {"detail": detail} if detail in IMAGE_DETAILS else {}
    return {"type": "image_url", "image_url": {"url": url, **known}}


def decode(chunk: Mapping[str, Any]) -> DecodedChunk:
    """What a chunk of a stream says, or a whole answer."""
    if chunk.get("error"):
        raise to_error(chunk["error"])
    # Azure sends chunks without choices: filter results before, usage after the text.
    choice = next(iter(chunk.get("choices") or ()), None) or {}
    said = choice.get("delta") or choice.get("message") or {}
    used = chunk.get("usage")
    told = used if isinstance(used, Mapping) else {}
    reason = choice.get("finish_reason")
    return DecodedChunk(
        text=_text(said.get("content")) or _text(said.get("refusal")),
        calls=decode_tool_calls(said.get("tool_calls")),
        finish_reason=reason if isinstance(reason, str) and reason else None,
        model=chunk.get("model"),
        usage=to_usage(told.get("prompt_tokens"), told.get("completion_tokens")),
        fingerprint=chunk.get("system_fingerprint"),
        answer_filter=choice.get("content_filter_results"),
        prompt_filter=chunk.get("prompt_filter_results"),
        extra={
            **extra_fields(chunk, "id", "object", "created", "model", "choices"),
            **extra_fields(choice, "index", "delta", "message", "finish_reason"),
        },
        message_extra=extra_fields(said, "role", "content", "refusal", "tool_calls"),
    )


def _text(content: Any) -> str:
    """A delta's text; some servers send it in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content)
    return content if isinstance(content, str) else ""


def ready_url(url: str) -> str | None:
    """Where the list of models is: beside the usual address of a chat."""
    address, mark, query = url.partition("?")
    if not address.endswith("/chat/completions") or "/deployments/" in address:
        return None
    return address.removesuffix("/chat/completions") + "/models" + mark + query


OPENAI = ModelFormat("openai", build_body, decode, ready_url=ready_url)
