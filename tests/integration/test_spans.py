"""The spans of a request, without text or keys."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.app import handle_call
from shared.bootstrap.build import start
from shared.domain import errors
from shared.domain.events import Delta, Done
from shared.http.call import Limits
from shared.protocols.exchange import App
from shared.rag.inputs import Rag
from shared.telemetry.access_log import NOOP_TRACER
from shared.telemetry.open_telemetry import OpenTelemetryTracer
from tests.support.calls import JSON, QUESTION, call, local_service, read
from tests.support.fakes import FakeModel, FakeRetriever, make_rag

SECRETS = {"x-functions-key": "k3y", "authorization": "Bearer k3y", "x-ms-client-principal": "k3y"}
HISTORY = {
    "messages": [
        {"role": "user", "content": "Is dental care in Plus?"},
        {"role": "assistant", "content": "Crowns are."},
        {"role": "user", "content": "And the Zanzibar office?"},
    ]
}
# Text of the conversation and keys, which no span may contain.
WORDS = re.compile("Plus|dental|Dental|Crowns|crowns|Zanzibar|k3y|plans/|inside")
Spans = dict[str, ReadableSpan]


def record_spans(rag: Rag, act: Callable[[App], Any], ratio: float = 1) -> Spans:
    """Run `act` with a service over fakes; return its spans by name, all of them ended."""
    exporter = InMemorySpanExporter()
    tracing = OpenTelemetryTracer(exporter, ratio)
    asyncio.run(act(local_service(rag, tracer=tracing, limits=Limits(request_seconds=20))))
    tracing.provider.shutdown()
    spans = exporter.get_finished_spans()
    assert not WORDS.search("".join(span.to_json() for span in spans))
    return {span.name: span for span in spans}


def post(route: str, body: Any = QUESTION, **headers: str) -> Callable[[App], Any]:
    async def act(service: App) -> None:
        await read(await handle_call(service, call(route, body, JSON | SECRETS | headers)))

    return act


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_request_span_has_search_rewrite_and_answer_children(route: str) -> None:
    spans = record_spans(make_rag(), post(route, HISTORY))
    root = spans.pop(f"POST {route}")

    assert set(spans) == {"rewrite", "search", "answer"}
    assert root.context is not None
    assert {parent(span) for span in spans.values()} == {root.context.span_id}
    assert attributes(spans["search"]) == {"chat.index": "fake", "chat.hits": 2}
    assert attributes(spans["answer"]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fake",
        "gen_ai.response.finish_reason": "stop",
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 9,
    }
    assert events(spans["answer"]) == events(spans["rewrite"]) == ["accepted", "first token"]


def test_request_span_has_the_fields_of_the_log_line() -> None:
    root = attributes(record_spans(make_rag(), post("/chat/stream"))["POST /chat/stream"])
    first = root.pop("chat.first_event_seconds")

    assert 0 <= first < 20
    assert root == {
        "chat.id": "call-1",
        "chat.route": "/chat/stream",
        "chat.status": 200,
        "chat.dialect": "ai-chat-protocol",
        "chat.hits": 2,
        "chat.tokens": 49,
        "chat.outcome": "ok",
    }


REFUSALS = [
    pytest.param(FakeModel([errors.TooManyRequests()]), None, "answer", id="by the model"),
    pytest.param(
        FakeModel([errors.Misconfigured(cause="inside")]), None, "answer", id="for a missing role"
    ),
    pytest.param(None, FakeRetriever(error=errors.Unavailable()), "search", id="by the search"),
    pytest.param(FakeModel([RuntimeError("inside")]), None, "answer", id="a bug"),
]


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
@pytest.mark.parametrize(("model", "retriever", "where"), REFUSALS)
def test_error_is_set_on_the_failing_span(
    route: str, model: FakeModel | None, retriever: FakeRetriever | None, where: str
) -> None:
    spans = record_spans(make_rag(model, retriever), post(route))
    root = spans[f"POST {route}"]

    assert not spans[where].status.is_ok
    assert "first token" not in events(spans[where])
    assert attributes(spans[where])["error.type"] in (
        attributes(root)["chat.outcome"],
        "RuntimeError",
    )
    assert attributes(root)["chat.status"] in (429, 500, 503)


BREAKS: Sequence[tuple[Sequence[Any], str]] = [
    ((Delta("x"), errors.Unavailable()), "Unavailable"),
    ((Delta("x"), RuntimeError("inside")), "RuntimeError"),
    ((Delta("x"),), "Unavailable"),  # a stream without end event
    ((Delta("x"), Done("content_filter")), "ContentFiltered"),
]


@pytest.mark.parametrize(("script", "error"), BREAKS)
def test_broken_stream_is_an_error_of_the_answer_span(script: Sequence[Any], error: str) -> None:
    spans = record_spans(make_rag(FakeModel(script)), post("/chat/stream"))
    root = spans["POST /chat/stream"]

    assert attributes(spans["answer"])["error.type"] == error
    assert events(spans["answer"]) == ["accepted", "first token"]
    assert attributes(root)["chat.status"] == 200
    assert attributes(root)["chat.outcome"] in (error, "ChatError")


def test_disconnect_ends_every_span_without_error() -> None:
    async def act(service: App) -> None:
        reply = await handle_call(service, call("/chat/stream", headers=JSON | SECRETS))
        assert reply.rest is not None
        await anext(reply.rest)
        await reply.rest.aclose()

    spans = record_spans(make_rag(FakeModel([Delta("x"), asyncio.Event()])), act)

    assert attributes(spans["POST /chat/stream"])["chat.outcome"] == "client gone"
    assert attributes(spans["answer"])["chat.outcome"] == "broken off"
    assert "error.type" not in {
        *attributes(spans["POST /chat/stream"]),
        *attributes(spans["answer"]),
    }


def test_disconnect_before_the_response_ends_every_span() -> None:
    async def gone() -> bool:
        return True

    async def act(service: App) -> None:
        await handle_call(service, call("/chat", gone=gone))

    spans = record_spans(make_rag(FakeModel([asyncio.Event()])), act)

    assert attributes(spans["POST /chat"])["chat.outcome"] == "client gone"
    assert attributes(spans["answer"])["chat.outcome"] == "broken off"


def test_deadline_ends_every_span() -> None:
    async def act(service: App) -> None:
        short = replace(service, limits=Limits(request_seconds=1))
        await read(await handle_call(short, call("/chat/stream")))

    spans = record_spans(make_rag(FakeModel([Delta("x"), asyncio.Event()])), act)

    assert attributes(spans["POST /chat/stream"])["chat.outcome"] == "DeadlineExceeded"
    assert attributes(spans["answer"])["chat.outcome"] == "broken off"


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SEARCH = {"query": {"match": {"text": "dental"}}}
QUESTIONS: list[Any] = [
    ("/ask", "", QUESTION),
    pytest.param("/aog/v0.2/services/{service}", "chat", QUESTION, marks=pytest.mark.part("aog")),
    pytest.param("/v1/chat/completions", "", QUESTION, marks=pytest.mark.part("openai")),
    pytest.param("/v1/responses", "", {"input": "Hello?"}, marks=pytest.mark.part("responses")),
    pytest.param(
        "/mcp", "", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, marks=pytest.mark.part("mcp")
    ),
    pytest.param(
        "/{index}/_search",
        "documents",
        {"query": {"match": {"text": "a"}}},
        marks=pytest.mark.part("opensearch"),
    ),
]


@pytest.mark.parametrize(("route", "path", "body"), QUESTIONS)
def test_request_of_every_protocol_has_a_span(route: str, path: str, body: Any) -> None:
    async def act(service: App) -> None:
        got = await read(await handle_call(service, call(route, body, path=path)))
        assert got.status == 200, got.data

    root = record_spans(make_rag(), act)[f"POST {route}"]

    assert attributes(root)["chat.status"] == 200
    assert root.status.is_ok


def test_health_request_has_no_span() -> None:
    async def act(service: App) -> None:
        await handle_call(service, replace(call("/health"), method="GET"))

    assert record_spans(make_rag(), act) == {}


@pytest.mark.parametrize("sampled", ["00", "01"])
def test_caller_span_is_the_parent_and_its_flag_is_ignored(sampled: str) -> None:
    above = f"00-{'a' * 31}1-{'b' * 15}2-{sampled}"
    root = record_spans(make_rag(), post("/chat", traceparent=above))["POST /chat"]

    assert root.context is not None
    assert f"{root.context.trace_id:032x}" == f"{'a' * 31}1"
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == f"{'b' * 15}2"


def test_ratio_samples_a_share_of_requests() -> None:
    assert record_spans(make_rag(), post("/chat"), ratio=0) == {}


@pytest.mark.parametrize("flag", ["00", "01"])
@pytest.mark.parametrize("trace", [f"{'a' * 16}{'0' * 15}1", "f" * 32])
def test_sampling_ignores_the_trace_id_and_flag(trace: str, flag: str) -> None:
    above = f"00-{trace}-{'b' * 16}-{flag}"

    assert record_spans(make_rag(), post("/chat", traceparent=above), ratio=1e-12) == {}
    assert record_spans(make_rag(), post("/chat", traceparent=above)).keys() >= {"search", "answer"}


class CollectingExporter(InMemorySpanExporter):
    """The exporter of TRACE_EXPORTER."""


def broken_exporter() -> None:
    raise RuntimeError("no connection string")


def test_setting_selects_the_exporter() -> None:
    service = start({"INDEX_FILE": "samples", "TRACE_EXPORTER": f"{__name__}:CollectingExporter"})

    assert isinstance(service.tracer, OpenTelemetryTracer)
    service.tracer.provider.shutdown()


def test_default_tracer_does_nothing() -> None:
    assert start({"INDEX_FILE": "samples"}).tracer is NOOP_TRACER
    assert NOOP_TRACER.start_request("x", {}) is NOOP_TRACER.start_child("y") is NOOP_TRACER


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "nonsense",
            "TRACE_EXPORTER must be azure-monitor, or a package.module:factory that can be "
            "imported",
        ),
        (
            f"{__name__}:broken_exporter",
            "TRACE_EXPORTER names an exporter that cannot be created: see the log",
        ),
        (
            "azure-monitor",  # requires APPLICATIONINSIGHTS_CONNECTION_STRING
            "TRACE_EXPORTER names an exporter that cannot be created: see the log",
        ),
    ],
)
def test_failing_exporter_is_a_problem_of_its_setting(name: str, problem: str) -> None:
    assert start({"INDEX_FILE": "samples", "TRACE_EXPORTER": name}).problems == (problem,)
