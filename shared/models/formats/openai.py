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
    calls,
    extra_fields,
    failure,
    usage,
)

# What is known of models by their names. A deployment may have any name: settings say otherwise.
REASONING = re.compile(r"(?:^|/)(?:o\d(?![a-z\d])|gpt-5(?!\d))(?!.*chat)", re.I)
SEEING = re.compile(
    r"(?:^|/)(?:o[13](?!-mini|-preview)(?![a-z\d])|o4-mini|gpt-5(?!\d)|gpt-4o|gpt-4\.1)"
    r"|vision|llava|-vl\b",
    re.I,
)
# What a client may ask of such a model beside an answer, temperature and seed.
TAKES = (
    "top_p",
    "stop",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
)
NOT_FOR_REASONING = ("top_p", "stop", "frequency_penalty", "presence_penalty")
DETAILS = ("auto", "low", "high")  # of an image
FRAME = ("role", "name", "tool_calls", "tool_call_id")  # of a message, beside its content


def known_of(name: str) -> tuple[bool, bool]:
    """What is known of a model by its name alone: whether it reasons, whether it sees."""
    return bool(REASONING.search(name)), bool(SEEING.search(name))


def limits(traits: ModelConfig) -> Mapping[str, str]:
    """What a model cannot do, in sentences."""
    name, found = traits.name, {}
    if not traits.seeing:
        found["images"] = (
            f"The images were left out: {name} is not known to see them (CHAT_MODEL_VISION)."
        )
    if not traits.streams:
        found["streaming"] = f"{name} gives its answer in one piece."
    if traits.reasoning:
        for option in ("temperature", *NOT_FOR_REASONING):
            found[option] = f"{option} was left out: {name} is a reasoning model, without one."
    return found


def body(traits: ModelConfig, prompt: Prompt) -> RequestBody:
    """The body of a request, with the parameters that this kind of model takes."""
    asked: RequestBody = {"messages": [message(said) for said in prompt.messages]}
    if traits.asked is not None:
        asked["model"] = traits.asked
    if traits.streams:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    if prompt.seed is not None:
        asked["seed"] = prompt.seed
    if prompt.tools:
        asked["tools"] = list(prompt.tools)
    if not traits.reasoning:
        asked["temperature"] = prompt.temperature
    elif traits.effort:
        asked["reasoning_effort"] = traits.effort
    if most := most_tokens(traits, prompt):
        asked["max_completion_tokens" if traits.reasoning else "max_tokens"] = most
    refused = NOT_FOR_REASONING if traits.reasoning else ()
    return asked | {k: prompt.options[k] for k in TAKES if k in prompt.options and k not in refused}


def most_tokens(traits: ModelConfig, prompt: Prompt) -> int | None:
    """How long the answer may be: as the client asks, within what the deployment allows."""
    wanted = [it for it in (prompt.options.get("max_tokens"), traits.answer_tokens) if it]
    return min(wanted, default=None)


def message(said: Message) -> RequestBody:
    """A message in OpenAI's form: one that has it goes out as it was given."""
    if said.raw is not None:
        return _rewritten(said.raw)
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


def _rewritten(given: Mapping[str, Any]) -> RequestBody:
    kept = {key: given[key] for key in FRAME if given.get(key) not in (None, [])}
    if "tool_calls" in kept:
        kept["tool_calls"] = [_call(call) for call in kept["tool_calls"]]
    content, images = given.get("content"), given.get("images")
    if isinstance(content, str) and not images:
        return {**kept, "content": content}
    parts = [_part(part) for part in iterate_parts(given)]
    if not parts:
        return kept
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if isinstance(content, dict) and len(texts) == len(parts):  # one text, with more around it
        return {**kept, "content": "".join(texts)}
    some = [part for part in parts if part != {"type": "text", "text": ""}]
    return {**kept, "content": some or ""}


def _call(call: Mapping[str, Any]) -> RequestBody:
    """A call without keys that nobody reads; arguments, which AOG lets a call lack, are added."""
    function = call["function"]
    arguments = function.get("arguments")
    arguments = "{}" if arguments is None else arguments
    return tool_call_json(ToolCall(0, call["id"], function["name"], arguments))


def _part(part: Any) -> RequestBody:
    """A part without keys that nobody reads: some servers fetch an address that stands in one."""
    url = part_image_url(part)
    if url is None:
        return {"type": "text", "text": part_text(part)}
    detail = part["image_url"].get("detail") if part["type"] == "image_url" else None
    known = {"detail": detail} if detail in DETAILS else {}
    return {"type": "image_url", "image_url": {"url": url, **known}}


def heard(chunk: Mapping[str, Any]) -> DecodedChunk:
    """What a chunk of a stream says, or a whole answer."""
    if chunk.get("error"):
        raise failure(chunk["error"])
    # Azure sends chunks without choices: filter results before, usage after the text.
    choice = next(iter(chunk.get("choices") or ()), None) or {}
    said = choice.get("delta") or choice.get("message") or {}
    used = chunk.get("usage")
    told = used if isinstance(used, Mapping) else {}
    reason = choice.get("finish_reason")
    return DecodedChunk(
        text=_text(said.get("content")) or _text(said.get("refusal")),
        calls=calls(said.get("tool_calls")),
        reason=reason if isinstance(reason, str) and reason else None,
        model=chunk.get("model"),
        usage=usage(told.get("prompt_tokens"), told.get("completion_tokens")),
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


def ready(url: str) -> str | None:
    """Where the list of models is: beside the usual address of a chat."""
    address, mark, query = url.partition("?")
    if not address.endswith("/chat/completions") or "/deployments/" in address:
        return None
    return address.removesuffix("/chat/completions") + "/models" + mark + query


OPENAI = ModelFormat("openai", body, heard, ready=ready)
