"""The format of OpenAI's Responses API, also of Azure OpenAI and compatible servers.

Requests are made from messages in the format of chat completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from shared.domain.errors import BadRequest, ChatError
from shared.domain.messages import ToolCall
from shared.models.base import Prompt
from shared.models.formats import base, openai
from shared.models.formats.base import DecodedChunk, ModelConfig, ModelFormat, RequestBody

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


class ResponseDecoder:
    """Decodes the events of one stream, or a whole response.

    Some servers send no deltas, but whole texts and calls in a later event, or in the last one.
    Everything is read once, from the first kind of event that has it.
    """

    def __init__(self) -> None:
        self._text_event: str | None = None  # the type of the events that have the text
        self._indexes: dict[str, int] = {}  # of calls, by their ids
        self._announced: dict[Any, int] = {}  # of calls, by the place of their items in the output
        self._complete: set[int] = set()  # the indexes of calls with arguments

    def __call__(self, event: Mapping[str, Any]) -> DecodedChunk:
        """Decode an object. Raises the error in it."""
        if error := event.get("error"):
            raise to_error(error)
        kind = event.get("type")
        if kind is None:  # a whole response
            kind, event = f"response.{event['status']}", {"response": event}
        decode = EVENTS.get(kind)
        return decode(self, event) if decode else DecodedChunk()

    def start(self, event: Mapping[str, Any]) -> DecodedChunk:
        """Decode `response.created`."""
        return DecodedChunk(model=event["response"].get("model"))

    def text(self, event: Mapping[str, Any], field: str) -> DecodedChunk:
        """Decode a piece of text, or of a refusal, or a whole one."""
        return DecodedChunk(self._unread_text(event["type"].rpartition(".")[2], event[field]))

    def _unread_text(self, event: str, text: str) -> str:
        self._text_event = self._text_event or event
        return text if self._text_event == event else ""

    def call(self, event: Mapping[str, Any]) -> DecodedChunk:
        """Decode the id and the name of a call: its arguments follow."""
        item = event["item"]
        if item["type"] != "function_call":
            return DecodedChunk()
        index = self._indexes.setdefault(item["call_id"], len(self._indexes))
        self._announced[event.get("output_index")] = index
        return DecodedChunk(calls=(ToolCall(index, item["call_id"], item["name"]),))

    def arguments(self, event: Mapping[str, Any], field: str) -> DecodedChunk:
        """Decode a part of a call's arguments, or all of them."""
        index = self._announced.get(event.get("output_index"))
        if index is None or (field == "arguments" and index in self._complete):
            return DecodedChunk()
        self._complete.add(index)
        return DecodedChunk(calls=(ToolCall(index, arguments="" + event[field]),))

    def item(self, event: Mapping[str, Any]) -> DecodedChunk:
        """Decode a complete item."""
        return self._items("item", (event["item"],))

    def end(self, event: Mapping[str, Any], finish_reason: str) -> DecodedChunk:
        """Decode the last event, with the whole response. Its usage is nowhere else."""
        response = event["response"]
        details = response.get("incomplete_details") or {}
        is_filtered = details.get("reason") == "content_filter"
        chunk = self._items("response", response.get("output") or ())
        chunk.finish_reason = "content_filter" if is_filtered else finish_reason
        chunk.is_last = True
        chunk.model = response.get("model")
        chunk.usage = openai.decode_usage(response.get("usage"), "input_tokens", "output_tokens")
        return chunk

    def _items(self, event: str, items: Iterable[Mapping[str, Any]]) -> DecodedChunk:
        """Decode what no earlier event had of some items."""
        texts: list[str] = []
        calls: list[ToolCall] = []
        for item in items:
            if item["type"] == "message":
                parts = (each.get("text") or each.get("refusal") for each in item["content"] or ())
                texts += [self._unread_text(event, text) for text in parts if text]
            elif item["type"] == "function_call":
                calls += self._unread_call(item)
        return DecodedChunk("".join(texts), tuple(calls))

    def _unread_call(self, item: Mapping[str, Any]) -> Iterator[ToolCall]:
        index = self._indexes.setdefault(item["call_id"], len(self._indexes))
        if index not in self._complete:
            self._complete.add(index)
            yield ToolCall(index, item["call_id"], item["name"], "" + item["arguments"])


def decode_failure(_decoder: ResponseDecoder, event: Mapping[str, Any]) -> DecodedChunk:
    """Raise the error of `response.failed` or of `error`, which has its fields in itself."""
    raise to_error((event.get("response") or {}).get("error") or event)


def to_error(error: Any) -> ChatError:
    """Map an error to a ChatError by its code. Those of the request name the prompt or an image."""
    code = str(error.get("code") if isinstance(error, Mapping) else "")
    if code == "invalid_prompt" or "image" in code:
        cause = f"the model's stream ended with an error, code {code!r:.80}"
        return BadRequest("The model did not accept the question.", cause=cause)
    return base.to_error(error)


Decode = Callable[[ResponseDecoder, Mapping[str, Any]], DecodedChunk]
EVENTS: Mapping[str, Decode] = {
    "response.output_text.delta": partial(ResponseDecoder.text, field="delta"),
    "response.refusal.delta": partial(ResponseDecoder.text, field="delta"),
    "response.output_text.done": partial(ResponseDecoder.text, field="text"),
    "response.refusal.done": partial(ResponseDecoder.text, field="refusal"),
    "response.function_call_arguments.delta": partial(ResponseDecoder.arguments, field="delta"),
    "response.function_call_arguments.done": partial(ResponseDecoder.arguments, field="arguments"),
    "response.created": ResponseDecoder.start,
    "response.output_item.added": ResponseDecoder.call,
    "response.output_item.done": ResponseDecoder.item,
    "response.completed": partial(ResponseDecoder.end, finish_reason="stop"),
    "response.incomplete": partial(ResponseDecoder.end, finish_reason="length"),
    "response.failed": decode_failure,
    "error": decode_failure,
}


RESPONSES = ModelFormat(
    "responses",
    build_body,
    ResponseDecoder,
    tool_calls_reason="tool_calls",
    unsupported=UNSUPPORTED,
    has_end_marker=False,
    ready_url=partial(openai.models_url, "/responses"),
)
