"""The log line and the spans of a request, without text or keys."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.app import Service
from shared.bootstrap.build import start
from shared.chat import errors
from shared.chat.events import Delta, Done
from shared.http.call import Limits
from shared.rag.flow import Rag
from shared.telemetry.open_telemetry import OpenTelemetryTracer
from shared.telemetry.spans import NOOP_TRACER
from tests.support.calls import JSON, QUESTION, ask, call, local_service, read
from tests.support.fakes import FakeModel, FakeRetriever, engine
from tests.support.servers import COMMAND_MODEL, ROOT, run_server
from tests.support.upstream import RecordedRequest, Step, json_response, run_upstream
from tests.support.upstream import Server as HttpServer

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


def record_spans(rag: Rag, act: Callable[[Service], Any], ratio: float = 1) -> Spans:
    """Run `act` with a service over fakes; return its spans by name, all of them ended."""
    exporter = InMemorySpanExporter()
    tracing = OpenTelemetryTracer(exporter, ratio)
    asyncio.run(act(local_service(rag, tracer=tracing, limits=Limits(request_seconds=20))))
    tracing.provider.shutdown()
    spans = exporter.get_finished_spans()
    assert not WORDS.search("".join(span.to_json() for span in spans))
    return {span.name: span for span in spans}


def post(route: str, body: Any = QUESTION, **headers: str) -> Callable[[Service], Any]:
    async def act(service: Service) -> None:
        await read(await service.reply(call(route, body, JSON | SECRETS | headers)))

    return act


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_request_span_has_search_rewrite_and_answer_children(route: str) -> None:
    spans = record_spans(engine(), post(route, HISTORY))
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
    root = attributes(record_spans(engine(), post("/chat/stream"))["POST /chat/stream"])
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
    spans = record_spans(engine(model, retriever), post(route))
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
    spans = record_spans(engine(FakeModel(script)), post("/chat/stream"))
    root = spans["POST /chat/stream"]

    assert attributes(spans["answer"])["error.type"] == error
    assert events(spans["answer"]) == ["accepted", "first token"]
    assert attributes(root)["chat.status"] == 200
    assert attributes(root)["chat.outcome"] in (error, "ChatError")


def test_disconnect_ends_every_span_without_error() -> None:
    async def act(service: Service) -> None:
        reply = await service.reply(call("/chat/stream", headers=JSON | SECRETS))
        assert reply.rest is not None
        await anext(reply.rest)
        await reply.rest.aclose()

    spans = record_spans(engine(FakeModel([Delta("x"), asyncio.Event()])), act)

    assert attributes(spans["POST /chat/stream"])["chat.outcome"] == "client gone"
    assert attributes(spans["answer"])["chat.outcome"] == "broken off"
    assert "error.type" not in {
        *attributes(spans["POST /chat/stream"]),
        *attributes(spans["answer"]),
    }


def test_disconnect_before_the_response_ends_every_span() -> None:
    async def gone() -> bool:
        return True

    async def act(service: Service) -> None:
        await service.reply(call("/chat", gone=gone))

    spans = record_spans(engine(FakeModel([asyncio.Event()])), act)

    assert attributes(spans["POST /chat"])["chat.outcome"] == "client gone"
    assert attributes(spans["answer"])["chat.outcome"] == "broken off"


def test_deadline_ends_every_span() -> None:
    async def act(service: Service) -> None:
        short = replace(service, limits=Limits(request_seconds=1))
        await read(await short.reply(call("/chat/stream")))

    spans = record_spans(engine(FakeModel([Delta("x"), asyncio.Event()])), act)

    assert attributes(spans["POST /chat/stream"])["chat.outcome"] == "DeadlineExceeded"
    assert attributes(spans["answer"])["chat.outcome"] == "broken off"


def test_health_request_has_no_span() -> None:
    async def act(service: Service) -> None:
        await service.reply(replace(call("/health"), method="GET"))

    assert record_spans(engine(), act) == {}


@pytest.mark.parametrize("sampled", ["00", "01"])
def test_caller_span_is_the_parent_and_its_flag_is_ignored(sampled: str) -> None:
    above = f"00-{'a' * 31}1-{'b' * 15}2-{sampled}"
    root = record_spans(engine(), post("/chat", traceparent=above))["POST /chat"]

    assert root.context is not None
    assert f"{root.context.trace_id:032x}" == f"{'a' * 31}1"
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == f"{'b' * 15}2"


def test_ratio_samples_a_share_of_requests() -> None:
    assert record_spans(engine(), post("/chat"), ratio=0) == {}


@pytest.mark.parametrize("flag", ["00", "01"])
@pytest.mark.parametrize("trace", [f"{'a' * 16}{'0' * 15}1", "f" * 32])
def test_sampling_ignores_the_trace_id_and_flag(trace: str, flag: str) -> None:
    above = f"00-{trace}-{'b' * 16}-{flag}"

    assert record_spans(engine(), post("/chat", traceparent=above), ratio=1e-12) == {}
    assert record_spans(engine(), post("/chat", traceparent=above)).keys() >= {"search", "answer"}


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


def test_server_exports_spans(kind: str, tmp_path: Path) -> None:
    console = "opentelemetry.sdk.trace.export:ConsoleSpanExporter"
    settings = {**COMMAND_MODEL, "TRACE_EXPORTER": console, "OTEL_BSP_SCHEDULE_DELAY": "10"}
    body = {"messages": [{"role": "user", "content": "say Zanzibar"}]}
    with run_server(kind, tmp_path, settings) as server, server.client() as client:
        answer = client.post("/chat/stream", json=body)
    request_id = answer.headers["x-request-id"]

    assert answer.status_code == 200
    assert '"name": "POST /chat/stream"' in server.log
    assert f'"chat.id": "{request_id}"' in server.log
    assert '"name": "first token"' in server.log
    assert "Zanzibar" not in server.log


# As in the worker: the host drops records outside of an invocation.
WORKER = """
import asyncio, logging
class AsyncLoggingHandler(logging.Handler):
    def emit(self, record):
        print("HOST", record.getMessage())
