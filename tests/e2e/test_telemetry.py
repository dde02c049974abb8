"""What an operator sees of a request: its line in the log, its spans; never a word, never a key."""

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

from shared.app.service import Service
from shared.bootstrap.build import start
from shared.chat import errors
from shared.chat.events import Delta, Done
from shared.http.call import Limits
from shared.rag.flow import Rag
from shared.telemetry.open_telemetry import OpenTelemetryTracer
from shared.telemetry.spans import NOOP_TRACER
from tests.support.calls import JSON, QUESTION, call, read
from tests.support.fakes import FakeModel, FakeRetriever, engine
from tests.support.servers import OBEYING, ROOT, serving
from tests.support.upstream import Asked, Step, upstream, whole
from tests.support.upstream import Server as HttpServer

SECRETS = {"x-functions-key": "k3y", "authorization": "Bearer k3y", "x-ms-client-principal": "k3y"}
HISTORY = {
    "messages": [
        {"role": "user", "content": "Is dental care in Plus?"},
        {"role": "assistant", "content": "Crowns are."},
        {"role": "user", "content": "And the Zanzibar office?"},
    ]
}
# What was asked, found, rewritten, told or answered, and the keys: no span may have a word of it.
WORDS = re.compile("Plus|dental|Dental|Crowns|crowns|Zanzibar|k3y|plans/|inside")
Spans = dict[str, ReadableSpan]


def told_of(rag: Rag, act: Callable[[Service], Any], ratio: float = 1) -> Spans:
    """The spans of what is done with a service over fakes, by name; all of them have ended."""
    exporter = InMemorySpanExporter()
    tracing = OpenTelemetryTracer(exporter, ratio)
    asyncio.run(act(Service(rag, tracer=tracing, limits=Limits(request_seconds=20))))
    tracing.provider.shutdown()
    spans = exporter.get_finished_spans()
    assert not WORDS.search("".join(span.to_json() for span in spans))
    return {span.name: span for span in spans}


def asking(route: str, body: Any = QUESTION, **headers: str) -> Callable[[Service], Any]:
    async def act(service: Service) -> None:
        await read(await service.reply(call(route, body, JSON | SECRETS | headers)))

    return act


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_an_answer_is_a_span_with_its_search_rewrite_and_answer_beneath_it(route: str) -> None:
    spans = told_of(engine(), asking(route, HISTORY))
    root = spans.pop(f"POST {route}")

    assert set(spans) == {"rewrite", "search", "answer"}
    assert root.context is not None
    assert {parent(span) for span in spans.values()} == {root.context.span_id}
    assert facts(spans["search"]) == {"chat.index": "fake", "chat.hits": 2}
    assert facts(spans["answer"]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fake",
        "gen_ai.response.finish_reason": "stop",
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 9,
    }
    assert events(spans["answer"]) == events(spans["rewrite"]) == ["accepted", "first token"]


def test_a_request_s_span_says_what_its_line_says() -> None:
    root = facts(told_of(engine(), asking("/chat/stream"))["POST /chat/stream"])
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
def test_a_refusal_is_the_error_of_the_part_that_refused(
    route: str, model: FakeModel | None, retriever: FakeRetriever | None, where: str
) -> None:
    spans = told_of(engine(model, retriever), asking(route))
    root = spans[f"POST {route}"]

    assert not spans[where].status.is_ok
    assert "first token" not in events(spans[where])
    assert facts(spans[where])["error.type"] in (facts(root)["chat.outcome"], "RuntimeError")
    assert facts(root)["chat.status"] in (429, 500, 503)


BREAKS: Sequence[tuple[Sequence[Any], str]] = [
    ((Delta("x"), errors.Unavailable()), "Unavailable"),
    ((Delta("x"), RuntimeError("inside")), "RuntimeError"),
    ((Delta("x"),), "Unavailable"),  # it just ends
    ((Delta("x"), Done("content_filter")), "ContentFiltered"),
]


@pytest.mark.parametrize(("script", "error"), BREAKS)
def test_a_stream_that_breaks_is_the_answer_s_error(script: Sequence[Any], error: str) -> None:
    spans = told_of(engine(FakeModel(script)), asking("/chat/stream"))
    root = spans["POST /chat/stream"]

    assert facts(spans["answer"])["error.type"] == error
    assert events(spans["answer"]) == ["accepted", "first token"]
    assert facts(root)["chat.status"] == 200
    assert facts(root)["chat.outcome"] in (error, "ChatError")


