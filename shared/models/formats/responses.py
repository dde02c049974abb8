"""The format of OpenAI's Responses API, also of Azure OpenAI and compatible servers.

Requests are made from messages in the format of chat completions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from shared.models.base import Prompt
from shared.models.formats import base, openai
from shared.models.formats.base import ModelConfig, ModelFormat, RequestBody
from shared.models.formats.responses_decoder import ResponseDecoder

MIN_ANSWER_TOKENS = 16  # the service rejects a lower max_output_tokens
UNSUPPORTED = ("seed", "stop", "frequency_penalty", "presence_penalty")


def build_body(config: ModelConfig, prompt: Prompt) -> RequestBody:
    """Build the body of a request, with the parameters that the model supports."""
    options, reasoning = prompt.options, config.reasoning
    messages = [openai.build_message(message) for message in prompt.messages]
    instructions = messages.pop(0) if messages[0]["role"] == "system" else {}
    most = openai.max_answer_tokens(config, prompt)
    effort = options.get("reasoning_effort") or (config.reasoning_effort if reasoning else None)
    text = {
        "format": flatten(options.get("response_format")),
        "verbosity": options.get("verbosity"),
    }
    fields = {
        "model": config.server_model,
        "instructions": _join_texts(instructions.get("content")) or None,
        "input": [item for message in messages for item in _build_items(message)],
        "stream": True if config.supports_streaming else None,
        "store": False,
        "tools": [_build_tool(tool) for tool in prompt.tools] or None,
        "tool_choice": flatten(options.get("tool_choice")),
        "parallel_tool_calls": options.get("parallel_tool_calls"),
        "text": base.drop_none(text) or None,
        "max_output_tokens": max(most, MIN_ANSWER_TOKENS) if most else None,
        "reasoning": {"effort": effort} if effort else None,
        "temperature": None if reasoning else prompt.temperature,
        "top_p": None if reasoning else options.get("top_p"),
    }
    return base.drop_none(fields)


def _build_items(message: Mapping[str, Any]) -> Iterator[RequestBody]:
    """Yield the items of a message: itself, if it has a content, and one for each tool call."""
    role, content = message["role"], message.get("content")
    if role == "tool":
        call_id, output = message.get("tool_call_id"), _join_texts(content)
        result = {"type": "function_call_output", "call_id": call_id, "output": output}
        yield base.drop_none(result)
    elif content:
        # The service rejects `input_text` in an assistant's message.
        is_text = role == "assistant" or isinstance(content, str)
        yield {
            "role": role,
            "content": _join_texts(content) if is_text else list(map(_build_part, content)),
        }
    for call in message.get("tool_calls", ()):
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _join_texts(content: Any) -> str:
    if not isinstance(content, list):
        return content or ""
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _build_part(part: Mapping[str, Any]) -> RequestBody:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    image = part["image_url"]
    detail = image.get("detail", "auto")
    return {"type": "input_image", "image_url": image["url"], "detail": detail}


def _build_tool(tool: Mapping[str, Any]) -> RequestBody:
    """Build a tool, with the defaults that it has in chat completions."""
    defaults = {"parameters": {"type": "object", "properties": {}}, "strict": False}
    return defaults | base.drop_none(flatten(tool))


def flatten(value: Any) -> Any:
    """Return a client's object without the level that chat completions have for its type.

    `{"type": "function", "function": {"name": "f"}}` is `{"type": "function", "name": "f"}` here.
    """
    if isinstance(value, list):
        return [flatten(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    kind = value.get("type")
    inner = value.get(kind) if isinstance(kind, str) else None
    if not isinstance(inner, Mapping):
        return dict(value)
    tools = {"tools": flatten(inner["tools"])} if "tools" in inner else {}  # of allowed_tools
    return {**inner, **tools, "type": kind}


RESPONSES = ModelFormat(
    "responses",
    build_body,
    ResponseDecoder,
    tool_calls_reason="tool_calls",
    unsupported=UNSUPPORTED,
    has_end_marker=False,
    ready_url=partial(openai.models_url, "/responses"),
)
