"""What the fakes of Azure AI Search and Azure OpenAI answer, in the services' own shapes."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

TOKENS, REWRITE_TOKENS, DIMENSIONS = 100, 10, 1536
FIELDS = ("id", "content", "sourcepage", "sourcefile", "category", "oids", "groups")
SENTENCE = "An employee may carry over five days of vacation into the next year. "
PASSAGES = tuple(
    {
        "@search.score": 0.03 - number / 1000,
        "id": f"handbook-{number}",
        "content": (f"Section {number}. " + SENTENCE * 15)[:1000],
        "sourcepage": f"handbook.md#section-{number}",
        "sourcefile": "handbook.md",
        "category": "company",
        "oids": [],
        "groups": [],
    }
    for number in range(3)
)
SAFE = {"filtered": False, "severity": "safe"}
SAFE_CONTENT = dict.fromkeys(("hate", "self_harm", "sexual", "violence"), SAFE)
PROMPT_FILTER = {"jailbreak": {"filtered": False, "detected": False}, **SAFE_CONTENT}
CHUNK = {
    "id": "chatcmpl-AzureBenchmark000000000000000",
    "object": "chat.completion.chunk",
    "created": 1763800000,
    "model": "gpt-4o-2024-11-20",
    "system_fingerprint": "fp_ee1d74bde0",
    "usage": None,
}


def stamp(microseconds: int) -> str:
    """The text of a token, which tells when it was sent."""
    return f" t{microseconds % 10**8:08d}"


def sse_event(data: bytes) -> bytes:
    """An event in a chunk of its own, as Azure OpenAI writes it."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


def chunk(**more: Any) -> bytes:
    return sse_event(json.dumps(CHUNK | more, separators=(",", ":")).encode())


def choice(delta: Any, finish_reason: str | None = None, filters: Any = None) -> dict[str, Any]:
    return {
        "content_filter_results": filters or {},
        "delta": delta,
        "finish_reason": finish_reason,
        "index": 0,
        "logprobs": None,
    }


def token(text: str) -> bytes:
    """The event of one token."""
    return TOKEN_START + text.encode() + TOKEN_END


# What comes before the first token, after the last one, and with `include_usage`.
FIRST_EVENTS = chunk(
    choices=[],
    prompt_filter_results=[{"prompt_index": 0, "content_filter_results": PROMPT_FILTER}],
) + chunk(choices=[choice({"content": "", "refusal": None, "role": "assistant"})])
LAST_EVENT = chunk(choices=[choice({}, "stop")])
DETAILS = {"accepted_prediction_tokens": 0, "audio_tokens": 0, "reasoning_tokens": 0}
USAGE_EVENT = chunk(
    choices=[],
    usage={
        "completion_tokens": TOKENS,
        "completion_tokens_details": DETAILS,
        "prompt_tokens": 900,
        "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 0},
        "total_tokens": 900 + TOKENS,
    },
)
END = sse_event(b"[DONE]") + b"0\r\n\r\n"
# As long as a stamp, so that the size of the chunk is right; and none, for it is in the context.
REWRITE_TOKEN = " vacations"
TOKEN = chunk(choices=[choice({"content": REWRITE_TOKEN}, filters=SAFE_CONTENT)])
TOKEN_START, TOKEN_END = TOKEN.split(REWRITE_TOKEN.encode())


RESPONSE = {
    "id": "resp_AzureBenchmark000000000000000000000000000000",
    "object": "response",
    "created_at": 1763800000,
    "status": "in_progress",
    "background": False,
    "error": None,
    "incomplete_details": None,
    "instructions": "Answer from these sources only, and cite them. " * 20,
    "max_output_tokens": None,
    "model": "gpt-4o-2024-11-20",
    "output": [],
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": 0.3,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "metadata": {},
}
ITEM: dict[str, Any] = {
    "id": "msg_AzureBenchmark000000000000000000000000000000",
    "type": "message",
    "status": "in_progress",
    "content": [],
    "role": "assistant",
}
PART = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
PLACE = {"item_id": ITEM["id"], "output_index": 0, "content_index": 0}
RESPONSE_USAGE = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 900 + TOKENS,
}


