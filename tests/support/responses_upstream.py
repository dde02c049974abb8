"""A fake server of OpenAI's Responses API, as strict as the service is known to be.

Its events are those of `openai.types.responses`; what it rejects is what the reference and the
service's own errors say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from tests.support.upstream import (
    ModelApi,
    RecordedRequest,
    Step,
    Upstream,
    error_response,
    json_response,
    sse_event,
    stream_response,
)

# The events of a text with a citation, in which OpenAI's SDKs get it.
TEXT = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.annotation.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]

PARAMETERS = get_type_hints(ResponseCreateParamsStreaming).keys()
NOT_FOR_REASONING = ("temperature", "top_p")
MIN_OUTPUT_TOKENS = 16
# The keys of an item, and the types of its parts, by its type or the role of its message.
MESSAGE_KEYS = {"type", "role", "content", "id", "status", "phase"}
ITEM_KEYS: Mapping[str, set[str]] = {
    "message": MESSAGE_KEYS,
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
}
INPUT_PARTS = {"input_text", "input_image", "input_file"}
PARTS: Mapping[str, set[str]] = {
    "user": INPUT_PARTS,
    "system": INPUT_PARTS,
    "developer": INPUT_PARTS,
    "assistant": {"output_text", "refusal"},
}
TOOL_KEYS = {"type", "name", "description", "parameters", "strict"}
FORMAT_KEYS = {"type", "name", "description", "schema", "strict"}
USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant"}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": []}
IN_SUMMARY = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
IN_TEXT = {"item_id": "msg_1", "output_index": 1, "content_index": 0}


def event(kind: str, **fields: Any) -> bytes:
    """An event of a stream."""
    body = {"type": kind, "sequence_number": 0, **fields}
    return f"event: {kind}\n".encode() + sse_event(body)


def response(status: str, *output: Any, **more: Any) -> dict[str, Any]:
    """A response object."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1706301586,
        "status": status,
        "model": "gpt-5.4-pro-2026-03-05",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": USAGE if output else None,
        **more,
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message_item(text: str) -> dict[str, Any]:
    return {**MESSAGE, "status": "completed", "content": [text_part(text)]}


