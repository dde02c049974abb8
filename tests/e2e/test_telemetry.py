"""The log line of a request, and the spans that a server exports, without text or keys."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from shared.domain import errors
from shared.rag.inputs import Rag
from tests.support.calls import ask, call, local_service
from tests.support.fakes import FakeModel, make_rag
from tests.support.servers import COMMAND_MODEL, ROOT, run_server
from tests.support.upstream import RecordedRequest, Step, json_response, run_upstream
from tests.support.upstream import Server as HttpServer


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
from tests.support.fakes import FakeModel, make_rag
from shared.domain.events import Delta
from shared.app import handle_call
from shared.protocols.exchange import App
ask(call("/chat/stream"), App(make_rag()))
ask(call("/chat/stream"), App(make_rag(FakeModel([Delta("x"), RuntimeError("inside")]))))
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
    ask(call(route), local_service(rag))
    return [message for message in caplog.messages if " dialect=" in message]


def patterns() -> list[re.Pattern[str]]:
    """Convert the `parse` clauses of the docs to regular expressions with named groups.

    They parse requests, requests by the hour, the requests that a rating is about, ratings, and
    their reasons.
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
    (line,) = lines(caplog, route, make_rag())
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


def test_docs_query_counts_by_the_hour(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = lines(caplog, "/chat/stream", make_rag())
    _, hourly, *_ = patterns()
    read = hourly.match(f"INFO {line}")

    assert read is not None
    assert (read["tokens"], read["outcome"]) == ("49", "ok")
    assert 0 <= float(read["first"]) < 20


def test_docs_query_parses_unknown_values_and_long_outcomes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rag = make_rag(FakeModel([errors.TooManyRequests()]))
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
    (line,) = lines(caplog, "/chat", make_rag())
    _, _, answers, ratings, _ = patterns()
    answer = answers.match(f"INFO {line}")
    assert answer is not None
    body = {"request_id": answer["request"], "rating": "down"}
    ask(call("/feedback", body))
    (rating,) = [ratings.match(each) for each in caplog.messages if "feedback id=" in each]

    assert rating is not None
    assert (rating["request"], rating["rating"]) == ("call-1", "down")
    assert (answer["dialect"], answer["hits"]) == ("ai-chat-protocol", "2")


@pytest.mark.part("feedback")
def test_docs_query_counts_the_reasons_of_ratings(caplog: pytest.LogCaptureFixture) -> None:
    *_, reasons = patterns()
    with caplog.at_level("INFO", "chat"):
        ask(call("/feedback", {"request_id": "a", "rating": "down", "reasons": ["irrelevant"]}))
    (line,) = [each for each in caplog.messages if "feedback reason=" in each]
    reason = reasons.match(line)

    assert reason is not None
    assert (reason["reason"], reason["request"]) == ("irrelevant", "a")


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