def response_event(kind: str, **fields: Any) -> bytes:
    """An event of the Responses API."""
    body = {"type": f"response.{kind}", "sequence_number": 100, **fields}
    data = json.dumps(body, separators=(",", ":")).encode()
    event = b"event: response." + kind.encode() + b"\ndata: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


def response_token(text: str) -> bytes:
    """The event of one token, as long as with the service's padding."""
    fields = {"delta": text, "logprobs": [], "obfuscation": "AbCdEfGh"}
    return response_event("output_text.delta", **PLACE, **fields)


def response_end(text: str) -> bytes:
    """The events after the last token, which have the whole text."""
    part = {**PART, "text": text}
    item = {**ITEM, "status": "completed", "content": [part]}
    last = {**RESPONSE, "status": "completed", "output": [item], "usage": RESPONSE_USAGE}
    return (
        response_event("output_text.done", **PLACE, text=text, logprobs=[])
        + response_event("content_part.done", **PLACE, part=part)
        + response_event("output_item.done", output_index=0, item=item)
        + response_event("completed", response=last)
        + b"0\r\n\r\n"
    )


RESPONSE_START = (
    response_event("created", response=RESPONSE)
    + response_event("in_progress", response=RESPONSE)
    + response_event("output_item.added", output_index=0, item=ITEM)
    + response_event("content_part.added", **PLACE, part=PART)
)

HEAD = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s\r\n"
STREAM_HEAD = HEAD % (
    200,
    b"OK",
    b"text/event-stream; charset=utf-8",
    b"Transfer-Encoding: chunked\r\n",
)


def json_reply(value: Any, status: int = 200) -> bytes:
    """A complete response with a JSON body."""
    body = json.dumps(value).encode()
    reason = b"OK" if status == 200 else b"Bad Request"
    return (
        HEAD % (status, reason, b"application/json", b"Content-Length: %d\r\n" % len(body)) + body
    )


def search_reply(body: dict[str, Any]) -> bytes:
    """The passages, as many as are requested."""
    count = {"@odata.count": len(PASSAGES)} if body.get("count") else {}
    selected = ("@search.score", *str(body["select"]).split(","))
    hits = [{name: passage[name] for name in selected} for passage in PASSAGES[: body["top"]]]
    return json_reply({"@odata.context": "https://search/$metadata#docs", **count, "value": hits})


def retrieve_reply(body: dict[str, Any]) -> bytes:
    """The passages of a knowledge base: twice, as text and as data, as the service sends them."""
    passages = [{name: each[name] for name in FIELDS} for each in PASSAGES]
    texts = [{"ref_id": place, **passage} for place, passage in enumerate(passages)]
    query = body["intents"][0]["search"]
    search = {"type": "searchIndex", "id": 1, "knowledgeSourceName": "docs", "count": len(texts)}
    activity = [
        {**search, "elapsedMs": 310, "searchIndexArguments": {"search": query, "filter": None}},
        {"type": "agenticReasoning", "id": 2, "reasoningTokens": 4096},
    ]
    references = [
        {
            "type": "searchIndex",
            "id": str(place),
            "activitySource": 1,
            "docKey": passage["id"],
            "sourceData": passage,
            "rerankerScore": 3.0 - place / 10,
        }
        for place, passage in enumerate(passages)
    ]
    content = [{"type": "text", "text": json.dumps(texts)}]
    response = [{"role": "assistant", "content": content}]
    return json_reply({"response": response, "activity": activity, "references": references})


VECTOR = [0.03125 * (number % 7 - 3) + number / 65536 for number in range(DIMENSIONS)]


def _embedding_reply(vector: str | Sequence[float]) -> bytes:
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    return json_reply({"object": "list", "data": data, "model": "embedding", "usage": usage})


EMBEDDING_REPLIES = {
    "float": _embedding_reply(VECTOR),
    "base64": _embedding_reply(base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *VECTOR)).decode()),
}
# All tokens of an answer, and of a rewritten question, where there are no delays.
ANSWER = b"".join(token(stamp(number)) for number in range(TOKENS))
REWRITE = token(REWRITE_TOKEN) * REWRITE_TOKENS
STAMPS = [stamp(number) for number in range(TOKENS)]
RESPONSE_ANSWER = b"".join(map(response_token, STAMPS)) + response_end("".join(STAMPS))