logging.root.addHandler(AsyncLoggingHandler())
logging.root.setLevel(logging.INFO)
import function_app
from tests.support.calls import ask, call
from tests.support.fakes import FakeModel, engine
from shared.chat.events import Delta
from shared.app import Service
ask(call("/chat/stream"), Service(engine()))
ask(call("/chat/stream"), Service(engine(FakeModel([Delta("x"), RuntimeError("inside")]))))
logging.getLogger("other").info("not ours")
"""


ROWS = [
    json.loads(line)
    for line in (ROOT / "shared" / "data" / "samples.jsonl").read_text("utf-8").splitlines()
]
SAMPLES = f"samples: {len({row['sourcefile'] for row in ROWS})} documents, {len(ROWS)} passages"


def test_worker_logs_each_line_once_to_its_output() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        cwd=ROOT,
        env={"INDEX_FILE": "samples"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    out, errs = done.stdout.splitlines(), done.stderr.splitlines()

    assert done.returncode == 0, done.stderr
    assert [line.split(" id=")[0] for line in out] == [
        f"INFO start: model=demo index=embedded files=folder; {SAMPLES}, searched by words",
        "INFO request",
        "HOST not ours",
    ]
    assert [line.split(" id=")[0] for line in errs] == ["ERROR request", "WARNING request"]
    assert "fakes.py" in errs[0]
    assert errs[1].endswith("outcome=ChatError")


def lines(caplog: pytest.LogCaptureFixture, route: str, rag: Rag) -> list[str]:
    caplog.set_level(logging.INFO, "chat")
    asyncio.run(post(route)(local_service(rag)))
    return [message for message in caplog.messages if " dialect=" in message]


def patterns() -> list[re.Pattern[str]]:
    """Convert the `parse` clauses of the docs to regular expressions with named groups.

    They parse requests, the requests that a rating is about, and ratings.
    """
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    clauses = re.findall(r"\| parse (?:kind=relaxed )?message with ([^;\n]*)", page)
    return [re.compile(to_regex(clause)) for clause in clauses]


def to_regex(clause: str) -> str:
    """Convert `"id=" id " "` to `id=(?P<id>.*?) `, `*` to `.*`; the last group takes the rest."""
    parts = re.findall(r'"((?:[^"])*)"|(\*)|(\w+)(?::\w+)?', clause)
    groups = [text or (".*?" if star else f"(?P<{name}>.*?)") for text, star, name in parts]
    return "".join(groups) + "$"


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_docs_query_parses_the_log_line(route: str, caplog: pytest.LogCaptureFixture) -> None:
    (line,) = lines(caplog, route, engine())
    pattern, *_ = patterns()
    read = pattern.match(f"INFO {line}")

    assert read is not None
    values = read.groupdict()
    assert {name: values[name] for name in ("id", "method", "route", "dialect")} == {
        "id": "call-1",
        "method": "POST",
        "route": route,
        "dialect": "ai-chat-protocol",
    }
    assert {name: values[name] for name in ("status", "hits", "tokens", "outcome")} == {
        "status": "200",
        "hits": "2",
        "tokens": "49",
        "outcome": "ok",
    }
    assert 0 <= float(values["first"]) <= float(values["total"]) < 20


def test_docs_query_parses_unknown_values_and_long_outcomes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rag = engine(FakeModel([errors.TooManyRequests()]))
    (line,) = lines(caplog, "/chat", rag)
    pattern, *_ = patterns()
    unmatched, match = pattern.match(line), pattern.match(f"{line.rpartition('=')[0]}=client gone")

    assert unmatched is not None
    assert (unmatched["hits"], unmatched["first"], unmatched["outcome"]) == (
        "-",
        "-",
        "TooManyRequests",
    )
    assert match is not None
    assert match["outcome"] == "client gone"


def test_docs_query_joins_a_rating_with_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = lines(caplog, "/chat", engine())
    _, answers, ratings = patterns()
    answer = answers.match(f"INFO {line}")
    assert answer is not None
    body = {"request_id": answer["request"], "rating": "down"}
    ask(call("/feedback", body))
    (rating,) = [ratings.match(each) for each in caplog.messages if "feedback id=" in each]

    assert rating is not None
    assert (rating["request"], rating["rating"]) == ("call-1", "down")
    assert (answer["dialect"], answer["hits"]) == ("ai-chat-protocol", "2")


def test_docs_log_line_has_the_real_form() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    (line,) = re.findall(r"```text\n(INFO request .*)\n", page)
    pattern, *_ = patterns()
    match = pattern.match(line)

    assert match is not None
    assert (match["route"], match["outcome"]) == ("/chat/stream", "ok")


class Ingestion(HttpServer):
    """A fake ingestion endpoint of Application Insights."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        return None

    def respond(self, request: RecordedRequest) -> list[Step]:
        count = len(request.body)
        return json_response({"itemsReceived": count, "itemsAccepted": count, "errors": []})


