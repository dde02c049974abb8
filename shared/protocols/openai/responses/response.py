"""The objects of the Responses API: the response, its output items, its usage."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import count

from shared.domain.events import Answer, Context, Done, Source
from shared.domain.messages import ToolCall
from shared.domain.request import ChatRequest
from shared.http.call import Json
from shared.protocols.context_json import source_url
from shared.protocols.openai.response import count_usage, search_queries, url_citation
from shared.protocols.openai.responses.request import ResponseState
from shared.rag.citations import Citation, CitationFinder, sources_by_name

# The `reason` of an incomplete response, by the model's reason to stop.
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def write_answer(request: ChatRequest, result: Answer) -> Json:
    """Return a whole response."""
    output = format_output(request, result.context, result.parts)
    output[-1] |= {"status": end_status(result.done)}
    return finished(request, result.context, result.done, output)


def end_status(done: Done) -> str:
    """Return the status of a response, and of its last item, by the reason of its end."""
    return "incomplete" if done.finish_reason in INCOMPLETE else "completed"


def envelope(request: ChatRequest, context: Context, status: str) -> Json:
    """Return a response without output."""
    state: ResponseState = request.state
    return {
        "id": response_id(state.id),
        "object": "response",
        "created_at": request.metadata.created,
        "completed_at": None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": request.overrides.model or context.model,
        "output": [],
        "usage": None,
        **state.echo,
        "store": state.store,
    }


def finished(request: ChatRequest, context: Context, done: Done, output: Sequence[Json]) -> Json:
    """Return a response with its output: completed, or incomplete by the reason of its end."""
    reason = INCOMPLETE.get(done.finish_reason)
    texts = [item["content"][0]["text"] for item in output if item["type"] == "message"]
    return {
        **envelope(request, context, end_status(done)),
        "completed_at": None if reason else int(time.time()),
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(output),
        "usage": format_usage(count_usage(context, done, "".join(texts))),
    }


def response_id(id: str) -> str:
    """Return the id of a response."""
    return f"resp_{id}"


def format_output(
    request: ChatRequest, context: Context, parts: Sequence[str | ToolCall]
) -> list[Json]:
    """Return the output items of an answer, in their order."""
    state: ResponseState = request.state
    output = [search_item(request, context)] if state.searches else []
    messages, calls = count(1), count()
    for part in parts or ("",):
        if isinstance(part, ToolCall):
            output.append(call_item(state.id, next(calls), part))
        elif part.strip() or len(parts) <= 1:  # some servers put line feeds around a call
            id = message_id(state.id, next(messages))
            output.append(message_item(id, part, _annotations(request, context, part)))
    return output


def _annotations(request: ChatRequest, context: Context, text: str) -> list[Json]:
    citations = CitationFinder(sources_by_name(context.sources)).feed(text)
    return [format_annotation(request, each) for each in citations]


def format_annotation(request: ChatRequest, citation: Citation) -> Json:
    """Return the annotation of a citation: of the file where the search is a tool of the request,
    else of its URL."""
    if request.state.searches:
        return {
            "type": "file_citation",
            "index": citation.start,
            "file_id": citation.source.id,
            "filename": citation.source.sourcefile,
        }
    return {"type": "url_citation", **url_citation(citation, request.metadata.links)}


def message_id(id: str, number: int = 1) -> str:
    """Return the id of a message of a response; `number` counts from 1."""
    return f"msg_{id}" if number == 1 else f"msg_{id}_{number}"


def message_item(id: str, text: str, annotations: Iterable[Json]) -> Json:
    """Return the item of a complete message."""
    return {
        "id": id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [text_part(text, annotations)],
    }


def text_part(text: str, annotations: Iterable[Json]) -> Json:
    """Return the part of a message with its text."""
    return {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": [],
    }


def call_item(id: str, place: int, call: ToolCall) -> Json:
    """Return the item of a complete function call."""
    return {
        "id": f"fc_{id}_{place}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id or f"call_{id}_{place}",
        "name": call.name or "",
        "arguments": call.arguments,
    }


def search_item(request: ChatRequest, context: Context) -> Json:
    """Return the item of the complete search, with its passages if they are requested."""
    state: ResponseState = request.state
    results = [_format_result(request, source) for source in context.sources]
    return {
        "id": f"fs_{state.id}",
        "type": "file_search_call",
        "status": "completed",
        "queries": search_queries(context),
        "results": results if state.results else None,
    }


def _format_result(request: ChatRequest, source: Source) -> Json:
    url = source_url(request.metadata.links, source)
    return {
        "file_id": source.id,
        "filename": source.sourcefile,
        "score": source.score,
        "text": source.content,
        "attributes": {"sourcepage": source.sourcepage, "url": url},
    }


def format_usage(usage: Json) -> Json:
    """Return token counts by the names of this API; 0 for what is not known."""
    cached = {"cached_tokens": 0, "cache_write_tokens": 0}
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": cached | usage.get("prompt_tokens_details", {}),
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0}
        | usage.get("completion_tokens_details", {}),
        "total_tokens": usage["total_tokens"],
    }