def test_a_client_that_leaves_ends_every_span_and_is_no_error() -> None:
    async def act(service: Service) -> None:
        reply = await service.reply(call("/chat/stream", headers=JSON | SECRETS))
        assert reply.rest is not None
        await anext(reply.rest)
        await reply.rest.aclose()

    spans = told_of(engine(FakeModel([Delta("x"), asyncio.Event()])), act)

    assert facts(spans["POST /chat/stream"])["chat.outcome"] == "client gone"
    assert facts(spans["answer"])["chat.outcome"] == "broken off"
    assert "error.type" not in {*facts(spans["POST /chat/stream"]), *facts(spans["answer"])}


def test_a_client_that_leaves_before_the_response_ends_every_span() -> None:
    async def gone() -> bool:
        return True

    async def act(service: Service) -> None:
        await service.reply(call("/chat", gone=gone))

    spans = told_of(engine(FakeModel([asyncio.Event()])), act)

    assert facts(spans["POST /chat"])["chat.outcome"] == "client gone"
    assert facts(spans["answer"])["chat.outcome"] == "broken off"


def test_a_time_limit_ends_every_span() -> None:
    async def act(service: Service) -> None:
        short = replace(service, limits=Limits(request_seconds=1))
        await read(await short.reply(call("/chat/stream")))

    spans = told_of(engine(FakeModel([Delta("x"), asyncio.Event()])), act)

    assert facts(spans["POST /chat/stream"])["chat.outcome"] == "DeadlineExceeded"
    assert facts(spans["answer"])["chat.outcome"] == "broken off"


def test_a_request_that_asks_nothing_has_no_span() -> None:
    async def act(service: Service) -> None:
        await service.reply(replace(call("/health"), method="GET"))

    assert told_of(engine(), act) == {}


@pytest.mark.parametrize("sampled", ["00", "01"])
def test_the_caller_s_own_span_is_the_parent_and_its_flag_decides_nothing(sampled: str) -> None:
    above = f"00-{'a' * 31}1-{'b' * 15}2-{sampled}"
    root = told_of(engine(), asking("/chat", traceparent=above))["POST /chat"]

    assert root.context is not None
    assert f"{root.context.trace_id:032x}" == f"{'a' * 31}1"
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == f"{'b' * 15}2"


def test_a_share_of_the_requests_can_be_told_of() -> None:
    assert told_of(engine(), asking("/chat"), ratio=0) == {}


@pytest.mark.parametrize("flag", ["00", "01"])
@pytest.mark.parametrize("trace", [f"{'a' * 16}{'0' * 15}1", "f" * 32])
def test_which_requests_are_told_of_is_no_caller_s_choice(trace: str, flag: str) -> None:
    above = f"00-{trace}-{'b' * 16}-{flag}"

    assert told_of(engine(), asking("/chat", traceparent=above), ratio=1e-12) == {}
    assert told_of(engine(), asking("/chat", traceparent=above)).keys() >= {"search", "answer"}


class Collected(InMemorySpanExporter):
    """What `TRACE_EXPORTER` names here."""


def broken() -> None:
    raise RuntimeError("no connection string")


def test_the_settings_name_the_exporter() -> None:
    service = start({"INDEX_FILE": "samples", "TRACE_EXPORTER": f"{__name__}:Collected"})

    assert isinstance(service.tracer, OpenTelemetryTracer)
    service.tracer.provider.shutdown()


def test_without_the_setting_there_is_nothing_to_end() -> None:
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
            f"{__name__}:broken",
            "TRACE_EXPORTER names an exporter that cannot be created: see the log",
        ),
        (
            "azure-monitor",  # it wants APPLICATIONINSIGHTS_CONNECTION_STRING
            "TRACE_EXPORTER names an exporter that cannot be created: see the log",
        ),
    ],
)
def test_an_exporter_that_cannot_be_made_is_named(name: str, problem: str) -> None:
    assert start({"INDEX_FILE": "samples", "TRACE_EXPORTER": name}).problems == (problem,)


def test_spans_are_sent_from_a_server(kind: str, tmp_path: Path) -> None:
    console = "opentelemetry.sdk.trace.export:ConsoleSpanExporter"
    settings = {**OBEYING, "TRACE_EXPORTER": console, "OTEL_BSP_SCHEDULE_DELAY": "10"}
    body = {"messages": [{"role": "user", "content": "say Zanzibar"}]}
    with serving(kind, tmp_path, settings) as server, server.client() as client:
        answer = client.post("/chat/stream", json=body)
    request_id = answer.headers["x-request-id"]

    assert answer.status_code == 200
    assert '"name": "POST /chat/stream"' in server.log
    assert f'"chat.id": "{request_id}"' in server.log
    assert '"name": "first token"' in server.log
    assert "Zanzibar" not in server.log