def test_application_insights_gets_spans_without_text(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "say Zanzibar"}]}
    with run_upstream(Ingestion()) as ingestion:
        where = f"InstrumentationKey={uuid.uuid4()};IngestionEndpoint={ingestion.url}/"
        settings = {
            **COMMAND_MODEL,
            "TRACE_EXPORTER": "azure-monitor",
            "APPLICATIONINSIGHTS_CONNECTION_STRING": where,
            # The exporter's own statistics.
            "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
            "APPLICATIONINSIGHTS_SDKSTATS_DISABLED": "true",
        }
        with run_server("dev", tmp_path, settings) as server, server.client() as client:
            client.post("/chat/stream", json=body)
        # flushed at the end

    items = [item for request in ingestion.requests for item in request.body]
    spans = [it["data"] for it in items if it["data"]["baseType"] == "RemoteDependencyData"]
    by_name = {span["baseData"]["name"]: span["baseData"] for span in spans}
    events = [it["data"]["baseData"]["message"] for it in items if it["data"] not in spans]
    root = by_name["POST /chat/stream"]["properties"]
    assert {"POST /chat/stream", "search", "answer"} <= by_name.keys()
    assert {"chat.outcome": "ok", "chat.status": "200", "chat.tokens": "49"}.items() <= root.items()
    assert by_name["answer"]["properties"]["gen_ai.request.model"] == "command_model"
    assert sorted(events) == ["accepted", "first token"]
    assert "Zanzibar" not in json.dumps(items)
    assert "Transmission" not in server.log
