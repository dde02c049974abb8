"""The context of an answer as JSON: data points, links, thoughts, token usage, errors.

Names and forms are those of the chat protocol documents ("Example request context", "Example
response context"), in all versions of the protocol."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from shared.domain.errors import ChatError
from shared.domain.events import Answer, Context, Done, Source, Step, Usage, encode_path
from shared.domain.messages import Message
from shared.domain.overrides import Overrides, is_set
from shared.domain.request import ChatRequest
from shared.http.call import Json
from shared.protocols.exchange import ErrorFormat
from shared.protocols.openapi.operation import STRING, object_schema

CONVERSATION = "conversation_id"  # the key of a client's state that names a stored conversation


def override_path(field: str, body: Any, flat: bool) -> str:
    """Return the path of an override: in `context.overrides`, or (`flat`) right in `context`."""
    context = (body or {}).get("context") or {}
    name = field.partition("[")[0]
    inside = is_set((context.get("overrides") or {}).get(name))
    straight = flat and name in context and not inside
    return f"context.{field}" if straight else f"context.overrides.{field}"


def write_error(failure: ChatError, body: Any, flat: bool = False) -> Json:
    """Return `{"error": "<sentence>"}`, with the path of the invalid field in the request."""
    if failure.field is None:
        return {"error": failure.message}
    is_override = failure.field in Overrides.model_fields
    path = override_path(failure.field, body, flat) if is_override else failure.field
    return {"error": f"{path}: {failure.message}"}


def state(key: str, request: ChatRequest, conversation: str | None) -> Any:
    """Return the client's state, with the id of a new conversation, if any.

    The id of a conversation that the client did not ask for is an object in `sessionState`, and a
    string in `session_state`: the front end of azure-search-openai-demo reads only that.
    """
    if conversation is None:
        return request.state
    if isinstance(request.state, dict):
        return {**request.state, CONVERSATION: conversation}
    return {CONVERSATION: conversation} if key == "sessionState" else conversation


def start_of_context(context: Context) -> Json:
    """Return the context before the answer: `data_points` and, if they are shown, `thoughts`."""
    steps = {"thoughts": [thought(step) for step in context.steps]} if context.shows_steps else {}
    return {"data_points": data_points(context), **steps}


def end_of_context(done: Done) -> Json:
    """Return the context after the answer."""
    end: Json = {"finish_reason": done.finish_reason}
    if done.usage is not None:
        end["usage"] = usage(done.usage)
    if done.followups is not None:
        end["followup_questions"] = list(done.followups)
    if done.warnings:
        end["warnings"] = list(done.warnings)
    return end


def whole_context(answer: Answer) -> Json:
    """Return the context of a whole answer."""
    return start_of_context(answer.context) | end_of_context(answer.done)


def usage(tokens: Usage) -> Json:
    """Return token counts by OpenAI's names."""
    return {
        "prompt_tokens": tokens.prompt_tokens,
        "completion_tokens": tokens.completion_tokens,
        "total_tokens": tokens.total_tokens,
    }


def message(content: str) -> Json:
    """Return the message of a whole answer."""
    return {"content": content, "role": "assistant", "function_call": None, "tool_calls": None}


def data_points(context: Context) -> Json:
    """Return the passages as text, and the citable pages once each: frontends link only those.

    `images` are there only if images were used.
    """
    pages = dict.fromkeys(source.sourcepage for source in context.sources)
    lines = [source.prompt_line(context.captions) for source in context.sources]
    images = [{"detail": "auto", "url": url} for url in context.images]
    return {"text": lines, "citations": list(pages), **({"images": images} if images else {})}


def thought(step: Step) -> Json:
    """Return a step of the answer, for a debug display."""
    value = step.description
    description: Any = (
        value if isinstance(value, str) else [_description_part(part) for part in value]
    )
    props = None if step.props is None else dict(step.props)
    return {"title": step.title, "description": description, "props": props}


def _description_part(part: str | Source | Message) -> Any:
    match part:
        case Source():
            return _hit(part)
        case Message():
            return json.dumps(_prompt_message(part), ensure_ascii=False)
        case _:
            return part


def _prompt_message(message: Message) -> Json:
    images = {"images": len(message.images)} if message.images else {}
    return {"role": message.role, "content": message.content, **images}


def _hit(source: Source) -> Json:
    return {
        "id": source.id,
        "content": source.content,
        "embedding": None,
        "imageEmbedding": None,
        "category": source.category,
        "sourcepage": source.sourcepage,
        "sourcefile": source.sourcefile,
        "oids": list(source.oids),
        "groups": list(source.groups),
        "captions": list(source.captions),
        "score": source.score,
        "reranker_score": source.reranker_score,
    }


ERRORS = ErrorFormat(name="-", write_error=write_error)
ERROR_SCHEMA = object_schema(error=STRING)


def source_url(base_url: str, source: Source) -> str:
    """Return the URL of a passage: the one in the index, if it has any, else this app's route.

    Empty for an index whose passage has no web address.
    """
    if source.url is not None:
        return source.url
    file, _, place = source.sourcepage.partition("#")
    if file in (source.sourcefile, encode_path(source.sourcefile)):
        file = source.sourcefile
    elif source.sourcepage.startswith(source.sourcefile):  # its name has a # in it
        file, place = source.sourcefile, source.sourcepage[len(source.sourcefile) + 1 :]
    else:
        file, place = source.sourcepage, ""
    fragment = f"#{quote(place, safe='=&')}" if place else ""
    return f"{base_url}/content/{quote(file)}{fragment}"


def file_url(base_url: str, source: Source) -> str:
    """Return the URL of the whole file of a passage."""
    return source_url(base_url, source).partition("#")[0]