# The worker's: it hands lines over to the host, which drops those outside of an invocation.
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
from shared.app.service import Service
ask(call("/chat/stream"), Service(engine()))
ask(call("/chat/stream"), Service(engine(FakeModel([Delta("x"), RuntimeError("inside")]))))
logging.getLogger("other").info("not ours")
"""


def test_in_the_worker_our_lines_take_their_own_way_each_once_and_in_one_piece() -> None:
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
        "INFO start: model=demo index=embedded files=folder",
        "INFO request",
        "HOST not ours",
    ]
    assert [line.split(" id=")[0] for line in errs] == ["ERROR request", "WARNING request"]
    assert "fakes.py" in errs[0]
    assert errs[1].endswith("outcome=ChatError")


def lines(caplog: pytest.LogCaptureFixture, route: str, rag: Rag) -> list[str]:
    caplog.set_level(logging.INFO, "chat")
    asyncio.run(asking(route)(Service(rag)))
    return [message for message in caplog.messages if " dialect=" in message]


def patterns() -> list[re.Pattern[str]]:
    """The `parse` clauses of the docs as regular expressions: each name is a value."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    found = re.findall(r"\| parse kind=relaxed message with (.*)", page)
    return [re.compile(kusto(clause)) for clause in found]


def kusto(clause: str) -> str:
    """`"id=" id " "` as `id=(?P<id>.*?) `, with `.*` for `*`; the last value takes the rest."""
    parts = re.findall(r'"((?:[^"])*)"|(\*)|(\w+)(?::\w+)?', clause)
    named = [text or (".*?" if star else f"(?P<{name}>.*?)") for text, star, name in parts]
    return "".join(named) + "$"


@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_the_query_of_the_docs_reads_the_real_line(
    route: str, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = lines(caplog, route, engine())
    (pattern,) = patterns()
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


def test_the_query_reads_a_line_with_things_unknown_and_an_outcome_of_two_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rag = engine(FakeModel([errors.TooManyRequests()]))
    (line,) = lines(caplog, "/chat", rag)
    (pattern,) = patterns()
    refused, left = pattern.match(line), pattern.match(f"{line.rpartition('=')[0]}=client gone")

    assert refused is not None
    assert (refused["hits"], refused["first"], refused["outcome"]) == ("-", "-", "TooManyRequests")
    assert left is not None
    assert left["outcome"] == "client gone"


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md"])
def test_the_line_in_the_docs_has_the_form_of_a_real_one(page: str) -> None:
    (shown,) = re.findall(r"```text\n(INFO request .*)\n", (ROOT / page).read_text("utf-8"))
    (pattern,) = patterns()
    read = pattern.match(shown)

    assert read is not None
    assert (read["route"], read["outcome"]) == ("/chat/stream", "ok")


class Ingestion(HttpServer):
    """Application Insights' door: takes everything."""

    def refusal(self, asked: Asked) -> list[Step] | None:
        return None

    def answer(self, asked: Asked) -> list[Step]:
        count = len(asked.body)
        return whole({"itemsReceived": count, "itemsAccepted": count, "errors": []})


def test_application_insights_gets_the_spans_and_no_word(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "say Zanzibar"}]}
    with upstream(Ingestion()) as door:
        where = f"InstrumentationKey={uuid.uuid4()};IngestionEndpoint={door.url}/"
        settings = {
            **OBEYING,
            "TRACE_EXPORTER": "azure-monitor",
            "APPLICATIONINSIGHTS_CONNECTION_STRING": where,
            # Counts of its own, to the real service and to this one.
            "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
            "APPLICATIONINSIGHTS_SDKSTATS_DISABLED": "true",
        }
        with serving("dev", tmp_path, settings) as server, server.client() as client:
            client.post("/chat/stream", json=body)
        # what is left is sent at the end

    sent = [item for asked in door.asked for item in asked.body]
    spans = [it["data"] for it in sent if it["data"]["baseType"] == "RemoteDependencyData"]
    told = {span["baseData"]["name"]: span["baseData"] for span in spans}
    events = [it["data"]["baseData"]["message"] for it in sent if it["data"] not in spans]
    root = told["POST /chat/stream"]["properties"]
    assert {"POST /chat/stream", "search", "answer"} <= told.keys()
    assert {"chat.outcome": "ok", "chat.status": "200", "chat.tokens": "49"}.items() <= root.items()
    assert told["answer"]["properties"]["gen_ai.request.model"] == "obeying"
    assert sorted(events) == ["accepted", "first token"]
    assert "Zanzibar" not in json.dumps(sent)
    assert "Transmission" not in server.log
