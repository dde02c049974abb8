"""The body of a chat completion: what is known of a model, and the parameters that it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.chat import Message, ToolCall
from shared.models import Prompt

# What is known of models by their names. A deployment may have any name: settings say otherwise.
REASONING = re.compile(r"(?:^|/)(?:o\d(?![a-z\d])|gpt-5(?!\d))(?!.*chat)", re.I)
SEEING = re.compile(
    r"(?:^|/)(?:o[13](?!-mini|-preview)(?![a-z\d])|o4-mini|gpt-5(?!\d)|gpt-4o|gpt-4\.1)"
    r"|vision|llava|-vl\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a model is and takes. `seconds`: to accept, to the first token, between tokens.

    `answer_tokens` is the most that it may write, None for its own limit. `effort` is a reasoning
    model's `reasoning_effort`. `hint` is what to look at where it refuses us, for the log.
    """

    name: str
    max_prompt_tokens: int
    reasoning: bool = False
    seeing: bool = False
    answer_tokens: int | None = None
    effort: str | None = None
    accept_seconds: float = 60
    first_seconds: float = 60
    gap_seconds: float = 30
    hint: str = ""


def known_of(name: str) -> Traits:
    """What is known of a model by its name alone."""
    reasoning, seeing = bool(REASONING.search(name)), bool(SEEING.search(name))
    return Traits(name, max_prompt_tokens=0, reasoning=reasoning, seeing=seeing)


def limits(traits: Traits) -> Mapping[str, str]:
    """What a model cannot do, in sentences."""
    name, found = traits.name, {}
    if not traits.seeing:
        found["images"] = (
            f"The images were left out: {name} is not known to see them (CHAT_MODEL_VISION)."
        )
    if traits.reasoning:
        found["temperature"] = (
            f"temperature was left out: {name} is a reasoning model, without one."
        )
    return found


def request(traits: Traits, prompt: Prompt) -> dict[str, Any]:
    """The body of a request, with the parameters that this kind of model takes."""
    body: dict[str, Any] = {
        "model": traits.name,
        "messages": [_message(said) for said in prompt.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if prompt.seed is not None:
        body["seed"] = prompt.seed
    if prompt.tools:
        body["tools"] = list(prompt.tools)
    if not traits.reasoning:
        body["temperature"] = prompt.temperature
    elif traits.effort:
        body["reasoning_effort"] = traits.effort
    if traits.answer_tokens:
        body["max_completion_tokens" if traits.reasoning else "max_tokens"] = traits.answer_tokens
    return body


def _message(said: Message) -> dict[str, Any]:
    if said.tool_calls:
        calls = [_tool_call(call) for call in said.tool_calls]
        return {"role": said.role, "content": said.content or None, "tool_calls": calls}
    if said.tool_call_id is not None:
        return {"role": said.role, "content": said.content, "tool_call_id": said.tool_call_id}
    if not said.images:
        return {"role": said.role, "content": said.content}
    text = [{"type": "text", "text": said.content}] if said.content else []
    images = [{"type": "image_url", "image_url": {"url": url}} for url in said.images]
    return {"role": said.role, "content": [*text, *images]}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}