def call_item(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    fields = {"call_id": call_id, "name": name, "arguments": arguments}
    return {"id": f"fc_{call_id}", "type": "function_call", "status": "completed", **fields}


def text_delta(text: str) -> bytes:
    return event("response.output_text.delta", **IN_TEXT, delta=text, logprobs=[])


def completed(*output: Any) -> bytes:
    return event("response.completed", response=response("completed", *output))


def incomplete(reason: str) -> bytes:
    details = {"reason": reason}
    body = response("incomplete", usage=USAGE, incomplete_details=details)
    return event("response.incomplete", response=body)


def failed(code: str) -> bytes:
    error = {"code": code, "message": "upstream's own words"}
    return event("response.failed", response=response("failed", error=error))


def answer_events(*texts: str) -> list[bytes]:
    """The events of an answer with these deltas, of a model that reasons first."""
    item, text = message_item("".join(texts)), "".join(texts)
    place: Any = {"output_index": 1}
    added = {**MESSAGE, "status": "in_progress", "content": []}
    return [
        event("response.created", response=response("in_progress")),
        event("response.in_progress", response=response("in_progress")),
        event("response.output_item.added", output_index=0, item=REASONING),
        event("response.output_item.done", output_index=0, item=REASONING),
        event("response.output_item.added", **place, item=added),
        event("response.content_part.added", **IN_TEXT, part=text_part("")),
        *map(text_delta, texts),
        event("response.output_text.done", **IN_TEXT, text=text, logprobs=[]),
        event("response.content_part.done", **IN_TEXT, part=text_part(text)),
        event("response.output_item.done", **place, item=item),
        completed(REASONING, item),
    ]


def call_events(index: int, call_id: str, name: str, *parts: str) -> list[bytes]:
    """The events of a call, its arguments in parts."""
    item: Any = call_item(call_id, name, "".join(parts))
    place: Any = {"output_index": index, "item_id": item["id"]}
    kind = "response.function_call_arguments"
    added = {**item, "arguments": "", "status": "in_progress"}
    return [
        event("response.output_item.added", output_index=index, item=added),
        *(event(f"{kind}.delta", **place, delta=part) for part in parts),
        event(f"{kind}.done", **place, arguments=item["arguments"]),
        event("response.output_item.done", output_index=index, item=item),
    ]


REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def end(reason: str) -> bytes:
    return incomplete(REASONS[reason]) if reason in REASONS else completed(REASONING)


def error(value: Any) -> bytes:
    """An `error` event; one in its `error` without a type, if it is no object."""
    if not isinstance(value, dict):
        return sse_event({"error": value})
    return event("error", **{"message": "upstream's own words", "param": None, **value})


RESPONSES = ModelApi(
    "responses",
    text=text_delta,
    end=end,
    error=error,
    answer=answer_events,
    idle=event("response.reasoning_summary_text.delta", **IN_SUMMARY, delta="Hm."),
)


class ResponsesUpstream(Upstream):
    """Responses, whole and streamed, embeddings, and the list of models."""

    api = RESPONSES
    texts: tuple[str, ...] = ("Yes", " [a.md].")

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        is_ours = request.path.partition("?")[0].endswith("/responses")
        return reject(request.body) if is_ours else None

    def respond(self, request: RecordedRequest) -> list[Step]:
        if not request.path.partition("?")[0].endswith("/responses"):
            return super().respond(request)
        if request.body.get("stream"):
            return stream_response(answer_events(*self.texts))
        return json_response(response("completed", REASONING, message_item("".join(self.texts))))


def reject(body: Any) -> list[Step] | None:
    """Returns the error response of a body that the service would reject, else None."""
    problem = next(find_problems(body), None)
    if problem is None:
        return None
    code, param = problem
    return error_response(400, code=code, param=param, type="invalid_request_error")


def find_problems(body: Any) -> Iterator[tuple[str, str | None]]:
    """The code and the parameter of each error."""
    yield from (("unknown_parameter", name) for name in body.keys() - PARAMETERS)
    yield from _problems_of_options(body)
    if not body.get("input"):
        yield "missing_required_parameter", "input"
    yield from _problems_of_items(body["input"])
    for index, tool in enumerate(body.get("tools", ())):
        yield from _problems_of_keys(f"tools[{index}]", tool, TOOL_KEYS, "name")
    if isinstance(choice := body.get("tool_choice"), dict):
        allowed = choice.get("type") == "allowed_tools"
        keys = {"type", "mode", "tools"} if allowed else {"type", "name"}
        yield from _problems_of_keys("tool_choice", choice, keys, "type")
    answer_format = body.get("text", {}).get("format", {})
    if not isinstance(answer_format, dict):
        yield "invalid_type", "text.format"
        return
    required = ("name", "schema") if answer_format.get("type") == "json_schema" else ()
    yield from _problems_of_keys("text.format", answer_format, FORMAT_KEYS, *required)


def _problems_of_options(body: Any) -> Iterator[tuple[str, str]]:
    if str(body.get("model", "")).startswith(("o3", "gpt-5")):
        yield from (("unsupported_parameter", each) for each in NOT_FOR_REASONING if each in body)
    elif "reasoning" in body:
        yield "unsupported_parameter", "reasoning.effort"
    if body.get("max_output_tokens", MIN_OUTPUT_TOKENS) < MIN_OUTPUT_TOKENS:
        yield "integer_below_min_value", "max_output_tokens"
    if not isinstance(body.get("instructions", ""), str):
        yield "invalid_type", "instructions"


def _problems_of_keys(
    path: str, value: Any, known: set[str], *required: str
) -> Iterator[tuple[str, str]]:
    yield from (("unknown_parameter", f"{path}.{key}") for key in value.keys() - known)
    for key in required:
        if not value.get(key):
            yield "missing_required_parameter", f"{path}.{key}"


def _problems_of_items(items: Any) -> Iterator[tuple[str, str | None]]:
    """The errors of items: unknown keys, parts of another role, calls without a counterpart."""
    calls: set[str] = set()
    outputs: set[str] = set()
    for index, item in enumerate(items):
        path, kind = f"input[{index}]", item.get("type", "message")
        yield from _problems_of_keys(path, item, ITEM_KEYS[kind])
        if kind == "message":
            yield from _problems_of_content(f"{path}.content", item)
        elif not item.get("call_id"):
            yield "missing_required_parameter", f"{path}.call_id"
        else:
            (calls if kind == "function_call" else outputs).add(item["call_id"])
            texts = [item.get("arguments", item.get("output"))]
            yield from (("invalid_type", path) for text in texts if not isinstance(text, str))
    if calls != outputs:  # "No tool output found for function call", or the other way
        yield "invalid_request_error", "input"


def _problems_of_content(path: str, item: Any) -> Iterator[tuple[str, str]]:
    if item.get("role") not in PARTS:
        yield "invalid_value", path.replace("content", "role")
    elif not isinstance(item["content"], str):
        for index, part in enumerate(item["content"]):
            if part["type"] not in PARTS[item["role"]]:
                yield "invalid_value", f"{path}[{index}]"
            elif not isinstance(part.get("text", part.get("image_url")), str):
                yield "invalid_type", f"{path}[{index}]"
