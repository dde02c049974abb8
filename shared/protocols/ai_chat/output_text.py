"""The newest version of the protocol, in the words of OpenAI's Responses API.

azure-search-openai-demo and rag-postgres-openai-python read its answers since April 2026; only the
latter sends `input`, the former still sends the `messages` and `session_state` of the version
before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from shared.domain.errors import BadRequest
from shared.domain.events import Answer, Context, Delta, Done, Event
from shared.domain.messages import MAX_MESSAGES, Message, check_image_url
from shared.domain.request import ChatRequest
from shared.http.body import Body, require_object, validate
from shared.http.call import Json
from shared.protocols import context_json, message_json
from shared.protocols.ai_chat import response
from shared.protocols.ai_chat.request import CommonFields, check_question, make_request, read_images
from shared.protocols.message_json import FAST, ContentPart

STATE = "session_state"


def _list_of(noun: str, wrap: Callable[[str], Json], schema: Any) -> BeforeValidator:
    """Accept a string in place of a list: `wrap` makes it the only element, unless it is blank.

    `schema` is the type of what is accepted.
    """

    def validate_list(value: Any) -> Any:
        if isinstance(value, str):
            return [wrap(value)] if value.strip() else []
        if not isinstance(value, list | None):
            raise ValueError(f"must be a string, or a list of {noun}")
        return value

    return BeforeValidator(validate_list, json_schema_input_type=schema)


class _InputPart(ContentPart):
    type: Literal["input_text", "output_text", "text", "refusal", "input_image"]
    image_url: Annotated[str, AfterValidator(check_image_url)] | None = None


_PARTS = _list_of("parts", message_json.format_text, list[_InputPart] | str | None)


class _InputMessage(BaseModel, strict=True):
    type: Literal["message"] | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Annotated[Annotated[list[_InputPart], FAST] | None, _PARTS] = None


_MESSAGES = _list_of(
    "messages",
    lambda text: {"role": "user", "content": text},
    Annotated[list[_InputMessage], Field(min_length=1, max_length=MAX_MESSAGES)] | str,
)


class _InputFields(CommonFields, strict=True):
    input: Annotated[
        list[_InputMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True), _MESSAGES
    ]
    stream: bool | None = None


def parse(body: Body) -> ChatRequest:
    """Read a request. Raises BadRequest that names each key at fault."""
    fields = validate(_InputFields, require_object(body.json))
    read_images((), body.files)  # refuses them: the images of a form belong to `messages`
    messages = tuple(_message(f"input[{i}]", each) for i, each in enumerate(fields.input))
    check_question(f"input[{len(messages) - 1}]", messages[-1])
    return make_request(messages, body.json, STATE)


def _message(path: str, message: _InputMessage) -> Message:
    """Return a message with its texts and images. Raises BadRequest."""
    parts = [
        message_json.parse_part(f"{path}.content[{place}]", part, _missing)
        for place, part in enumerate(message.content or ())
    ]
    images = message_json.image_urls(parts)
    if images and message.role != "user":
        raise BadRequest(f"{path}.content: only a message of the user can have images")
    role = "system" if message.role == "developer" else message.role
    return Message(role, message_json.join_texts(parts), images)


def _missing(path: str, message: str) -> BadRequest:
    return BadRequest(message, field=path)


def write_answer(request: ChatRequest, result: Answer) -> Json:
    """Return an answer: `output_text`, `context` and the state."""
    return {
        "output_text": result.content,
        "context": context_json.whole_context(result),
        STATE: context_json.state(STATE, request, result.done.conversation),
    }


def write_chunk(request: ChatRequest, _context: Context, event: Event) -> Json | None:
    """Return a line of a stream. Only the first one has `data_points`."""
    match event:
        case Context():
            context = context_json.start_of_context(event)
            state = context_json.state(STATE, request, event.conversation)
            return {"type": "response.context", "context": context, STATE: state}
        case Delta(content):
            return {"type": "response.output_text.delta", "delta": content} if content else None
        case Done():
            return {"type": "response.context", "context": context_json.end_of_context(event)}


OUTPUT_TEXT = replace(
    response.APPS,
    name="ai-chat-output-text",
    media_type="application/x-ndjson",
    write_answer=write_answer,
    write_stream=partial(response.write_stream, write_chunk),
)
INPUT = replace(OUTPUT_TEXT, parse=parse)
