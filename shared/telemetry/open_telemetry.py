"""Exports spans with OpenTelemetry, in batches from a background thread.

Imported only if the settings name an exporter: Azure Monitor's takes a third of a cold start.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.telemetry.access_log import Attributes

TRACE_CONTEXT = TraceContextTextMapPropagator()


class RatioSampler(Sampler):
    """Samples a random share of the requests, not by trace id: callers may choose that."""

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio

    def should_sample(self, *_: object, **__: object) -> SamplingResult:
        is_sampled = random.random() < self._ratio
        return SamplingResult(Decision.RECORD_AND_SAMPLE if is_sampled else Decision.DROP)

    def get_description(self) -> str:
        return f"RatioSampler({self._ratio})"


class OpenTelemetryTracer:
    """Makes spans for an exporter; `ratio` is the share of sampled requests, 0 to 1.

    The sampling flag of a caller's `traceparent` is ignored: the platform's often says no. Child
    spans follow their request.
    """

    def __init__(self, exporter: SpanExporter, ratio: float) -> None:
        root = RatioSampler(ratio)
        sampler = ParentBased(root, remote_parent_sampled=root, remote_parent_not_sampled=root)
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer("chat")

    def start_request(self, name: str, headers: Mapping[str, str]) -> OpenTelemetrySpan:
        """Start the span of a request, as a child of the one in its `traceparent`.

        Not of kind SERVER: the platform reports every request itself, and would count it twice.
        """
        parent = TRACE_CONTEXT.extract(headers, Context())
        return OpenTelemetrySpan(self._tracer, self._tracer.start_span(name, parent))


@dataclass(frozen=True, slots=True)
class OpenTelemetrySpan:
    """A span of OpenTelemetry, with the tracer that makes its children."""

    tracer: trace.Tracer
    span: trace.Span

    def start_child(self, name: str) -> OpenTelemetrySpan:
        parent = set_span_in_context(self.span, Context())
        return OpenTelemetrySpan(self.tracer, self.tracer.start_span(name, parent))

    def set_attributes(self, attributes: Attributes) -> None:
        self.span.set_attributes(attributes)

    def add_event(self, name: str) -> None:
        self.span.add_event(name)

    def end(self, error: str = "") -> None:
        if error:
            self.span.set_attribute("error.type", error)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()
